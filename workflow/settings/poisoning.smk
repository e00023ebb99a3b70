# The study `poisoning` (zhu2022, chapter 2): its grid of runs, the folder, settings and modules of each.
POISONING = PARAMS["poisoning"]
STUDIES = POISONING["studies"]
RUNS = f"{ROOT}/runs/poisoning"
SEEDS = POISONING["seeds"]

# prepare, subset
DATASET = POISONING["prepare"]["dataset"]
PREPARED = f"{RUNS}/prepare/{DATASET}"
PARTS = {"first_half": (0.0, 0.5), "middle_half": (0.25, 0.75), "second_half": (0.5, 1.0)}
SUBSET_RUN = f"{RUNS}/subset/{DATASET}-{{part}}"
OVERLAP = STUDIES["overlap"]
PART_OF = {
    "substitute_half": "first_half",
    "victim_half": "middle_half",
    "victim_disjoint": "second_half",
}


def pretrain_data(wildcards):
    """Networks of the overlap study see a half of each class, all others the whole pre-training set."""
    part = PART_OF.get(wildcards.role)
    return f"{SUBSET_RUN.format(part=part) if part else PREPARED}/data.safetensors"


# pretrain, harden
PRETRAIN = POISONING["pretrain"]
HARDEN = POISONING["harden"]
VICTIMS = PRETRAIN["victims"]["architectures"]
NETWORK_RUN = f"{RUNS}/pretrain/{{role}}/{{network}}/seed{{seed}}"
HARDEN_RUN = f"{RUNS}/harden/robust/{{network}}/seed{{seed}}"


def networks(substitutes):
    """Names of the networks of a set of substitutes: one for each architecture and probability of Dropout."""
    return [f"{a}-drop{p:g}" for a in substitutes["architectures"] for p in substitutes["dropout"]]


def undropped(victims):
    return [f"{victim}-drop0" for victim in victims]


PLANE = STUDIES["feature_plane"]
FEW = STUDIES["end_to_end"]  # fewer substitutes: set S2 of the text
SUBSTITUTES = networks(PRETRAIN["substitutes"])
ROLES = {
    "substitute": list(dict.fromkeys(SUBSTITUTES + (networks(FEW["substitutes"]) if FEW["victims"] else []))),
    "victim": undropped(dict.fromkeys([*VICTIMS, PLANE["victim"]])),
    "substitute_half": networks(OVERLAP["substitutes"]) if OVERLAP["victims"] else [],
    "victim_half": undropped(OVERLAP["victims"]),
    "victim_disjoint": undropped(OVERLAP["victims"]),
}
NETWORK_RUNS = [
    NETWORK_RUN.format(role=role, network=network, seed=seed)
    for role, names in ROLES.items()
    for network in names
    for seed in SEEDS
]
HARDENED = [
    victim
    for victim in VICTIMS
    if any("adversarial_training" in defences for defences in STUDIES["transfer"].values())
]
HARDEN_RUNS = expand(HARDEN_RUN, network=undropped(HARDENED), seed=SEEDS)


def weights(role, names, seed="{seed}"):
    return [
        f"{NETWORK_RUN.format(role=role, network=network, seed=seed)}/weights.safetensors"
        for network in names
    ]


def architecture_of(wildcards):
    return wildcards.network.rpartition("-drop")[0]


def pretrain_settings(wildcards):
    architecture, _, dropout = wildcards.network.rpartition("-drop")
    settings = {**PRETRAIN["network"], "training": PRETRAIN["training"]}
    return {**settings, "architecture": architecture, "dropout": float(dropout)}


def network_modules(wildcards):
    return [network_module(architecture_of(wildcards))]


# craft: which substitutes, which method, which arguments stand behind the name of an attack
CRAFT = POISONING["craft"]
TRIALS = {key: CRAFT[key] for key in ("poison_class", "target_class", "poisons", "targets")}
CRAFT_RUN = f"{RUNS}/craft/{{attack}}/seed{{seed}}"
DROPOUT = STUDIES["dropout"]
UNDROPPED = "_no_dropout"
METHOD_OF = {
    "multi_layer_as_released": "multi_layer",
    "white_box_watermark": "white_box_collision",
}
FORM_OF = {"multi_layer": "paper", "multi_layer_as_released": "as_released"}
SAME_SUBSTITUTES = networks(FEW["substitutes"]) == SUBSTITUTES


def craft_name(setting, attack):
    """The crafting run behind an attack in a setting: with fewer substitutes it is one of its own."""
    own = setting == "end_to_end" and attack == "convex_polytope" and not SAME_SUBSTITUTES
    return f"{attack}_s2" if own else attack


TRANSFER_ATTACKS = list(STUDIES["transfer"])
CRAFTED = list(
    dict.fromkeys(
        [
            *TRANSFER_ATTACKS,
            *(name + UNDROPPED for name in DROPOUT["attacks"] if DROPOUT["victims"]),
            *([f"{OVERLAP['attack']}_half"] if OVERLAP["victims"] else []),
            *(craft_name("end_to_end", name) for name in FEW["attacks"] if FEW["victims"]),
            *STUDIES["white_box"]["attacks"],
        ]
    )
)


