# The study `lrformer` (ye2023).


include: "../settings/lrformer.smk"


# examine: LayerNorm and Lipschitz-regularised attention, case by case.
rule examine_lrformer_all:
    input:
        expand("{run}/record.json", run=LRFORMER_RUNS),
    localrule: True


use rule run as examine_lrformer with:
    output:
        record=f"{LRFORMER_RUN}/record.json",
        cases=f"{LRFORMER_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/examine_lrformer/{{protocol}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words(
            "examine",
            study="lrformer",
            settings=lrformer_settings,
            modules=["relearn.studies.lrformer.steps.theorems"],
        ),


# classify: each network trained on images and measured before and after.
rule classify_lrformer_all:
    input:
        expand("{run}/record.json", run=Y_CLASSIFY_RUNS),
    localrule: True


use rule run as classify_lrformer with:
    input:
        data=vision_images("lrformer"),
    output:
        record=f"{Y_CLASSIFY_RUN}/record.json",
        history=f"{Y_CLASSIFY_RUN}/history.csv",
        layers=f"{Y_CLASSIFY_RUN}/layers.csv",
        alphas=f"{Y_CLASSIFY_RUN}/alphas.csv",
        network=f"{Y_CLASSIFY_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/lrformer/classify/{{variant}}/depth{{depth}}/seed{{seed}}.log",
    threads: 8 if from_folder("lrformer") else 1
    resources:
        **needs(mem_mb=12000, minutes=10080 if from_folder("lrformer") else 1440),
    params:
        **words(
            "classify",
            study="lrformer",
            settings=classify_lrformer_settings,
            modules=classify_modules("lrformer", "lrformer_depth12"),
        ),


# uncertainty: calibration, and what a network says of images that it was not trained for (ye2023).
rule uncertainty_all:
    input:
        expand("{run}/record.json", run=Y_UNCERTAINTY_RUNS),
    localrule: True


use rule run as uncertainty with:
    input:
        data=vision_images("lrformer"),
        network=rules.classify_lrformer.output.network,
    output:
        record=f"{Y_UNCERTAINTY_RUN}/record.json",
        calibration=f"{Y_UNCERTAINTY_RUN}/calibration.csv",
        ood=f"{Y_UNCERTAINTY_RUN}/ood.csv",
        distances=f"{Y_UNCERTAINTY_RUN}/distance.csv",
        scores=f"{Y_UNCERTAINTY_RUN}/scores.csv",
    log:
        f"{ROOT}/logs/uncertainty/{{variant}}/depth{{depth}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=8000, minutes=120),
    params:
        **words("uncertainty", study="lrformer", settings=uncertainty_settings, modules=uncertainty_modules()),
