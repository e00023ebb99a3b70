# filter: what each defence drops from the poisoned fine-tuning sets of each victim.


rule filter_all:
    input:
        expand("{run}/record.json", run=FILTER_RUNS),
    localrule: True


use rule run as filter with:
    input:
        data=rules.prepare.output.data,
        victim=f"{VICTIM_RUN}/weights.safetensors",
        poisons=rules.craft.output.poisons,
    output:
        record=f"{FILTER_RUN}/record.json",
        kept=f"{FILTER_RUN}/kept.safetensors",
        trials=f"{FILTER_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/filter/{{setting}}/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=30),
    params:
        **words("filter", study="poisoning", settings=filter_settings, modules=filter_modules),
