# prepare: the data set, checked, and its splits.


rule prepare_all:
    input:
        f"{PREPARED}/record.json",
        expand(f"{SUBSET_RUN}/record.json", part=PARTS if OVERLAP["victims"] else []),
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


rule subset:
    input:
        data=rules.prepare.output.data,
    output:
        record=f"{SUBSET_RUN}/record.json",
        data=f"{SUBSET_RUN}/data.safetensors",
    log:
        f"{ROOT}/logs/subset/{{part}}.log",
    benchmark:
        f"{ROOT}/benchmarks/subset/{{part}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=15,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=lambda wildcards: canonical(dict(zip(("start", "stop"), PARTS[wildcards.part]))),
        code=code_version("relearn.steps.subset"),
        dataset=DATASET,
    shell:
        "relearn subset --settings {params.settings:q} --code {params.code} --input data {input.data:q}"
        " --label dataset={params.dataset} --label part={wildcards.part} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