def plain_name(attack):
    """The entry of craft.attacks behind the name of a crafting run."""
    for suffix in (UNDROPPED, "_half", "_s2"):
        attack = attack.removesuffix(suffix)
    return attack


def substitutes_of(wildcards):
    """What the attacker knows: his own networks, or in the white-box case the victim's."""
    if wildcards.attack.startswith("white_box"):
        return weights("victim", undropped([STUDIES["white_box"]["victim"]]))
    if wildcards.attack.endswith("_half"):
        return weights("substitute_half", ROLES["substitute_half"])
    if wildcards.attack.startswith("multi_layer") or wildcards.attack.endswith("_s2"):
        return weights("substitute", networks(FEW["substitutes"]))
    return weights("substitute", SUBSTITUTES)


def is_watched(attack):
    return attack.removesuffix(UNDROPPED) in DROPOUT["attacks"]


def watched_of(wildcards):
    return weights("victim", undropped(DROPOUT["victims"])) if is_watched(wildcards.attack) else []


def craft_settings(wildcards):
    name = plain_name(wildcards.attack)
    settings = {**TRIALS, **CRAFT["attacks"][name], "attack": METHOD_OF.get(name, name)}
    if name in FORM_OF:
        settings["form"] = FORM_OF[name]
    if wildcards.attack.endswith(UNDROPPED):
        settings["dropout"] = False
    if is_watched(wildcards.attack) and DROPOUT["victims"]:
        settings |= {"watch_every": DROPOUT["watch_every"], "watched": DROPOUT["victims"]}
    if wildcards.attack.startswith("multi_layer") or wildcards.attack.endswith("_s2"):
        settings["targets"] = FEW["targets"]  # made for the end-to-end victims alone
    return settings


def craft_modules(wildcards):
    name = plain_name(wildcards.attack)
    paths = [*substitutes_of(wildcards), *watched_of(wildcards)]
    found = {Path(path).parts[-3].rpartition("-drop")[0] for path in paths}
    method = method_module(ATTACKS, METHOD_OF.get(name, name))
    return [method, *(network_module(one) for one in sorted(found))]


# filter
IMBALANCE = STUDIES["imbalance"]
FILTER_RUN = f"{RUNS}/filter/{{setting}}/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}"
VICTIM_RUN = f"{RUNS}/pretrain/victim/{{victim}}-drop0/seed{{seed}}"
FILTER_RUNS = [
    *(
        FILTER_RUN.format(setting="transfer", attack=attack, defence=defence, victim=victim, seed=seed)
        for attack, defences in STUDIES["transfer"].items()
        for defence in defences
        if defence in DEFENCES
        for victim in VICTIMS
        for seed in SEEDS
    ),
    *expand(
        FILTER_RUN,
        setting="imbalance",
        attack=IMBALANCE["attacks"],
        defence="deep_knn",
        victim=IMBALANCE["victims"],
        seed=SEEDS,
    ),
]


def defence_settings(attack, defence):
    """The arguments of a defence; one that has a value for an attack gets that."""
    values = POISONING["filter"][defence]
    settings = {key: value for key, value in values.items() if not key.startswith(tuple(ATTACKS))}
    settings |= {
        key.removeprefix(f"{attack}_"): value for key, value in values.items() if key.startswith(f"{attack}_")
    }
    return settings


def filter_settings(wildcards):
    chosen = defence_settings(wildcards.attack, wildcards.defence)
    if wildcards.setting == "imbalance":
        chosen = {key: value for key, value in chosen.items() if key != "sweep"}
        chosen |= {"k": IMBALANCE["k"], "class_sizes": IMBALANCE["class_sizes"]}
    return {**TRIALS, **chosen, "defence": wildcards.defence}


def filter_modules(wildcards):
    defence = method_module(DEFENCES, wildcards.defence)
    return [defence, network_module(wildcards.victim)]


# train
TRAIN_RUN = f"{RUNS}/train/{{setting}}/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}"
CLEAN_RUN = f"{RUNS}/train/{{setting}}/clean/{{defence}}/{{victim}}/seed{{seed}}"
HALF_ATTACK = f"{OVERLAP['attack']}_half"


def train_runs():
    """(setting, attack, defence, victim) of every run that meets poisons."""
    for attack, defences in STUDIES["transfer"].items():
        for defence in ["none", *defences]:
            yield from (("transfer", attack, defence, victim) for victim in VICTIMS)
    for setting in ("overlap_full", "overlap_half", "overlap_disjoint"):
        yield from ((setting, HALF_ATTACK, "none", victim) for victim in OVERLAP["victims"])
    for attack in IMBALANCE["attacks"]:
        yield from (("imbalance", attack, "deep_knn", victim) for victim in IMBALANCE["victims"])
    for attack in FEW["attacks"]:
        yield from (("end_to_end", attack, "none", victim) for victim in FEW["victims"])
    for attack in STUDIES["white_box"]["attacks"]:
        yield "transfer", attack, "none", STUDIES["white_box"]["victim"]


