# The study `freelb` (zhu2022, chapter 3): encoders of sentences, fine-tuned with adversarial gradients; the same for images.
FB = PARAMS["freelb"]
FB_RUNS = f"{ROOT}/runs/freelb"
FB_SEEDS = FB["seeds"]
FB_PLAN = {(run["encoder"], run["name"]): run for run in FB["finetune"]["runs"]}
FB_ENCODERS = sorted({encoder for encoder, _ in FB_PLAN})

# acquire: one encoder for all seeds of its fine-tunings, as a published checkpoint would be
ACQUIRE_RUN = f"{FB_RUNS}/acquire/{{encoder}}/seed{FB_SEEDS[0]}"
ACQUIRE_RUNS = expand(
    ACQUIRE_RUN,
    encoder=[name for name in FB_ENCODERS if not FB["encoders"][name]["checkpoint"]],
)


def encoder_sizes(encoder):
    own = {key: value for key, value in FB["encoders"][encoder].items() if key != "checkpoint"}
    if encoder != "albert":
        own.pop("embedding_dim")
    return {"family": encoder, **own}


def acquire_settings(wildcards):
    return canonical(
        {
            "encoder": encoder_sizes(wildcards.encoder),
            "corpus": dict(FB["corpus"]),
            "schedule": "linear",
            "clip_norm": None,
            **FB["acquire"],
        }
    )


# finetune
FINETUNE_RUN = f"{FB_RUNS}/finetune/{{encoder}}/{{exam}}/{{tactic}}/seed{{seed}}"
FINETUNE_RUNS = [
    run
    for (encoder, exam), own in FB_PLAN.items()
    for run in expand(FINETUNE_RUN, encoder=encoder, exam=exam, tactic=own["methods"], seed=FB_SEEDS)
]


def tactic_settings(tactic, own, common):
    """A method by its name: freelb_fresh draws new dropout masks in every pass; yopo_n takes n steps of step_size / n, *_whole of step_size."""
    if tactic == "vanilla":
        return {"kind": "vanilla"}
    kind = tactic.partition("_")[0] if tactic.startswith(("freelb", "yopo")) else tactic
    method = {
        "kind": kind,
        **{key: own[key] for key in ("passes", "step_size", "start_norm", "project")},
        "eps": own["eps"] if own["project"] else None,
        "mask": common["mask"],
    }
    if kind in ("freelb", "yopo", "pgd"):
        method["reuse_masks"] = tactic != "freelb_fresh"
    if kind == "freelb":
        method["clean_first"] = common["clean_first"]
    if kind == "yopo":
        method["inner"] = int(tactic.split("_")[1])
        method["inner_step"] = "whole" if tactic.endswith("_whole") else "divided"
    return method


def finetune_settings(wildcards):
    own, common = FB_PLAN[wildcards.encoder, wildcards.exam], FB["finetune"]
    return canonical(
        {
            "encoder": {
                **encoder_sizes(wildcards.encoder),
                "checkpoint": FB["encoders"][wildcards.encoder]["checkpoint"],
            },
            "task": own["task"],
            "samples": {part: own[f"{part}_samples"] for part in ("train", "dev", "test")},
            "method": tactic_settings(wildcards.tactic, own, common),
            **{key: own[key] for key in ("max_length", "with_tasks", "steps", "warmup_steps", "batch_size")},
            **{key: own[key] for key in ("accumulate", "lr", "weight_decay", "dropout", "attention_dropout")},
            "clip_norm": absent(own["clip_norm"]),
            "schedule": "linear",
            **{key: common[key] for key in ("betas", "adam_eps", "evaluations")},
            **(
                {"answered": ["ax"]} if own["task"] == "mnli" else {}
            ),  # the diagnostics are answered by MNLI's networks
        }
    )


def finetune_inputs(wildcards):
    """What it starts from: another task's network, an encoder made here, or nothing where a checkpoint is named."""
    own = FB_PLAN[wildcards.encoder, wildcards.exam]
    if own["start"]:
        first = FINETUNE_RUN.format(
            encoder=wildcards.encoder, exam=own["start"], tactic="vanilla", seed=wildcards.seed
        )
        return {"start": f"{first}/model.safetensors"}
    if FB["encoders"][wildcards.encoder]["checkpoint"]:
        return {}
    return {"encoder": f"{ACQUIRE_RUN.format(encoder=wildcards.encoder)}/encoder.safetensors"}


