# train: the victims' fine-tuning on clean, poisoned and filtered sets.


rule train_all:
    input:
        expand("{run}/record.json", run=TRAIN_RUNS + CLEAN_RUNS),
    localrule: True


rule train:
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
    benchmark:
        f"{ROOT}/benchmarks/train/{{setting}}/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=6000,
        runtime=240,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=train_settings,
        code=train_code,
    shell:
        "relearn train --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input victim {input.victim:q}"
        " --input poisons {input.poisons:q} --input kept {input.kept:q}"
        " --input features {input.features:q}"
        " --label setting={wildcards.setting} --label attack={wildcards.attack} --label defence={wildcards.defence}"
        " --label victim={wildcards.victim} --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule train_clean:
    input:
        data=rules.prepare.output.data,
        victim=victim_of,
    output:
        record=f"{CLEAN_RUN}/record.json",
        trials=f"{CLEAN_RUN}/trials.csv",
        features=f"{CLEAN_RUN}/features.safetensors",
    log:
        f"{ROOT}/logs/train/{{setting}}/clean/{{defence}}/{{victim}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/train/{{setting}}/clean/{{defence}}/{{victim}}/seed{{seed}}.tsv"
    wildcard_constraints:
        setting="transfer|overlap_half|overlap_disjoint",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=6000,
        runtime=240,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=train_settings,
        code=train_code,
    shell:
        "relearn train --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input victim {input.victim:q}"
        " --label setting={wildcards.setting} --label attack=clean --label defence={wildcards.defence}"
        " --label victim={wildcards.victim} --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


use rule train_clean as train_clean_end_to_end with:  # no features that another run could read
    output:
        record=f"{CLEAN_RUN}/record.json",
        trials=f"{CLEAN_RUN}/trials.csv",
    wildcard_constraints:
        setting="end_to_end",
