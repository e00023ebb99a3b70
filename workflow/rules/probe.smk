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
            modules=["relearn.measures.gradient_statistics", "relearn.steps.task_translation"],
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
