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
