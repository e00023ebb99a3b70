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
