# acquire: an encoder and its tokenizer from texts alone, by masked language modelling (zhu2022, chapter 3, where no checkpoint is named).


rule acquire_all:
    input:
        expand("{run}/record.json", run=ACQUIRE_RUNS),
    localrule: True


rule acquire:
    output:
        record=f"{ACQUIRE_RUN}/record.json",
        history=f"{ACQUIRE_RUN}/history.csv",
        encoder=f"{ACQUIRE_RUN}/encoder.safetensors",
    log:
        f"{ROOT}/logs/freelb/acquire/{{encoder}}.log",
    benchmark:
        f"{ROOT}/benchmarks/freelb/acquire/{{encoder}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=acquire_settings,
        code=code_version("relearn.steps.acquire"),
        seed=FB_SEEDS[0],
    shell:
        "relearn acquire --study freelb --settings {params.settings:q} --code {params.code}"
        " --label encoder={wildcards.encoder}"
        " --seed {params.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