def finetune_code(wildcards):
    """Code version: the method that is asked for, and no other."""
    return code_version("relearn.steps.finetune", *strategy_modules(wildcards.tactic))


def strategy_modules(tactic):
    kind = tactic.partition("_")[0] if tactic.startswith(("freelb", "yopo")) else tactic
    return [] if kind == "vanilla" else [method_module(STRATEGIES, kind)]


# provoke
PROVOKE_RUN = f"{FB_RUNS}/provoke/{{encoder}}/{{exam}}/seed{{seed}}"
PROVOKE_RUNS = expand(PROVOKE_RUN, encoder="roberta", exam=FB["provoke"]["tasks"], seed=FB_SEEDS)


def provoked(tactic):
    """The network of one method that a probe looks at."""
    return lambda wildcards: (
        FINETUNE_RUN.format(
            encoder=wildcards.encoder, exam=wildcards.exam, tactic=tactic, seed=wildcards.seed
        )
        + "/model.safetensors"
    )


def provoke_settings(wildcards):
    own = FB_PLAN[wildcards.encoder, wildcards.exam]
    return canonical(
        {
            "task": own["task"],
            "max_length": own["max_length"],
            "references": ["freelb", "pgd"],
            **{key: value for key, value in FB["provoke"].items() if key != "tasks"},
        }
    )


# vote
VOTE_RUN = f"{FB_RUNS}/vote/{{encoder}}/{{tactic}}/seed{FB_SEEDS[0]}"


def members(encoder, tactic):
    """Fine-tunings of a method that an ensemble of it has; of a task that is started twice the one that starts from another task."""
    names = {}
    for (name, exam), own in FB_PLAN.items():
        if (
            name == encoder
            and tactic in own["methods"]
            and (own["task"] not in names or (own["start"] and not own["with_tasks"]))
        ):
            names[own["task"]] = exam
    return [{"task": task, "name": exam, "seed": seed} for task, exam in names.items() for seed in FB_SEEDS]


VOTE_RUNS = [
    VOTE_RUN.format(encoder=encoder, tactic=tactic)
    for encoder in FB_ENCODERS
    for tactic in FB["vote"]["methods"]
    if members(encoder, tactic)
]


def vote_answers(wildcards):
    return [
        FINETUNE_RUN.format(
            encoder=wildcards.encoder, exam=one["name"], tactic=wildcards.tactic, seed=one["seed"]
        )
        + "/answers.csv"
        for one in members(wildcards.encoder, wildcards.tactic)
    ]


def vote_settings(wildcards):
    return canonical({"members": members(wildcards.encoder, wildcards.tactic)})


# contrast
CONTRAST_RUN = f"{FB_RUNS}/contrast/{{tactic}}/seed{{seed}}"
CONTRAST_RUNS = expand(CONTRAST_RUN, tactic=FB["contrast"]["methods"], seed=FB_SEEDS)


def contrast_settings(wildcards):
    own = FB["contrast"]
    method = {"kind": "vanilla"}
    if wildcards.tactic != "vanilla":
        method = {"kind": wildcards.tactic, **own["perturbation"]}
        method["eps"] = method["eps"] if method["project"] else None
    return canonical(
        {
            "network": dict(own["network"]),
            "train": dict(own["train"]),
            "method": method,
            "attack": dict(own["attack"]),
        }
    )


def contrast_code(wildcards):
    """Code version: the method that is asked for, and where it perturbs; the step takes both from lists of names."""
    strategies = strategy_modules(wildcards.tactic)
    return code_version(
        "relearn.steps.contrast",
        network_module(FB["contrast"]["network"]["name"]),
        *strategies,
        *([method_module(SPACES, "pixels")] if strategies else []),
    )


# count: what holds without training
FB_COUNT_RUN = f"{FB_RUNS}/count/{{family}}/seed0"
FB_COUNT_RUNS = expand(FB_COUNT_RUN, family=FB["count"]["families"])

# render
FB_TABLES = [
    *(f"zhu2022.table3.{number}" for number in range(1, 8)),
    "zhu2022.table3.2.ensembles",
    *(f"addition.freelb_{part}" for part in ("own_tasks", "tasks", "contrast", "cost", "encoders")),
]
FB_FIGURES = ["addition.freelb_trade"]
