# The study `long_short` (zhu2022, chapter 5).


include: "../settings/long_short.smk"


# sequences: the tasks of Long Range Arena, loaded or generated (zhu2022, section 5.3.1).
rule sequences_all:
    input:
        expand("{run}/record.json", run=expand(SEQUENCES_RUN, task=LS_TASKS)),
    localrule: True


use rule run as sequences with:
    output:
        record=f"{SEQUENCES_RUN}/record.json",
        data=f"{SEQUENCES_RUN}/data.safetensors",
    log:
        f"{ROOT}/logs/long_short/sequences/{{task}}.log",
    wildcard_constraints:
        task=LS_TASK,
    resources:
        **needs(mem_mb=8000, minutes=480, gpu=0),
    params:
        **words(
            "sequences",
            study="long_short",
            settings=sequences_settings,
            modules=sequences_modules,
            seed=LS_DATA_SEED,
        ),


# understand: an encoder with each attention, trained on each task (zhu2022, tables 5.1 to 5.3, 5.5).
rule understand_all:
    input:
        expand("{run}/record.json", run=UNDERSTAND_RUNS),
    localrule: True


use rule run as understand with:
    input:
        data=rules.sequences.output.data,
    output:
        record=f"{UNDERSTAND_RUN}/record.json",
        history=f"{UNDERSTAND_RUN}/history.csv",
        predictions=f"{UNDERSTAND_RUN}/predictions.csv",
        network=f"{UNDERSTAND_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/long_short/understand/{{task}}/{{attention}}/seed{{seed}}.log",
    wildcard_constraints:
        task=LS_TASK,
        attention="[a-z_]+",
    resources:
        **needs(mem_mb=16000, minutes=1440),
    params:
        **words("understand", study="long_short", settings=understand_settings, modules=understand_modules),


# stream: a text as one long row of characters, cut in three (zhu2022, section 5.3.2).
rule stream_all:
    input:
        expand("{run}/record.json", run=expand(STREAM_RUN, dataset=LS["stream"]["datasets"])),
    localrule: True


use rule run as stream with:
    output:
        record=f"{STREAM_RUN}/record.json",
        stream=f"{STREAM_RUN}/stream.safetensors",
    log:
        f"{ROOT}/logs/long_short/stream/{{dataset}}.log",
    wildcard_constraints:
        dataset=LS_TEXT,
    resources:
        **needs(mem_mb=4000, minutes=120, gpu=0),
    params:
        **words(
            "stream",
            study="long_short",
            settings=stream_settings,
            modules=lambda wildcards: [stream_module(wildcards.dataset)],
            seed=0,
        ),


# predict: the character model, trained in phases of growing length (zhu2022, table 5.7, figure 5.3).
rule predict_all:
    input:
        expand("{run}/record.json", run=PREDICT_RUNS),
    localrule: True


use rule run as predict with:
    input:
        stream=rules.stream.output.stream,
    output:
        record=f"{PREDICT_RUN}/record.json",
        history=f"{PREDICT_RUN}/history.csv",
        norms=f"{PREDICT_RUN}/norms.csv",
        network=f"{PREDICT_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/long_short/predict/{{dataset}}/{{variant}}/seed{{seed}}.log",
    wildcard_constraints:
        dataset=LS_TEXT,
    resources:
        **needs(mem_mb=16000, minutes=10080),
    params:
        **words("predict", study="long_short", settings=predict_settings),


# adapt: a pretrained encoder converted to long-short attention, trained on, fine-tuned (zhu2022, table 5.4).
rule adapt_all:
    input:
        expand("{run}/record.json", run=ADAPT_RUNS),
    localrule: True


use rule run as adapt with:
    output:
        record=f"{ADAPT_RUN}/record.json",
        history=f"{ADAPT_RUN}/history.csv",
        predictions=f"{ADAPT_RUN}/predictions.csv",
        network=f"{ADAPT_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/long_short/adapt/{{variant}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=32000 if LS["adapt"]["checkpoint"] else 8000, minutes=10080),
    params:
        **words("adapt", study="long_short", settings=adapt_settings),


# cost: time and memory against the length, and seconds a batch (zhu2022, figure 5.5, table 5.6).
rule cost_all:
    input:
        f"{CURVE_RUN}/record.json",
        f"{LATENCY_RUN}/record.json",
    localrule: True


use rule run as cost_curve with:
    output:
        record=f"{CURVE_RUN}/record.json",
        rows=f"{CURVE_RUN}/cost.csv",
    log:
        f"{ROOT}/logs/long_short/cost/curve.log",
    resources:
        **needs(mem_mb=16000, minutes=480),
    params:
        **words("cost", study="long_short", settings=curve_settings(), seed=0, protocol="curve"),


use rule run as cost_latency with:
    output:
        record=f"{LATENCY_RUN}/record.json",
        rows=f"{LATENCY_RUN}/latency.csv",
    log:
        f"{ROOT}/logs/long_short/cost/latency.log",
    resources:
        **needs(mem_mb=16000, minutes=480),
    params:
        **words(
            "cost",
            study="long_short",
            settings=latency_settings(),
            modules=[attention_module(name) for name in LS["cost"]["latency"]["attentions"]],
            seed=0,
            protocol="latency",
        ),


# count: parameters and multiply-adds of networks at their published sizes.
rule count_long_short_all:
    input:
        expand("{run}/record.json", run=LS_COUNT_RUNS),
    localrule: True


use rule run as count_long_short with:
    output:
        record=f"{LS_COUNT_RUN}/record.json",
        counts=f"{LS_COUNT_RUN}/counts.csv",
    log:
        f"{ROOT}/logs/long_short/count/{{family}}.log",
    wildcard_constraints:
        family="lra|language|vision",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "count", study="long_short", settings=count_family_settings, modules=count_family_modules, seed=0
        ),


# classify: each network trained on images and measured before and after.
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
    threads: 8 if from_folder("long_short") else 1
    resources:
        **needs(mem_mb=12000, minutes=10080 if from_folder("long_short") else 1440),
    params:
        **words(
            "classify",
            study="long_short",
            settings=classify_long_short_settings,
            modules=classify_long_short_modules,
        ),


# similarity: how alike the patches are, layer by layer (zhu2022, figure 5.6).
rule similarity_all:
    input:
        expand("{run}/record.json", run=SIMILARITY_RUNS),
    localrule: True


use rule run as similarity with:
    input:
        data=vision_images("long_short"),
        network=rules.classify_long_short.output.network,
    output:
        record=f"{SIMILARITY_RUN}/record.json",
        rows=f"{SIMILARITY_RUN}/similarity.csv",
    log:
        f"{ROOT}/logs/long_short/similarity/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=8000, minutes=240),
    params:
        **words("similarity", study="long_short", settings=similarity_settings, modules=similarity_modules),


# throughput: images per second against another network (table 5.8).
rule throughput_long_short_all:
    input:
        expand("{run}/record.json", run=LS_THROUGHPUT_RUNS),
    localrule: True


use rule run as throughput_long_short with:
    output:
        record=f"{LS_THROUGHPUT_RUN}/record.json",
        times=f"{LS_THROUGHPUT_RUN}/throughput.csv",
    log:
        f"{ROOT}/logs/long_short/throughput/{{network}}.log",
    resources:
        **needs(mem_mb=16000, minutes=120),
    params:
        **words(
            "throughput",
            study="long_short",
            settings=throughput_long_short_settings,
            modules=throughput_long_short_modules,
            seed=0,
        ),
