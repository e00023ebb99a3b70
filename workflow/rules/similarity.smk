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
