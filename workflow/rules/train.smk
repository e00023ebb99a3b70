# train: the victims' fine-tuning on clean, poisoned and filtered sets.
TRAIN_RUN = f"{ROOT}/runs/poisoning/train/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}"
TRAIN_RUNS = expand(TRAIN_RUN, attack="clean", defence="none", victim=VICTIMS, seed=SEEDS) + expand(
    TRAIN_RUN, attack=ATTACK_NAMES, defence=["none", *DEFENCE_NAMES], victim=VICTIMS, seed=SEEDS
)


def poisons_of(wildcards):
    """The clean set has no poisons."""
    return [] if wildcards.attack == "clean" else rules.craft.output.poisons.format(**wildcards)


def kept_of(wildcards):
    """Without a defence everything is kept."""
    return [] if wildcards.defence == "none" else rules.filter.output.kept.format(**wildcards)


def knowledge_of(wildcards):
    """Gray box: the victim's architecture, not its weights, is among the substitutes."""
    return "gray_box" if wildcards.victim in PRETRAIN["substitutes"]["architectures"] else "black_box"


def train_settings(wildcards):
    settings = {**TRIALS, **POISONING["train"], "attack": wildcards.attack}
    if wildcards.attack != "clean":
        settings |= {"eps": CRAFT["attacks"][wildcards.attack]["eps"], "knowledge": knowledge_of(wildcards)}
    return canonical(settings)


def train_code(wildcards):
    return code_version("relearn.steps.train", network_module(wildcards.victim))


rule train_all:
    localrule: True
    input:
        expand("{run}/record.json", run=TRAIN_RUNS),


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
    params:
        settings=train_settings,
        code=train_code,
    threads: 1
    resources:
        mem_mb=6000,
        runtime=60,
        gpu=1,
    shell:
        "relearn train --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input victim {input.victim:q}"
        " --input poisons {input.poisons:q} --input kept {input.kept:q}"
        " --label attack={wildcards.attack} --label defence={wildcards.defence}"
        " --label victim={wildcards.victim} --seed {wildcards.seed} --threads {threads} {HOW}"
        " --out $(dirname {output.record:q}) --log {log:q}"
