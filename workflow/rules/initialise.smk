# initialise: a network's start by each method, for images and for translation.


rule initialise_all:
    input:
        expand("{run}/record.json", run=START_RUNS + T_START_RUNS),
    localrule: True


rule initialise:
    input:
        data=images_of,
    output:
        record=f"{START_RUN}/record.json",
        weights=f"{START_RUN}/weights.safetensors",
        scales=f"{START_RUN}/scales.csv",
        history=f"{START_RUN}/history.csv",
    log:
        f"{ROOT}/logs/initialise/{{suite}}/{{network}}/{{initialisation}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/initialise/{{suite}}/{{network}}/{{initialisation}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: lambda wildcards: decoders(wildcards.suite)
    resources:
        mem_mb=12000,
        runtime=lambda wildcards: minutes(wildcards.suite, 240),
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=start_settings,
        code=start_code,
    shell:
        "relearn initialise --study gradinit --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label task=images --label suite={wildcards.suite} --label network={wildcards.network} --label initialisation={wildcards.initialisation}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule initialise_translation:
    input:
        data=rules.corpus.output.corpus,
    output:
        record=f"{T_START_RUN}/record.json",
        weights=f"{T_START_RUN}/weights.safetensors",
        scales=f"{T_START_RUN}/scales.csv",
        history=f"{T_START_RUN}/history.csv",
    log:
        f"{ROOT}/logs/initialise/translation/{{network}}/{{initialisation}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/initialise/translation/{{network}}/{{initialisation}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=240,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=translation_start_settings,
        code=translation_start_code,
    shell:
        "relearn initialise --study gradinit --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label task=translation --label network={wildcards.network} --label initialisation={wildcards.initialisation}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
