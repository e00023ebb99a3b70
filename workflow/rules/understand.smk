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
