# The study `gradinit` (zhu2022, chapter 4).


include: "../settings/gradinit.smk"


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


# initialise: a network's start by each method, for images and for translation.
rule initialise_all:
    input:
        expand("{run}/record.json", run=START_RUNS + T_START_RUNS),
    localrule: True


use rule run as initialise with:
    input:
        data=images_of,
    output:
        record=f"{START_RUN}/record.json",
        weights=f"{START_RUN}/weights.safetensors",
        scales=f"{START_RUN}/scales.csv",
        history=f"{START_RUN}/history.csv",
    log:
        f"{ROOT}/logs/initialise/{{suite}}/{{network}}/{{initialisation}}/seed{{seed}}.log",
    wildcard_constraints:
        suite=G_SUITES,
    threads: lambda wildcards: decoders(wildcards.suite)
    resources:
        **needs(mem_mb=12000, minutes=lambda wildcards: minutes(wildcards.suite, 240)),
    params:
        **words("initialise", study="gradinit", settings=start_settings, modules=start_modules, task="images"),


use rule run as initialise_translation with:
    input:
        data=rules.corpus.output.corpus,
    output:
        record=f"{T_START_RUN}/record.json",
        weights=f"{T_START_RUN}/weights.safetensors",
        scales=f"{T_START_RUN}/scales.csv",
        history=f"{T_START_RUN}/history.csv",
    log:
        f"{ROOT}/logs/initialise/translation/{{network}}/{{initialisation}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=8000, minutes=240),
    params:
        **words(
            "initialise",
            study="gradinit",
            settings=translation_start_settings,
            modules=translation_start_modules,
            task="translation",
        ),


# learn, translate: training from each start.
rule learn_all:
    input:
        expand("{run}/record.json", run=LEARN_RUNS + TRANSLATE_RUNS),
    localrule: True


use rule run as learn with:
    input:
        data=images_of,
        start=rules.initialise.output.weights,
    output:
        record=f"{LEARN_RUN}/record.json",
        history=f"{LEARN_RUN}/history.csv",
    log:
        f"{ROOT}/logs/learn/{{suite}}/{{network}}/{{initialisation}}/{{recipe}}/seed{{seed}}.log",
    wildcard_constraints:
        suite=G_SUITES,
    threads: lambda wildcards: decoders(wildcards.suite)
    resources:
        **needs(mem_mb=12000, minutes=lambda wildcards: minutes(wildcards.suite, 1440)),
    params:
        **words("learn", study="gradinit", settings=learn_settings, modules=learn_modules, task="images"),


use rule run as translate with:
    input:
        corpus=rules.corpus.output.corpus,
        start=rules.initialise_translation.output.weights,
    output:
        record=f"{TRANSLATE_RUN}/record.json",
        history=f"{TRANSLATE_RUN}/history.csv",
        hypotheses=f"{TRANSLATE_RUN}/hypotheses.txt",
    log:
        f"{ROOT}/logs/translate/{{network}}/{{initialisation}}/{{recipe}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=8000, minutes=1440),
    params:
        **words("translate", study="gradinit", settings=translate_settings, task="translation"),


# probe: gradients before and after an initialisation, and what holds without training.
rule probe_all:
    input:
        expand("{run}/record.json", run=PROBE_RUNS),
    localrule: True


use rule run as probe with:
    input:
        data=images_of,
        network=rules.initialise.output.weights,
    output:
        record=f"{STATISTICS_RUN}/record.json",
        layers=f"{STATISTICS_RUN}/layers.csv",
    log:
        f"{ROOT}/logs/probe/gradient_statistics/{{suite}}/{{network}}/{{initialisation}}/seed{{seed}}.log",
    wildcard_constraints:
        suite=G_SUITES,
    threads: lambda wildcards: decoders(wildcards.suite)
    resources:
        **needs(mem_mb=12000, minutes=lambda wildcards: minutes(wildcards.suite, 120)),
    params:
        **words(
            "probe",
            study="gradinit",
            settings=probe_settings,
            modules=probe_modules,
            protocol="gradient_statistics",
            task="images",
        ),


use rule run as probe_translation with:
    input:
        data=rules.corpus.output.corpus,
        network=rules.initialise_translation.output.weights,
    output:
        record=f"{T_STATISTICS_RUN}/record.json",
        layers=f"{T_STATISTICS_RUN}/layers.csv",
    log:
        f"{ROOT}/logs/probe/gradient_statistics/translation/{{network}}/{{initialisation}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=8000, minutes=120),
    params:
        **words(
            "probe",
            study="gradinit",
            settings=translation_probe_settings,
            modules=["relearn.measures.gradient_statistics", "relearn.steps.tasks.translation"],
            protocol="gradient_statistics",
            task="translation",
        ),


use rule run as probe_batch_norm with:
    output:
        record=f"{BATCH_NORM_RUN}/record.json",
        cases=f"{BATCH_NORM_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/probe/batch_norm/seed{{seed}}.log",
    resources:
        **needs(mem_mb=2000, minutes=30, gpu=0),
    params:
        **words(
            "probe",
            study="gradinit",
            settings={"protocol": "batch_norm", "draws": PROBE["variance_draws"]},
            modules=["relearn.measures.batch_norm_gradient"],
            protocol="batch_norm",
        ),


use rule run as probe_parameter_counts with:
    output:
        record=f"{COUNTS_RUN}/record.json",
        counts=f"{COUNTS_RUN}/counts.csv",
    log:
        f"{ROOT}/logs/probe/parameter_counts/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "probe",
            study="gradinit",
            settings={"protocol": "parameter_counts"},
            modules=["relearn.measures.parameter_counts", *COUNTED_MODULES],
            protocol="parameter_counts",
        ),
