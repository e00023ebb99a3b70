# finetune: an encoder trained on a task, plainly or with adversarial gradients (zhu2022, tables 3.1 to 3.7).


rule finetune_all:
    input:
        expand("{run}/record.json", run=FINETUNE_RUNS),
    localrule: True


use rule run as finetune with:
    input:
        unpack(finetune_inputs),
    output:
        record=f"{FINETUNE_RUN}/record.json",
        history=f"{FINETUNE_RUN}/history.csv",
        answers=f"{FINETUNE_RUN}/answers.csv",
        network=f"{FINETUNE_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/freelb/finetune/{{encoder}}/{{task}}/{{method}}/seed{{seed}}.log",
    wildcard_constraints:
        task="[a-z_0-9]+",
        method="[a-z_0-9]+",
    resources:
        **needs(
            mem_mb=lambda wildcards: 40000 if FB["encoders"][wildcards.encoder]["checkpoint"] else 8000,
            minutes=1440,
        ),
    params:
        **words("finetune", study="freelb", settings=finetune_settings, modules=finetune_modules),
