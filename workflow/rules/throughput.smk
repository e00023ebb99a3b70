# throughput: images a second beside another network: LipsFormer-Swin beside timm's Swin, with peak memory (qi2023, appendix D); networks
# of zhu2022, table 5.8.


rule throughput_lipsformer_all:
    input:
        expand("{run}/record.json", run=THROUGHPUT_RUNS),
    localrule: True


rule throughput_lipsformer:
    output:
        record=f"{THROUGHPUT_RUN}/record.json",
        times=f"{THROUGHPUT_RUN}/throughput.csv",
    log:
        f"{ROOT}/logs/throughput/{{network}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/throughput/{{network}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=120,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=throughput_settings,
        code=code_version("relearn.steps.throughput", "relearn.models.lipsformer"),
    shell:
        "relearn throughput --study lipsformer --settings {params.settings:q} --code {params.code}"
        " --label network={wildcards.network}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule throughput_long_short_all:
    input:
        expand("{run}/record.json", run=LS_THROUGHPUT_RUNS),
    localrule: True


rule throughput_long_short:
    output:
        record=f"{LS_THROUGHPUT_RUN}/record.json",
        times=f"{LS_THROUGHPUT_RUN}/throughput.csv",
    log:
        f"{ROOT}/logs/long_short/throughput/{{network}}.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/throughput/{{network}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=120,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=throughput_long_short_settings,
        code=throughput_long_short_code,
    shell:
        "relearn throughput --study long_short --settings {params.settings:q} --code {params.code}"
        " --label network={wildcards.network}"
        " --seed 0 --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
