# count: parameters and multiply-adds of networks at their published sizes (qi2023, tables 2, 4, 5 and 7).


rule count_lipsformer_all:
    input:
        expand("{run}/record.json", run=COUNT_RUNS),
    localrule: True


use rule run as count_lipsformer with:
    output:
        record=f"{COUNT_RUN}/record.json",
        counts=f"{COUNT_RUN}/counts.csv",
    log:
        f"{ROOT}/logs/count/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words("count", study="lipsformer", settings=count_settings, modules=count_modules),


rule count_long_short_all:
    input:
        expand("{run}/record.json", run=LS_COUNT_RUNS),
    localrule: True


use rule run as count_long_short with:
    output:
        record=f"{LS_COUNT_RUN}/record.json",
        counts=f"{LS_COUNT_RUN}/counts.csv",
    log:
        f"{ROOT}/logs/long_short/count/{{family}}.log",
    wildcard_constraints:
        family="lra|language|vision",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "count", study="long_short", settings=count_family_settings, modules=count_family_modules, seed=0
        ),


rule count_freelb_all:
    input:
        expand("{run}/record.json", run=FB_COUNT_RUNS),
    localrule: True


use rule run as count_freelb with:
    output:
        record=f"{FB_COUNT_RUN}/record.json",
        gradients=f"{FB_COUNT_RUN}/gradients.csv",
    log:
        f"{ROOT}/logs/freelb/count/{{family}}.log",
    wildcard_constraints:
        family="gradient",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "count",
            study="freelb",
            settings=count_family_settings,
            modules=[method_module(STRATEGIES, "freelb")],
            seed=0,
        ),
