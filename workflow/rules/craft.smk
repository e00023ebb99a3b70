# craft: the poisons of an attack, for all targets, against all substitutes; the loss in watched victims beside it.


rule craft_all:
    input:
        expand(f"{CRAFT_RUN}/record.json", attack=CRAFTED, seed=SEEDS),
    localrule: True


rule craft:
    input:
        data=rules.prepare.output.data,
        substitutes=substitutes_of,
        watch=watched_of,
    output:
        record=f"{CRAFT_RUN}/record.json",
        poisons=f"{CRAFT_RUN}/poisons.safetensors",
        gallery=f"{CRAFT_RUN}/gallery.safetensors",
        history=f"{CRAFT_RUN}/history.csv",
        trials=f"{CRAFT_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/craft/{{attack}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/craft/{{attack}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=720,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=craft_settings,
        code=craft_code,
    shell:
        "relearn craft --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input substitutes {input.substitutes:q}"
        " --input watch {input.watch:q}"
        " --label attack={wildcards.attack} --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
