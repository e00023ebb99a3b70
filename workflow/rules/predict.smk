# predict: the character model, trained in phases of growing length (zhu2022, table 5.7, figure 5.3).


rule predict_all:
    input:
        expand("{run}/record.json", run=PREDICT_RUNS),
    localrule: True


rule predict:
    input:
        stream=rules.stream.output.stream,
    output:
        record=f"{PREDICT_RUN}/record.json",
        history=f"{PREDICT_RUN}/history.csv",
        norms=f"{PREDICT_RUN}/norms.csv",
        network=f"{PREDICT_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/long_short/predict/{{text}}/{{variant}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/predict/{{text}}/{{variant}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=10080,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=predict_settings,
        code=code_version("relearn.steps.predict"),
    shell:
        "relearn predict --study long_short --settings {params.settings:q} --code {params.code}"
        " --input stream {input.stream:q}"
        " --label dataset={wildcards.text} --label variant={wildcards.variant}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
