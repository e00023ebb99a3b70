# train: the victims' fine-tuning on clean, poisoned and filtered sets.


rule train_all:
    input:
        expand("{run}/record.json", run=TRAIN_RUNS + CLEAN_RUNS),
    localrule: True


use rule run as train with:
    input:
        data=rules.prepare.output.data,
        victim=victim_of,
        poisons=poisons_of,
        kept=kept_of,
        features=features_of,
    output:
        record=f"{TRAIN_RUN}/record.json",
        trials=f"{TRAIN_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/train/{{setting}}/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}.log",
    wildcard_constraints:
        attack="(?!clean/)[a-z_0-9]+",
    resources:
        **needs(mem_mb=6000, minutes=240),
    params:
        **words("train", study="poisoning", settings=train_settings, modules=victim_modules),


use rule run as train_clean with:
    input:
        data=rules.prepare.output.data,
        victim=victim_of,
    output:
        record=f"{CLEAN_RUN}/record.json",
        trials=f"{CLEAN_RUN}/trials.csv",
        features=f"{CLEAN_RUN}/features.safetensors",
    log:
        f"{ROOT}/logs/train/{{setting}}/clean/{{defence}}/{{victim}}/seed{{seed}}.log",
    wildcard_constraints:
        setting="transfer|overlap_half|overlap_disjoint",
    resources:
        **needs(mem_mb=6000, minutes=240),
    params:
        **words("train", study="poisoning", settings=train_settings, modules=victim_modules, attack="clean"),


use rule train_clean as train_clean_end_to_end with:  # no features that another run could read
    output:
        record=f"{CLEAN_RUN}/record.json",
        trials=f"{CLEAN_RUN}/trials.csv",
    wildcard_constraints:
        setting="end_to_end",
