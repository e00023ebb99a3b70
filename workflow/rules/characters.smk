# characters: a text as characters, sentence by sentence.


rule characters_all:
    input:
        f"{CHARACTERS_RUN}/record.json",
    localrule: True


rule characters:
    output:
        record=f"{CHARACTERS_RUN}/record.json",
        characters=f"{CHARACTERS_RUN}/characters.safetensors",
    log:
        f"{ROOT}/logs/characters/characters.log",
    benchmark:
        f"{ROOT}/benchmarks/characters/characters.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=canonical(CHARACTERS),
        code=code_version("relearn.steps.characters", text_module(CHARACTERS["dataset"])),
        dataset=CHARACTERS["dataset"],
    shell:
        "relearn characters --study l2_attention --settings {params.settings:q} --code {params.code}"
        " --label dataset={params.dataset}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