def clean_runs():
    """(setting, defence, victim) of every run on unperturbed bases."""
    yield from (("transfer", "none", victim) for victim in VICTIMS)
    yield from (("transfer", "adversarial_training", victim) for victim in HARDENED)
    for setting in ("overlap_half", "overlap_disjoint"):
        yield from ((setting, "none", victim) for victim in OVERLAP["victims"])
    yield from (("end_to_end", "none", victim) for victim in FEW["victims"])


TRAIN_RUNS = [
    TRAIN_RUN.format(setting=setting, attack=attack, defence=defence, victim=victim, seed=seed)
    for setting, attack, defence, victim in train_runs()
    for seed in SEEDS
]
CLEAN_RUNS = [
    CLEAN_RUN.format(setting=setting, defence=defence, victim=victim, seed=seed)
    for setting, defence, victim in clean_runs()
    for seed in SEEDS
]


def victim_of(wildcards):
    """The weights that a victim starts from: pre-trained, on a part of the data, or hardened."""
    network = f"{wildcards.victim}-drop0"
    if wildcards.defence == "adversarial_training":
        return f"{HARDEN_RUN.format(network=network, seed=wildcards.seed)}/weights.safetensors"
    roles = {"overlap_half": "victim_half", "overlap_disjoint": "victim_disjoint"}
    return weights(roles.get(wildcards.setting, "victim"), [network], wildcards.seed)


def poisons_of(wildcards):
    name = craft_name(wildcards.setting, wildcards.attack)
    return f"{CRAFT_RUN.format(attack=name, seed=wildcards.seed)}/poisons.safetensors"


def kept_of(wildcards):
    """Without a filter everything is kept."""
    if wildcards.defence not in DEFENCES:
        return []
    return f"{FILTER_RUN}/kept.safetensors".format(**wildcards)


def features_of(wildcards):
    """The test images' features of the same network, from its clean run; an end-to-end victim has none."""
    if wildcards.setting == "end_to_end":
        return []
    setting = {"overlap_full": "transfer", "imbalance": "transfer"}.get(wildcards.setting, wildcards.setting)
    defence = "adversarial_training" if wildcards.defence == "adversarial_training" else "none"
    clean = CLEAN_RUN.format(setting=setting, defence=defence, victim=wildcards.victim, seed=wildcards.seed)
    return f"{clean}/features.safetensors"


def knowledge_of(wildcards):
    """Gray box: the victim's architecture, not its weights, is among the substitutes."""
    if wildcards.attack.startswith("white_box"):
        return "white_box"
    known = (
        FEW["substitutes"]
        if wildcards.setting == "end_to_end"
        else OVERLAP["substitutes"] if wildcards.setting.startswith("overlap") else PRETRAIN["substitutes"]
    )
    return "gray_box" if wildcards.victim in known["architectures"] else "black_box"


def train_settings(wildcards):
    whole = wildcards.setting == "end_to_end"
    recipe = POISONING["train"]["end_to_end" if whole else "transfer"]
    attack = wildcards.get("attack", "clean")
    settings = {**TRIALS, **recipe, "setting": wildcards.setting, "attack": attack}
    if whole:
        settings["targets"] = FEW["targets"]
    if attack != "clean":
        eps = CRAFT["attacks"][plain_name(attack)]["eps"]
        settings |= {"eps": eps, "knowledge": knowledge_of(wildcards)}
    return settings


def victim_modules(wildcards):
    return [network_module(wildcards.victim)]


# evaluate
EVALUATE = POISONING["evaluate"]
ROBUSTNESS_RUN = f"{RUNS}/evaluate/robustness/{{role}}/{{network}}/seed{{seed}}"
PLANE_RUN = f"{RUNS}/evaluate/feature_plane/{{attack}}/{{victim}}/seed{{seed}}"
TOY_RUN = f"{RUNS}/evaluate/toy/seed{{seed}}"
HULL_RUN = f"{RUNS}/evaluate/hull/seed{{seed}}"
EVALUATE_RUNS = [
    *(
        ROBUSTNESS_RUN.format(role=role, network=network, seed=seed)
        for role, names in {**ROLES, "robust": undropped(HARDENED)}.items()
        for network in names
        for seed in SEEDS
    ),
    *expand(PLANE_RUN, attack=PLANE["attack"], victim=PLANE["victim"], seed=SEEDS[:1]),
    *expand(TOY_RUN, seed=0),
    *expand(HULL_RUN, seed=0),
]


def evaluated_network(wildcards):
    run = HARDEN_RUN if wildcards.role == "robust" else NETWORK_RUN
    return f"{run}/weights.safetensors".format(**wildcards)


PLANE_SETTINGS = {
    **TRIALS,
    "protocol": "feature_plane",
    "attack": PLANE["attack"],
    "target": PLANE["target"],
    **{key: POISONING["filter"]["deep_knn"][key] for key in ("k", "include_self")},
}

# render
