# The study `lipsformer` (qi2023).


include: "../settings/lipsformer.smk"


# count: parameters and multiply-adds of networks at their published sizes (tables 2, 4, 5 and 7).
rule count_lipsformer_all:
    input:
        expand("{run}/record.json", run=COUNT_RUNS),
    localrule: True


use rule run as count_lipsformer with:
    output:
        record=f"{COUNT_RUN}/record.json",
        counts=f"{COUNT_RUN}/counts.csv",
    log:
        f"{ROOT}/logs/count/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words("count", study="lipsformer", settings=count_settings, modules=count_modules),


# examine: theorems 1 and 2, the spectral initialisation, the activations (figure 2), case by case.
rule examine_lipsformer_all:
    input:
        expand("{run}/record.json", run=LIPS_RUNS),
    localrule: True


use rule run as examine_lipsformer with:
    output:
        record=f"{LIPS_RUN}/record.json",
        cases=f"{LIPS_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/examine_lipsformer/{{protocol}}/seed{{seed}}.log",
    wildcard_constraints:
        protocol="(?!activations)[a-z_0-9]+",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words(
            "examine",
            study="lipsformer",
            settings=lipsformer_settings,
            modules=["relearn.studies.lipsformer.steps.theorems"],
        ),


use rule run as examine_activations with:
    output:
        record=f"{ACTIVATIONS_RUN}/record.json",
        cases=f"{ACTIVATIONS_RUN}/cases.csv",
        curves=f"{ACTIVATIONS_RUN}/curves.csv",
    log:
        f"{ROOT}/logs/examine_lipsformer/activations/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words(
            "examine",
            study="lipsformer",
            settings=activations_settings,
            modules=["relearn.studies.lipsformer.steps.theorems"],
            protocol="activations",
        ),


# classify: each network trained on images and measured before and after.
rule classify_lipsformer_all:
    input:
        expand("{run}/record.json", run=LIPS_CLASSIFY_RUNS),
    localrule: True


use rule run as classify_lipsformer with:
    input:
        data=vision_images("lipsformer"),
    output:
        record=f"{LIPS_CLASSIFY_RUN}/record.json",
        history=f"{LIPS_CLASSIFY_RUN}/history.csv",
        layers=f"{LIPS_CLASSIFY_RUN}/layers.csv",
        alphas=f"{LIPS_CLASSIFY_RUN}/alphas.csv",
        network=f"{LIPS_CLASSIFY_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/lipsformer/classify/{{suite}}/{{variant}}/seed{{seed}}.log",
    wildcard_constraints:
        suite="ablation|pairs",
    threads: 8 if from_folder("lipsformer") else 1
    resources:
        **needs(mem_mb=12000, minutes=10080 if from_folder("lipsformer") else 1440),
    params:
        **words(
            "classify",
            study="lipsformer",
            settings=classify_lipsformer_settings,
            modules=classify_lipsformer_modules,
        ),


# throughput: images per second and peak memory against timm's Swin (appendix D).
rule throughput_lipsformer_all:
    input:
        expand("{run}/record.json", run=THROUGHPUT_RUNS),
    localrule: True


use rule run as throughput_lipsformer with:
    output:
        record=f"{THROUGHPUT_RUN}/record.json",
        times=f"{THROUGHPUT_RUN}/throughput.csv",
    log:
        f"{ROOT}/logs/throughput/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=16000, minutes=120),
    params:
        **words(
            "throughput",
            study="lipsformer",
            settings=throughput_settings,
            modules=["relearn.models.lipsformer"],
        ),


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
