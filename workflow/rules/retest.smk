# retest: trained networks on ImageNet's validation images, with the labels of ReaL, and on ImageNet-V2 (qi2023, table 8).


rule retest_all:
    input:
        expand("{run}/record.json", run=RETEST_RUNS),
    localrule: True


rule retest:
    input:
        weights=f"{Q_RUNS}/classify/pairs/{{variant}}/seed{{seed}}/model.safetensors",
    output:
        record=f"{RETEST_RUN}/record.json",
        sets=f"{RETEST_RUN}/retest.csv",
    log:
        f"{ROOT}/logs/retest/{{variant}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/retest/{{variant}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 8
    resources:
        mem_mb=12000,
        runtime=240,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=retest_settings,
        code=retest_code,
    shell:
        "relearn retest --study lipsformer --settings {params.settings:q} --code {params.code}"
        " --input weights {input.weights:q}"
        " --label variant={wildcards.variant}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
