# The study `layer_scale` (touvron2021).


include: "../settings/layer_scale.smk"


# classify: each network trained on images and measured before and after.
rule classify_layer_scale_all:
    input:
        expand("{run}/record.json", run=DEEP_RUNS),
    localrule: True


use rule run as classify_layer_scale with:
    input:
        data=vision_images("layer_scale"),
    output:
        record=f"{DEEP_RUN}/record.json",
        history=f"{DEEP_RUN}/history.csv",
        layers=f"{DEEP_RUN}/layers.csv",
        alphas=f"{DEEP_RUN}/alphas.csv",
        network=f"{DEEP_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/layer_scale/classify/{{suite}}/{{variant}}/depth{{depth}}/seed{{seed}}.log",
    wildcard_constraints:
        suite="residual|drop_path|class_token",
    threads: 8 if from_folder("layer_scale") else 1
    resources:
        **needs(mem_mb=12000, minutes=10080 if from_folder("layer_scale") else 1440),
    params:
        **words(
            "classify",
            study="layer_scale",
            settings=classify_layer_scale_settings,
            modules=classify_modules("layer_scale", DEIT),
        ),
