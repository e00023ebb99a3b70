# cost: time and memory against the length, and seconds a batch (zhu2022, figure 5.5, table 5.6).


rule cost_all:
    input:
        f"{CURVE_RUN}/record.json",
        f"{LATENCY_RUN}/record.json",
    localrule: True


rule cost_curve:
    output:
        record=f"{CURVE_RUN}/record.json",
        rows=f"{CURVE_RUN}/cost.csv",
    log:
        f"{ROOT}/logs/long_short/cost/curve.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/cost/curve.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=480,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=curve_settings(),
        code=code_version("relearn.steps.cost"),
    shell:
        "relearn cost --study long_short --settings {params.settings:q} --code {params.code}"
        " --label protocol=curve"
        " --seed 0 --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule cost_latency:
    output:
        record=f"{LATENCY_RUN}/record.json",
        rows=f"{LATENCY_RUN}/latency.csv",
    log:
        f"{ROOT}/logs/long_short/cost/latency.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/cost/latency.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=480,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=latency_settings(),
        code=code_version("relearn.steps.cost", *map(attention_module, LS["cost"]["latency"]["attentions"])),
    shell:
        "relearn cost --study long_short --settings {params.settings:q} --code {params.code}"
        " --label protocol=latency"
        " --seed 0 --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
