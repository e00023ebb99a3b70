# probe: gradients before and after an initialisation, and what holds without training.


rule probe_all:
    input:
        expand("{run}/record.json", run=PROBE_RUNS),
    localrule: True


rule probe:
    input:
        data=images_of,
        network=rules.initialise.output.weights,
    output:
        record=f"{STATISTICS_RUN}/record.json",
        layers=f"{STATISTICS_RUN}/layers.csv",
    log:
        f"{ROOT}/logs/probe/gradient_statistics/{{suite}}/{{network}}/{{initialisation}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/probe/gradient_statistics/{{suite}}/{{network}}/{{initialisation}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: lambda wildcards: decoders(wildcards.suite)
    resources:
        mem_mb=12000,
        runtime=lambda wildcards: minutes(wildcards.suite, 120),
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=probe_settings,
        code=probe_code,
    shell:
        "relearn probe --study gradinit --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input network {input.network:q}"
        " --label protocol=gradient_statistics --label task=images --label suite={wildcards.suite} --label network={wildcards.network} --label initialisation={wildcards.initialisation}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule probe_translation:
    input:
        data=rules.corpus.output.corpus,
        network=rules.initialise_translation.output.weights,
    output:
        record=f"{T_STATISTICS_RUN}/record.json",
        layers=f"{T_STATISTICS_RUN}/layers.csv",
    log:
        f"{ROOT}/logs/probe/gradient_statistics/translation/{{network}}/{{initialisation}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/probe/gradient_statistics/translation/{{network}}/{{initialisation}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=120,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=translation_probe_settings,
        code=code_version(
            "relearn.steps.probe", "relearn.measures.gradient_statistics", "relearn.steps.task_translation"
        ),
    shell:
        "relearn probe --study gradinit --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input network {input.network:q}"
        " --label protocol=gradient_statistics --label task=translation --label network={wildcards.network} --label initialisation={wildcards.initialisation}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule probe_batch_norm:
    output:
        record=f"{BATCH_NORM_RUN}/record.json",
        cases=f"{BATCH_NORM_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/probe/batch_norm/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/probe/batch_norm/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=canonical({"protocol": "batch_norm", "draws": PROBE["variance_draws"]}),
        code=code_version("relearn.steps.probe", "relearn.measures.batch_norm_gradient"),
    shell:
        "relearn probe --study gradinit --settings {params.settings:q} --code {params.code}"
        " --label protocol=batch_norm"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule probe_parameter_counts:
    output:
        record=f"{COUNTS_RUN}/record.json",
        counts=f"{COUNTS_RUN}/counts.csv",
    log:
        f"{ROOT}/logs/probe/parameter_counts/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/probe/parameter_counts/seed{{seed}}.tsv"
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
        settings=canonical({"protocol": "parameter_counts"}),
        code=code_version("relearn.steps.probe", "relearn.measures.parameter_counts", *COUNTED_MODULES),
    shell:
        "relearn probe --study gradinit --settings {params.settings:q} --code {params.code}"
        " --label protocol=parameter_counts"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
