# cost: time and memory against the length, and seconds a batch (zhu2022, figure 5.5, table 5.6).


rule cost_all:
    input:
        f"{CURVE_RUN}/record.json",
        f"{LATENCY_RUN}/record.json",
    localrule: True


use rule run as cost_curve with:
    output:
        record=f"{CURVE_RUN}/record.json",
        rows=f"{CURVE_RUN}/cost.csv",
    log:
        f"{ROOT}/logs/long_short/cost/curve.log",
    resources:
        **needs(mem_mb=16000, minutes=480),
    params:
        **words("cost", study="long_short", settings=curve_settings(), seed=0, protocol="curve"),


use rule run as cost_latency with:
    output:
        record=f"{LATENCY_RUN}/record.json",
        rows=f"{LATENCY_RUN}/latency.csv",
    log:
        f"{ROOT}/logs/long_short/cost/latency.log",
    resources:
        **needs(mem_mb=16000, minutes=480),
    params:
        **words(
            "cost",
            study="long_short",
            settings=latency_settings(),
            modules=[attention_module(name) for name in LS["cost"]["latency"]["attentions"]],
            seed=0,
            protocol="latency",
        ),
