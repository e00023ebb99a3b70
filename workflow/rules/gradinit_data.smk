# The data of chapter 4: images, all of them for training, a listing of ImageNet's, and a corpus in byte-pair units.


rule gradinit_data:
    input:
        f"{G_PREPARED}/record.json" if START_RUNS else [],
        f"{LISTING_RUN}/record.json" if FOLDER_STARTS else [],
        f"{CORPUS_RUN}/record.json" if T_START_RUNS else [],
    localrule: True


rule prepare_gradinit:
    output:
        record=f"{G_PREPARED}/record.json",
        data=f"{G_PREPARED}/data.safetensors",
    log:
        f"{ROOT}/logs/gradinit/prepare.log",
    benchmark:
        f"{ROOT}/benchmarks/gradinit/prepare.tsv"
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
        settings=canonical(prepare_gradinit_settings()),
        code=code_version("relearn.steps.prepare", dataset_module(G_DATASET)),
        dataset=G_DATASET,
    shell:
        "relearn prepare --study gradinit --settings {params.settings:q} --code {params.code}"
        " --label dataset={params.dataset}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule folder:
    output:
        record=f"{LISTING_RUN}/record.json",
        listing=f"{LISTING_RUN}/listing.json",
    log:
        f"{ROOT}/logs/gradinit/folder.log",
    benchmark:
        f"{ROOT}/benchmarks/gradinit/folder.tsv"
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
        settings=folder_settings,
        code=code_version("relearn.steps.folder"),
        dataset=FOLDER,
    shell:
        "relearn folder --study gradinit --settings {params.settings:q} --code {params.code}"
        " --label dataset={params.dataset}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule corpus:
    output:
        record=f"{CORPUS_RUN}/record.json",
        corpus=f"{CORPUS_RUN}/corpus.safetensors",
    log:
        f"{ROOT}/logs/gradinit/corpus.log",
    benchmark:
        f"{ROOT}/benchmarks/gradinit/corpus.tsv"
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
        settings=canonical(CORPUS),
        code=code_version("relearn.steps.corpus", corpus_module(CORPUS["dataset"])),
        dataset=CORPUS["dataset"],
    shell:
        "relearn corpus --study gradinit --settings {params.settings:q} --code {params.code}"
        " --label dataset={params.dataset}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
