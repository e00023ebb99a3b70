# train: the victims' fine-tuning on clean, poisoned and filtered sets.


rule train_all:
    input:
        expand("{run}/record.json", run=TRAIN_RUNS),
    localrule: True


rule train:
    input:
        data=rules.prepare.output.data,
        victim=f"{VICTIM_RUN}/weights.safetensors",
        poisons=poisons_of,
        kept=kept_of,
    output:
        record=f"{TRAIN_RUN}/record.json",
        trials=f"{TRAIN_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/train/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/train/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=6000,
        runtime=60,
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
        " --label attack={wildcards.attack} --label defence={wildcards.defence}"
        " --label victim={wildcards.victim} --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
