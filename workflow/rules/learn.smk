# learn, translate: training from each start.


rule learn_all:
    input:
        expand("{run}/record.json", run=LEARN_RUNS + TRANSLATE_RUNS),
    localrule: True


rule learn:
    input:
        data=images_of,
        start=rules.initialise.output.weights,
    output:
        record=f"{LEARN_RUN}/record.json",
        history=f"{LEARN_RUN}/history.csv",
    log:
        f"{ROOT}/logs/learn/{{suite}}/{{network}}/{{initialisation}}/{{recipe}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/learn/{{suite}}/{{network}}/{{initialisation}}/{{recipe}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: lambda wildcards: decoders(wildcards.suite)
    resources:
        mem_mb=12000,
        runtime=lambda wildcards: minutes(wildcards.suite, 1440),
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=learn_settings,
        code=learn_code,
    shell:
        "relearn learn --study gradinit --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input start {input.start:q}"
        " --label task=images --label suite={wildcards.suite} --label network={wildcards.network} --label initialisation={wildcards.initialisation} --label recipe={wildcards.recipe}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule translate:
    input:
        corpus=rules.corpus.output.corpus,
        start=rules.initialise_translation.output.weights,
    output:
        record=f"{TRANSLATE_RUN}/record.json",
        history=f"{TRANSLATE_RUN}/history.csv",
        hypotheses=f"{TRANSLATE_RUN}/hypotheses.txt",
    log:
        f"{ROOT}/logs/translate/{{network}}/{{initialisation}}/{{recipe}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/translate/{{network}}/{{initialisation}}/{{recipe}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=translate_settings,
        code=code_version("relearn.steps.translate"),
    shell:
        "relearn translate --study gradinit --settings {params.settings:q} --code {params.code}"
        " --input corpus {input.corpus:q} --input start {input.start:q}"
        " --label task=translation --label network={wildcards.network} --label initialisation={wildcards.initialisation} --label recipe={wildcards.recipe}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
