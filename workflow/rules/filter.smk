# filter: what each defence drops from the poisoned fine-tuning sets of each victim.


rule filter_all:
    input:
        expand("{run}/record.json", run=FILTER_RUNS),
    localrule: True


rule filter:
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
    benchmark:
        f"{ROOT}/benchmarks/filter/{{setting}}/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=filter_settings,
        code=filter_code,
    shell:
        "relearn filter --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input victim {input.victim:q} --input poisons {input.poisons:q}"
        " --label setting={wildcards.setting} --label attack={wildcards.attack} --label defence={wildcards.defence}"
        " --label victim={wildcards.victim} --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
