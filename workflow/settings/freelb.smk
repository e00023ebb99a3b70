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
    return {
        "encoder": encoder_sizes(wildcards.encoder),
        "corpus": dict(FB["corpus"]),
        "schedule": "linear",
        "clip_norm": None,
        **FB["acquire"],
    }


# finetune
FINETUNE_RUN = f"{FB_RUNS}/finetune/{{encoder}}/{{task}}/{{method}}/seed{{seed}}"
FINETUNE_RUNS = [
    run
    for (encoder, name), own in FB_PLAN.items()
    for run in expand(FINETUNE_RUN, encoder=encoder, task=name, method=own["methods"], seed=FB_SEEDS)
]


def strategy_settings(name, own, common):
    """A method by its name: freelb_fresh draws new dropout masks in every pass; yopo_n takes n steps of step_size / n, *_whole of step_size."""
    if name == "vanilla":
        return {"kind": "vanilla"}
    kind = name.partition("_")[0] if name.startswith(("freelb", "yopo")) else name
    method = {
        "kind": kind,
        **{key: own[key] for key in ("passes", "step_size", "start_norm", "project")},
        "eps": own["eps"] if own["project"] else None,
        "mask": common["mask"],
    }
    if kind in ("freelb", "yopo", "pgd"):
        method["reuse_masks"] = name != "freelb_fresh"
    if kind == "freelb":
        method["clean_first"] = common["clean_first"]
    if kind == "yopo":
        method["inner"] = int(name.split("_")[1])
        method["inner_step"] = "whole" if name.endswith("_whole") else "divided"
    return method


def finetune_settings(wildcards):
    own, common = FB_PLAN[wildcards.encoder, wildcards.task], FB["finetune"]
    return {
        "encoder": {
            **encoder_sizes(wildcards.encoder),
            "checkpoint": FB["encoders"][wildcards.encoder]["checkpoint"],
        },
        "task": own["task"],
        "samples": {part: own[f"{part}_samples"] for part in ("train", "dev", "test")},
        "method": strategy_settings(wildcards.method, own, common),
        **{key: own[key] for key in ("max_length", "with_tasks", "steps", "warmup_steps", "batch_size")},
        **{key: own[key] for key in ("accumulate", "lr", "weight_decay", "dropout", "attention_dropout")},
        "clip_norm": absent(own["clip_norm"]),
        "schedule": "linear",
        **{key: common[key] for key in ("betas", "adam_eps", "evaluations")},
        **(
            {"answered": ["ax"]} if own["task"] == "mnli" else {}
        ),  # the diagnostics are answered by MNLI's networks
    }


def finetune_inputs(wildcards):
    """What it starts from: another task's network, an encoder made here, or nothing where a checkpoint is named."""
    own = FB_PLAN[wildcards.encoder, wildcards.task]
    if own["start"]:
        first = FINETUNE_RUN.format(
            encoder=wildcards.encoder, task=own["start"], method="vanilla", seed=wildcards.seed
        )
        return {"start": f"{first}/model.safetensors"}
    if FB["encoders"][wildcards.encoder]["checkpoint"]:
        return {}
    return {"encoder": f"{ACQUIRE_RUN.format(encoder=wildcards.encoder)}/encoder.safetensors"}


def finetune_modules(wildcards):
    """The method of the run and no other."""
    return strategy_modules(wildcards.method)


def strategy_modules(name):
    kind = name.partition("_")[0] if name.startswith(("freelb", "yopo")) else name
    return [] if kind == "vanilla" else [method_module(STRATEGIES, kind)]


# provoke
PROVOKE_RUN = f"{FB_RUNS}/provoke/{{encoder}}/{{task}}/seed{{seed}}"
PROVOKE_RUNS = expand(PROVOKE_RUN, encoder="roberta", task=FB["provoke"]["tasks"], seed=FB_SEEDS)


def provoked(method):
    """The network of one method that a probe looks at."""
    return lambda wildcards: (
        FINETUNE_RUN.format(
            encoder=wildcards.encoder, task=wildcards.task, method=method, seed=wildcards.seed
        )
        + "/model.safetensors"
    )


def provoke_settings(wildcards):
    own = FB_PLAN[wildcards.encoder, wildcards.task]
    return {
        "task": own["task"],
        "max_length": own["max_length"],
        "references": ["freelb", "pgd"],
        **{key: value for key, value in FB["provoke"].items() if key != "tasks"},
    }


# vote
VOTE_RUN = f"{FB_RUNS}/vote/{{encoder}}/{{method}}/seed{FB_SEEDS[0]}"


def members(encoder, method):
    """Fine-tunings of a method that an ensemble of it has; of a task that is started twice the one that starts from another task."""
    names = {}
    for (its_encoder, name), own in FB_PLAN.items():
        if (
            its_encoder == encoder
            and method in own["methods"]
            and (own["task"] not in names or (own["start"] and not own["with_tasks"]))
        ):
            names[own["task"]] = name
    return [{"task": task, "name": name, "seed": seed} for task, name in names.items() for seed in FB_SEEDS]


VOTE_RUNS = [
    VOTE_RUN.format(encoder=encoder, method=method)
    for encoder in FB_ENCODERS
    for method in FB["vote"]["methods"]
    if members(encoder, method)
]


def vote_answers(wildcards):
    return [
        FINETUNE_RUN.format(
            encoder=wildcards.encoder, task=one["name"], method=wildcards.method, seed=one["seed"]
        )
        + "/answers.csv"
        for one in members(wildcards.encoder, wildcards.method)
    ]


def vote_settings(wildcards):
    return {"members": members(wildcards.encoder, wildcards.method)}


# contrast
CONTRAST_RUN = f"{FB_RUNS}/contrast/{{method}}/seed{{seed}}"
CONTRAST_RUNS = expand(CONTRAST_RUN, method=FB["contrast"]["methods"], seed=FB_SEEDS)


def contrast_settings(wildcards):
    own = FB["contrast"]
    method = {"kind": "vanilla"}
    if wildcards.method != "vanilla":
        method = {"kind": wildcards.method, **own["perturbation"]}
        method["eps"] = method["eps"] if method["project"] else None
    return {
        "network": dict(own["network"]),
        "train": dict(own["train"]),
        "method": method,
        "attack": dict(own["attack"]),
    }


def contrast_modules(wildcards):
    """The network, the method, and the space that it perturbs: the step takes all from lists of names."""
    strategies = strategy_modules(wildcards.method)
    return [
        network_module(FB["contrast"]["network"]["name"]),
        *strategies,
        *([method_module(SPACES, "pixels")] if strategies else []),
    ]


def count_family_settings(wildcards):
    return {"family": wildcards.family}


# count: what holds without training
FB_COUNT_RUN = f"{FB_RUNS}/count/{{family}}/seed0"
FB_COUNT_RUNS = expand(FB_COUNT_RUN, family=FB["count"]["families"])

# render
