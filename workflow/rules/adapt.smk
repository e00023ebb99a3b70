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
