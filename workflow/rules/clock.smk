# clock: a training step of each attention beside that of the dot product (table 1).


rule clock_all:
    input:
        expand("{run}/record.json", run=CLOCK_RUNS),
    localrule: True


rule clock:
    input:
        characters=rules.characters.output.characters,
    output:
        record=f"{CLOCK_RUN}/record.json",
        times=f"{CLOCK_RUN}/times.csv",
    log:
        f"{ROOT}/logs/clock/{{attention}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/clock/{{attention}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=240,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=clock_settings,
        code=code_version("relearn.steps.clock"),
    shell:
        "relearn clock --study l2_attention --settings {params.settings:q} --code {params.code}"
        " --input characters {input.characters:q}"
        " --label attention={wildcards.attention}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
