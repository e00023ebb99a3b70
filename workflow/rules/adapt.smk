# adapt: a pretrained encoder converted to long-short attention, trained on, fine-tuned (zhu2022, table 5.4).


rule adapt_all:
    input:
        expand("{run}/record.json", run=ADAPT_RUNS),
    localrule: True


rule adapt:
    output:
        record=f"{ADAPT_RUN}/record.json",
        history=f"{ADAPT_RUN}/history.csv",
        predictions=f"{ADAPT_RUN}/predictions.csv",
        network=f"{ADAPT_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/long_short/adapt/{{variant}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/adapt/{{variant}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=32000 if LS["adapt"]["checkpoint"] else 8000,
        runtime=10080,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=adapt_settings,
        code=code_version("relearn.steps.adapt"),
    shell:
        "relearn adapt --study long_short --settings {params.settings:q} --code {params.code}"
        " --label variant={wildcards.variant}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
