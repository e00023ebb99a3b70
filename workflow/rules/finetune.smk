# finetune: an encoder trained on a task, plainly or with adversarial gradients (zhu2022, tables 3.1 to 3.7).


rule finetune_all:
    input:
        expand("{run}/record.json", run=FINETUNE_RUNS),
    localrule: True


rule finetune:
    input:
        finetune_inputs,
    output:
        record=f"{FINETUNE_RUN}/record.json",
        history=f"{FINETUNE_RUN}/history.csv",
        answers=f"{FINETUNE_RUN}/answers.csv",
        network=f"{FINETUNE_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/freelb/finetune/{{encoder}}/{{exam}}/{{tactic}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/freelb/finetune/{{encoder}}/{{exam}}/{{tactic}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=lambda wildcards: 40000 if FB["encoders"][wildcards.encoder]["checkpoint"] else 8000,
        runtime=1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=finetune_settings,
        code=finetune_code,
        inputs=finetune_words,
    shell:
        "relearn finetune --study freelb --settings {params.settings:q} --code {params.code}"
        " {params.inputs}"
        " --label encoder={wildcards.encoder} --label task={wildcards.exam} --label method={wildcards.tactic}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
