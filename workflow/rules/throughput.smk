# throughput: images a second beside another network: LipsFormer-Swin beside timm's Swin, with peak memory (qi2023, appendix D); networks
# of zhu2022, table 5.8.


rule throughput_lipsformer_all:
    input:
        expand("{run}/record.json", run=THROUGHPUT_RUNS),
    localrule: True


use rule run as throughput_lipsformer with:
    output:
        record=f"{THROUGHPUT_RUN}/record.json",
        times=f"{THROUGHPUT_RUN}/throughput.csv",
    log:
        f"{ROOT}/logs/throughput/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=16000, minutes=120),
    params:
        **words(
            "throughput",
            study="lipsformer",
            settings=throughput_settings,
            modules=["relearn.models.lipsformer"],
        ),


rule throughput_long_short_all:
    input:
        expand("{run}/record.json", run=LS_THROUGHPUT_RUNS),
    localrule: True


use rule run as throughput_long_short with:
    output:
        record=f"{LS_THROUGHPUT_RUN}/record.json",
        times=f"{LS_THROUGHPUT_RUN}/throughput.csv",
    log:
        f"{ROOT}/logs/long_short/throughput/{{network}}.log",
    resources:
        **needs(mem_mb=16000, minutes=120),
    params:
        **words(
            "throughput",
            study="long_short",
            settings=throughput_long_short_settings,
            modules=throughput_long_short_modules,
            seed=0,
        ),
