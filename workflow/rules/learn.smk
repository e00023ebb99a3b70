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
