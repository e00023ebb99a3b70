# prepare: the data set, checked, and its splits.
PREPARED = f"{ROOT}/runs/poisoning/prepare/{POISONING['prepare']['dataset']}"


rule prepare_all:
    localrule: True
    input:
        f"{PREPARED}/record.json",


rule prepare:
    output:
        record=f"{PREPARED}/record.json",
        data=f"{PREPARED}/data.safetensors",
    log:
        f"{ROOT}/logs/prepare.log",
    benchmark:
        f"{ROOT}/benchmarks/prepare.tsv"
    params:
        settings=canonical(POISONING["prepare"]),
        code=code_version("relearn.steps.prepare", dataset_module(POISONING["prepare"]["dataset"])),
        dataset=POISONING["prepare"]["dataset"],
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        gpu=0,
    shell:
        "relearn prepare --settings {params.settings:q} --code {params.code}"
        " --label dataset={params.dataset} --threads {threads} {HOW}"
        " --out $(dirname {output.record:q}) --log {log:q}"
