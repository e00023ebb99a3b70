# prepare: the data set, checked, and its splits.


rule prepare_all:
    input:
        f"{PREPARED}/record.json",
    localrule: True


rule prepare:
    output:
        record=f"{PREPARED}/record.json",
        data=f"{PREPARED}/data.safetensors",
    log:
        f"{ROOT}/logs/prepare.log",
    benchmark:
        f"{ROOT}/benchmarks/prepare.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=canonical(POISONING["prepare"]),
        code=code_version("relearn.steps.prepare", dataset_module(POISONING["prepare"]["dataset"])),
        dataset=POISONING["prepare"]["dataset"],
    shell:
        "relearn prepare --settings {params.settings:q} --code {params.code}"
        " --label dataset={params.dataset} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
