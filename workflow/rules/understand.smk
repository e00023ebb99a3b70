# understand: an encoder with each attention, trained on each task (zhu2022, tables 5.1 to 5.3, 5.5).


rule understand_all:
    input:
        expand("{run}/record.json", run=UNDERSTAND_RUNS),
    localrule: True


rule understand:
    input:
        data=rules.sequences.output.data,
    output:
        record=f"{UNDERSTAND_RUN}/record.json",
        history=f"{UNDERSTAND_RUN}/history.csv",
        predictions=f"{UNDERSTAND_RUN}/predictions.csv",
        network=f"{UNDERSTAND_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/long_short/understand/{{task}}/{{kind}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/understand/{{task}}/{{kind}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=understand_settings,
        code=understand_code,
    shell:
        "relearn understand --study long_short --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label task={wildcards.task} --label attention={wildcards.kind}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
