# The study `poisoning` (zhu2022, chapter 2): its grid of runs, where each lies, and the settings and code version of each.
POISONING = PARAMS["poisoning"]

# prepare
PREPARED = f"{ROOT}/runs/poisoning/prepare/{POISONING['prepare']['dataset']}"


# pretrain
PRETRAIN = POISONING["pretrain"]
SEEDS = POISONING["seeds"]
VICTIMS = PRETRAIN["victims"]["architectures"]
SUBSTITUTES = [
    f"{architecture}-drop{dropout:g}"
    for architecture in PRETRAIN["substitutes"]["architectures"]
    for dropout in PRETRAIN["substitutes"]["dropout"]
]
NETWORK_RUN = f"{ROOT}/runs/poisoning/pretrain/{{role}}/{{network}}/seed{{seed}}"
SUBSTITUTE_RUNS = [
    f"{ROOT}/runs/poisoning/pretrain/substitute/{network}/seed{{seed}}" for network in SUBSTITUTES
]
VICTIM_RUN = f"{ROOT}/runs/poisoning/pretrain/victim/{{victim}}-drop0/seed{{seed}}"
VICTIM_RUNS = expand(VICTIM_RUN, victim=VICTIMS, allow_missing=True)


def architecture_of(wildcards):
    return wildcards.network.rpartition("-drop")[0]


def pretrain_settings(wildcards):
    architecture, _, dropout = wildcards.network.rpartition("-drop")
    settings = {**PRETRAIN["network"], "training": PRETRAIN["training"]}
    return canonical({**settings, "architecture": architecture, "dropout": float(dropout)})


def pretrain_code(wildcards):
    return code_version("relearn.steps.pretrain", network_module(architecture_of(wildcards)))


# craft
CRAFT = POISONING["craft"]
ATTACK_NAMES = list(CRAFT["attacks"])
TRIALS = {key: CRAFT[key] for key in ("poison_class", "target_class", "poisons", "targets")}
CRAFT_RUN = f"{ROOT}/runs/poisoning/craft/{{attack}}/seed{{seed}}"


def craft_settings(wildcards):
    return canonical({**TRIALS, **CRAFT["attacks"][wildcards.attack], "attack": wildcards.attack})


def craft_code(wildcards):
    networks = [network_module(name) for name in PRETRAIN["substitutes"]["architectures"]]
    return code_version("relearn.steps.craft", method_module(ATTACKS, wildcards.attack), *networks)


# filter
DEFENCE_NAMES = list(POISONING["filter"])
FILTER_RUN = f"{ROOT}/runs/poisoning/filter/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}"


def defence_settings(attack, defence):
    """The arguments of a defence; one that has a value for each attack gets the attack's."""
    values = POISONING["filter"][defence]
    settings = {key: value for key, value in values.items() if not key.startswith(tuple(ATTACKS))}
    settings |= {
        key.removeprefix(f"{attack}_"): value for key, value in values.items() if key.startswith(f"{attack}_")
    }
    return settings


def filter_settings(wildcards):
    chosen = defence_settings(wildcards.attack, wildcards.defence)
    return canonical({**TRIALS, **chosen, "defence": wildcards.defence})


def filter_code(wildcards):
    defence = method_module(DEFENCES, wildcards.defence)
    return code_version("relearn.steps.filter", defence, network_module(wildcards.victim))


# train
TRAIN_RUN = f"{ROOT}/runs/poisoning/train/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}"
TRAIN_RUNS = expand(TRAIN_RUN, attack="clean", defence="none", victim=VICTIMS, seed=SEEDS) + expand(
    TRAIN_RUN,
    attack=ATTACK_NAMES,
    defence=["none", *DEFENCE_NAMES],
    victim=VICTIMS,
    seed=SEEDS,
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
        settings |= {
            "eps": CRAFT["attacks"][wildcards.attack]["eps"],
            "knowledge": knowledge_of(wildcards),
        }
    return canonical(settings)


def train_code(wildcards):
    return code_version("relearn.steps.train", network_module(wildcards.victim))


# evaluate
EVALUATE = POISONING["evaluate"]
ACCURACY_RUN = f"{ROOT}/runs/poisoning/evaluate/accuracy/{{role}}/{{network}}/seed{{seed}}"
HULL_RUN = f"{ROOT}/runs/poisoning/evaluate/hull/seed{{seed}}"
EVALUATE_RUNS = [
    *expand(ACCURACY_RUN, role="substitute", network=SUBSTITUTES, seed=SEEDS),
    *expand(ACCURACY_RUN, role="victim", network=[f"{victim}-drop0" for victim in VICTIMS], seed=SEEDS),
    *expand(HULL_RUN, seed=0),
]


def evaluate_code(wildcards):
    return code_version("relearn.steps.evaluate", network_module(architecture_of(wildcards)))


# render
TABLES = ["zhu2022.table2.1", "zhu2022.table2.2"]
FIGURES = ["zhu2022.fig2.5", "zhu2022.fig2.11"]
