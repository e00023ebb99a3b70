# The data of chapter 4: images, all of them for training, a listing of ImageNet's, and a corpus in byte-pair units.


rule gradinit_data:
    input:
        f"{G_PREPARED}/record.json" if START_RUNS else [],
        f"{LISTING_RUN}/record.json" if FOLDER_STARTS else [],
        f"{CORPUS_RUN}/record.json" if T_START_RUNS else [],
    localrule: True


use rule run as prepare_gradinit with:
    output:
        record=f"{G_PREPARED}/record.json",
        data=f"{G_PREPARED}/data.safetensors",
    log:
        f"{ROOT}/logs/gradinit/prepare.log",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "prepare",
            study="gradinit",
            settings=prepare_gradinit_settings(),
            modules=[dataset_module(G_DATASET)],
            seed=None,
            dataset=G_DATASET,
        ),


use rule run as folder with:
    output:
        record=f"{LISTING_RUN}/record.json",
        listing=f"{LISTING_RUN}/listing.json",
    log:
        f"{ROOT}/logs/gradinit/folder.log",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words("folder", study="gradinit", settings=folder_settings, seed=None, dataset=FOLDER),


use rule run as corpus with:
    output:
        record=f"{CORPUS_RUN}/record.json",
        corpus=f"{CORPUS_RUN}/corpus.safetensors",
    log:
        f"{ROOT}/logs/gradinit/corpus.log",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "corpus",
            study="gradinit",
            settings=CORPUS,
            modules=[corpus_module(CORPUS["dataset"])],
            seed=None,
            dataset=CORPUS["dataset"],
        ),
