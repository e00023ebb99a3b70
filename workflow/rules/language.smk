# language: character language models, one a kind of attention, depth and recipe.


rule language_all:
    input:
        expand("{run}/record.json", run=LANGUAGE_RUNS),
    localrule: True


rule language:
    input:
        characters=rules.characters.output.characters,
    output:
        record=f"{LANGUAGE_RUN}/record.json",
        weights=f"{LANGUAGE_RUN}/weights.safetensors",
        history=f"{LANGUAGE_RUN}/history.csv",
    log:
        f"{ROOT}/logs/language/{{attention}}/{{layers}}/{{recipe}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/language/{{attention}}/{{layers}}/{{recipe}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=language_settings,
        code=code_version("relearn.steps.language"),
    shell:
        "relearn language --study l2_attention --settings {params.settings:q} --code {params.code}"
        " --input characters {input.characters:q}"
        " --label attention={wildcards.attention} --label layers={wildcards.layers} --label recipe={wildcards.recipe}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
