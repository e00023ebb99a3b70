# classify: a vision Transformer trained on images, looked at before and after (qi2023, touvron2021, ye2023).


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
    threads: 8 if PARAMS["lipsformer"]["images"]["dataset"] == IMAGENET_FOLDER else 1
    resources:
        **needs(
            mem_mb=12000,
            minutes=10080 if PARAMS["lipsformer"]["images"]["dataset"] == IMAGENET_FOLDER else 1440,
        ),
    params:
        **words(
            "classify",
            study="lipsformer",
            settings=classify_lipsformer_settings,
            modules=classify_lipsformer_modules,
        ),


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
    threads: 8 if PARAMS["layer_scale"]["images"]["dataset"] == IMAGENET_FOLDER else 1
    resources:
        **needs(
            mem_mb=12000,
            minutes=10080 if PARAMS["layer_scale"]["images"]["dataset"] == IMAGENET_FOLDER else 1440,
        ),
    params:
        **words(
            "classify",
            study="layer_scale",
            settings=classify_layer_scale_settings,
            modules=classify_modules("layer_scale", DEIT),
        ),


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
    threads: 8 if PARAMS["lrformer"]["images"]["dataset"] == IMAGENET_FOLDER else 1
    resources:
        **needs(
            mem_mb=12000,
            minutes=10080 if PARAMS["lrformer"]["images"]["dataset"] == IMAGENET_FOLDER else 1440,
        ),
    params:
        **words(
            "classify",
            study="lrformer",
            settings=classify_lrformer_settings,
            modules=classify_modules("lrformer", "lrformer_depth12"),
        ),


rule classify_long_short_all:
    input:
        expand("{run}/record.json", run=LS_CLASSIFY_RUNS),
    localrule: True


use rule run as classify_long_short with:
    input:
        data=vision_images("long_short"),
    output:
        record=f"{LS_CLASSIFY_RUN}/record.json",
        history=f"{LS_CLASSIFY_RUN}/history.csv",
        layers=f"{LS_CLASSIFY_RUN}/layers.csv",
        alphas=f"{LS_CLASSIFY_RUN}/alphas.csv",
        network=f"{LS_CLASSIFY_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/long_short/classify/{{network}}/seed{{seed}}.log",
    threads: 8 if PARAMS["long_short"]["images"]["dataset"] == IMAGENET_FOLDER else 1
    resources:
        **needs(
            mem_mb=12000,
            minutes=10080 if PARAMS["long_short"]["images"]["dataset"] == IMAGENET_FOLDER else 1440,
        ),
    params:
        **words(
            "classify",
            study="long_short",
            settings=classify_long_short_settings,
            modules=classify_long_short_modules,
        ),
