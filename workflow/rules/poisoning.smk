# The study `poisoning` (zhu2022, chapter 2).


include: "../settings/poisoning.smk"


# prepare: the data set, checked, and its splits.
rule prepare_all:
    input:
        f"{PREPARED}/record.json",
        expand(f"{SUBSET_RUN}/record.json", part=PARTS if OVERLAP["victims"] else []),
    localrule: True


use rule run as prepare with:
    output:
        record=f"{PREPARED}/record.json",
        data=f"{PREPARED}/data.safetensors",
    log:
        f"{ROOT}/logs/prepare.log",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "prepare",
            study="poisoning",
            settings=POISONING["prepare"],
            modules=[dataset_module(POISONING["prepare"]["dataset"])],
            seed=None,
            dataset=POISONING["prepare"]["dataset"],
        ),


use rule run as subset with:
    input:
        data=rules.prepare.output.data,
    output:
        record=f"{SUBSET_RUN}/record.json",
        data=f"{SUBSET_RUN}/data.safetensors",
    log:
        f"{ROOT}/logs/subset/{{part}}.log",
    resources:
        **needs(mem_mb=4000, minutes=15, gpu=0),
    params:
        **words(
            "subset",
            study="poisoning",
            settings=lambda wildcards: dict(zip(("start", "stop"), PARTS[wildcards.part])),
            seed=None,
            dataset=DATASET,
        ),


# pretrain: every substitute and every victim, each from its own seed; harden: adversarial training of the victims.
rule pretrain_all:
    input:
        expand("{run}/record.json", run=NETWORK_RUNS + HARDEN_RUNS),
    localrule: True


use rule run as pretrain with:
    input:
        data=pretrain_data,
    output:
        record=f"{NETWORK_RUN}/record.json",
        weights=f"{NETWORK_RUN}/weights.safetensors",
    log:
        f"{ROOT}/logs/pretrain/{{role}}/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=6000, minutes=240),
    params:
        **words(
            "pretrain",
            study="poisoning",
            settings=pretrain_settings,
            modules=network_modules,
            architecture=architecture_of,
        ),


use rule run as harden with:
    input:
        data=rules.prepare.output.data,
        start=lambda wildcards: weights("victim", [wildcards.network], wildcards.seed),
    output:
        record=f"{HARDEN_RUN}/record.json",
        weights=f"{HARDEN_RUN}/weights.safetensors",
    log:
        f"{ROOT}/logs/harden/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=6000, minutes=480),
    params:
        **words(
            "harden",
            study="poisoning",
            settings=lambda wildcards: {**HARDEN, "architecture": architecture_of(wildcards)},
            modules=network_modules,
            role="robust",
            architecture=architecture_of,
        ),


# craft: the poisons of an attack, for all targets, against all substitutes; the loss in watched victims beside it.
rule craft_all:
    input:
        expand(f"{CRAFT_RUN}/record.json", attack=CRAFTED, seed=SEEDS),
    localrule: True


use rule run as craft with:
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
    resources:
        **needs(mem_mb=8000, minutes=720),
    params:
        **words("craft", study="poisoning", settings=craft_settings, modules=craft_modules),


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


# evaluate: the worth of every trained network, and what holds without training.
rule evaluate_all:
    input:
        expand("{run}/record.json", run=EVALUATE_RUNS),
    localrule: True


use rule run as evaluate with:
    input:
        data=rules.prepare.output.data,
        network=evaluated_network,
    output:
        record=f"{ROBUSTNESS_RUN}/record.json",
        trials=f"{ROBUSTNESS_RUN}/trials.csv",
        curves=f"{ROBUSTNESS_RUN}/loss_curves.csv",
    log:
        f"{ROOT}/logs/evaluate/robustness/{{role}}/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=30),
    params:
        **words(
            "evaluate",
            study="poisoning",
            settings={
                "protocol": "robustness",
                **{key: EVALUATE[key] for key in ("calibration_bins", "pgd", "corruptions")},
            },
            modules=network_modules,
            protocol="robustness",
            architecture=architecture_of,
        ),


use rule run as evaluate_hull with:
    output:
        record=f"{HULL_RUN}/record.json",
    log:
        f"{ROOT}/logs/evaluate/hull/seed{{seed}}.log",
    resources:
        **needs(mem_mb=2000, minutes=30, gpu=0),
    params:
        **words(
            "evaluate",
            study="poisoning",
            settings={"protocol": "hull", **EVALUATE["hull"]},
            modules=["relearn.measures.hull"],
            protocol="hull",
        ),


use rule run as evaluate_feature_plane with:
    input:
        data=rules.prepare.output.data,
        victim=f"{VICTIM_RUN}/weights.safetensors",
        poisons=rules.craft.output.poisons,
    output:
        record=f"{PLANE_RUN}/record.json",
        trials=f"{PLANE_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/evaluate/feature_plane/{{attack}}/{{victim}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=30),
    params:
        **words(
            "evaluate",
            study="poisoning",
            settings=PLANE_SETTINGS,
            modules=victim_modules,
            protocol="feature_plane",
        ),


use rule run as evaluate_toy with:
    output:
        record=f"{TOY_RUN}/record.json",
        trials=f"{TOY_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/evaluate/toy/seed{{seed}}.log",
    resources:
        **needs(mem_mb=2000, minutes=15, gpu=0),
    params:
        **words(
            "evaluate",
            study="poisoning",
            settings={"protocol": "toy"},
            modules=["relearn.measures.toy_svm"],
            protocol="toy",
        ),
