# craft: the poisons of an attack, for all targets, against all substitutes.
CRAFT = POISONING["craft"]
ATTACK_NAMES = list(CRAFT["attacks"])
TRIALS = {key: CRAFT[key] for key in ("poison_class", "target_class", "poisons", "targets")}
CRAFT_RUN = f"{ROOT}/runs/poisoning/craft/{{attack}}/seed{{seed}}"


def craft_settings(wildcards):
    return canonical({**TRIALS, **CRAFT["attacks"][wildcards.attack], "attack": wildcards.attack})


def craft_code(wildcards):
    networks = [network_module(name) for name in PRETRAIN["substitutes"]["architectures"]]
    return code_version("relearn.steps.craft", method_module(ATTACKS, wildcards.attack), *networks)


rule craft_all:
    localrule: True
    input:
        expand(f"{CRAFT_RUN}/record.json", attack=ATTACK_NAMES, seed=SEEDS),


rule craft:
    input:
        data=rules.prepare.output.data,
        substitutes=expand("{run}/weights.safetensors", run=SUBSTITUTE_RUNS, allow_missing=True),
    output:
        record=f"{CRAFT_RUN}/record.json",
        poisons=f"{CRAFT_RUN}/poisons.safetensors",
        trials=f"{CRAFT_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/craft/{{attack}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/craft/{{attack}}/seed{{seed}}.tsv"
    params:
        settings=craft_settings,
        code=craft_code,
    threads: 1
    resources:
        mem_mb=8000,
        runtime=720,
        gpu=1,
    shell:
        "relearn craft --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input substitutes {input.substitutes:q}"
        " --label attack={wildcards.attack} --seed {wildcards.seed} --threads {threads} {HOW}"
        " --out $(dirname {output.record:q}) --log {log:q}"
