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
