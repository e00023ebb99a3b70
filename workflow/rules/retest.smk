# retest: trained networks on ImageNet's validation images, with the labels of ReaL, and on ImageNet-V2 (qi2023, table 8).


rule retest_all:
    input:
        expand("{run}/record.json", run=RETEST_RUNS),
    localrule: True


use rule run as retest with:
    input:
        weights=f"{Q_RUNS}/classify/pairs/{{variant}}/seed{{seed}}/model.safetensors",
    output:
        record=f"{RETEST_RUN}/record.json",
        sets=f"{RETEST_RUN}/retest.csv",
    log:
        f"{ROOT}/logs/retest/{{variant}}/seed{{seed}}.log",
    threads: 8
    resources:
        **needs(mem_mb=12000, minutes=240),
    params:
        **words("retest", study="lipsformer", settings=retest_settings, modules=retest_modules),
