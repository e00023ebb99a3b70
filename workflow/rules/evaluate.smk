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
