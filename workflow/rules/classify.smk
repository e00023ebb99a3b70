# classify: a vision Transformer trained on images, looked at before and after (qi2023, touvron2021, ye2023).


rule classify_lipsformer_all:
    input:
        expand("{run}/record.json", run=LIPS_CLASSIFY_RUNS),
    localrule: True


rule classify_lipsformer:
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
    benchmark:
        f"{ROOT}/benchmarks/lipsformer/classify/{{suite}}/{{variant}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 8 if PARAMS["lipsformer"]["images"]["dataset"] == IMAGENET_FOLDER else 1
    resources:
        mem_mb=12000,
        runtime=10080 if PARAMS["lipsformer"]["images"]["dataset"] == IMAGENET_FOLDER else 1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=classify_lipsformer_settings,
        code=classify_lipsformer_code,
    shell:
        "relearn classify --study lipsformer --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label suite={wildcards.suite} --label variant={wildcards.variant}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule classify_layer_scale_all:
    input:
        expand("{run}/record.json", run=DEEP_RUNS),
    localrule: True


rule classify_layer_scale:
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
    benchmark:
        f"{ROOT}/benchmarks/layer_scale/classify/{{suite}}/{{variant}}/depth{{depth}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 8 if PARAMS["layer_scale"]["images"]["dataset"] == IMAGENET_FOLDER else 1
    resources:
        mem_mb=12000,
        runtime=10080 if PARAMS["layer_scale"]["images"]["dataset"] == IMAGENET_FOLDER else 1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=classify_layer_scale_settings,
        code=classify_code("layer_scale", DEIT),
    shell:
        "relearn classify --study layer_scale --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label suite={wildcards.suite} --label variant={wildcards.variant} --label depth={wildcards.depth}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule classify_lrformer_all:
    input:
        expand("{run}/record.json", run=Y_CLASSIFY_RUNS),
    localrule: True


rule classify_lrformer:
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
    benchmark:
        f"{ROOT}/benchmarks/lrformer/classify/{{variant}}/depth{{depth}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 8 if PARAMS["lrformer"]["images"]["dataset"] == IMAGENET_FOLDER else 1
    resources:
        mem_mb=12000,
        runtime=10080 if PARAMS["lrformer"]["images"]["dataset"] == IMAGENET_FOLDER else 1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=classify_lrformer_settings,
        code=classify_code("lrformer", "lrformer_depth12"),
    shell:
        "relearn classify --study lrformer --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label variant={wildcards.variant} --label depth={wildcards.depth}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule classify_long_short_all:
    input:
        expand("{run}/record.json", run=LS_CLASSIFY_RUNS),
    localrule: True


rule classify_long_short:
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
    benchmark:
        f"{ROOT}/benchmarks/long_short/classify/{{network}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 8 if PARAMS["long_short"]["images"]["dataset"] == IMAGENET_FOLDER else 1
    resources:
        mem_mb=12000,
        runtime=10080 if PARAMS["long_short"]["images"]["dataset"] == IMAGENET_FOLDER else 1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=classify_long_short_settings,
        code=classify_long_short_code,
    shell:
        "relearn classify --study long_short --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label network={wildcards.network}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
