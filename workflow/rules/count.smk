# count: parameters and multiply-adds of networks at their published sizes (qi2023, tables 2, 4, 5 and 7).


rule count_lipsformer_all:
    input:
        expand("{run}/record.json", run=COUNT_RUNS),
    localrule: True


rule count_lipsformer:
    output:
        record=f"{COUNT_RUN}/record.json",
        counts=f"{COUNT_RUN}/counts.csv",
    log:
        f"{ROOT}/logs/count/{{network}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/count/{{network}}/seed{{seed}}.tsv"
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
        settings=count_settings,
        code=count_code,
    shell:
        "relearn count --study lipsformer --settings {params.settings:q} --code {params.code}"
        " --label network={wildcards.network}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule count_long_short_all:
    input:
        expand("{run}/record.json", run=LS_COUNT_RUNS),
    localrule: True


rule count_long_short:
    output:
        record=f"{LS_COUNT_RUN}/record.json",
        counts=f"{LS_COUNT_RUN}/counts.csv",
    log:
        f"{ROOT}/logs/long_short/count/{{family}}.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/count/{{family}}.tsv"
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
        settings=count_family_settings,
        code=count_family_code,
    shell:
        "relearn count --study long_short --settings {params.settings:q} --code {params.code}"
        " --label family={wildcards.family}"
        " --seed 0 --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule count_freelb_all:
    input:
        expand("{run}/record.json", run=FB_COUNT_RUNS),
    localrule: True


rule count_freelb:
    output:
        record=f"{FB_COUNT_RUN}/record.json",
        gradients=f"{FB_COUNT_RUN}/gradients.csv",
    log:
        f"{ROOT}/logs/freelb/count/{{family}}.log",
    benchmark:
        f"{ROOT}/benchmarks/freelb/count/{{family}}.tsv"
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
        settings=count_family_settings,
        code=code_version("relearn.steps.count", method_module(STRATEGIES, "freelb")),
    shell:
        "relearn count --study freelb --settings {params.settings:q} --code {params.code}"
        " --label family={wildcards.family}"
        " --seed 0 --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
