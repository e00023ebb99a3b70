# similarity: how alike the patches are, layer by layer (zhu2022, figure 5.6).


rule similarity_all:
    input:
        expand("{run}/record.json", run=SIMILARITY_RUNS),
    localrule: True


rule similarity:
    input:
        data=vision_images("long_short"),
        network=rules.classify_long_short.output.network,
    output:
        record=f"{SIMILARITY_RUN}/record.json",
        rows=f"{SIMILARITY_RUN}/similarity.csv",
    log:
        f"{ROOT}/logs/long_short/similarity/{{network}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/similarity/{{network}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=240,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=similarity_settings,
        code=similarity_code,
    shell:
        "relearn similarity --study long_short --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input network {input.network:q}"
        " --label network={wildcards.network}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
