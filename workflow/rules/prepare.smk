# prepare: the data set, checked, and its splits.


rule prepare_all:
    input:
        f"{PREPARED}/record.json",
        expand(f"{SUBSET_RUN}/record.json", part=PARTS if OVERLAP["victims"] else []),
    localrule: True


use rule run as prepare with:
    output:
        record=f"{PREPARED}/record.json",
        data=f"{PREPARED}/data.safetensors",
    log:
        f"{ROOT}/logs/prepare.log",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "prepare",
            study="poisoning",
            settings=POISONING["prepare"],
            modules=[dataset_module(POISONING["prepare"]["dataset"])],
            seed=None,
            dataset=POISONING["prepare"]["dataset"],
        ),


use rule run as subset with:
    input:
        data=rules.prepare.output.data,
    output:
        record=f"{SUBSET_RUN}/record.json",
        data=f"{SUBSET_RUN}/data.safetensors",
    log:
        f"{ROOT}/logs/subset/{{part}}.log",
    resources:
        **needs(mem_mb=4000, minutes=15, gpu=0),
    params:
        **words(
            "subset",
            study="poisoning",
            settings=lambda wildcards: dict(zip(("start", "stop"), PARTS[wildcards.part])),
            seed=None,
            dataset=DATASET,
        ),
