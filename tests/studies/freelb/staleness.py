"""What a parameter of ``freelb`` touches; see ``test_staleness``."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

F = "freelb"
PRETRAIN, FINETUNE, INCREASE, ENSEMBLE, MERGE, PREPARE, IMAGES, GRADIENT = (
    f"{F}/{step}"
    for step in (
        *("pretrain_encoder", "finetune", "max_loss_increase", "ensemble", "merge_scores"),
        *("prepare_images", "train_images_adversarially", "check_gradient"),
    )
)
STEPS = {PRETRAIN, FINETUNE, INCREASE, ENSEMBLE, MERGE, PREPARE, IMAGES, GRADIENT}
MADE = [f"{PREPARE}/*", f"{IMAGES}/*", "render"]

# The runs of the scratch checkout: one starts from another and has a second task with it; none has BERT.
CHECKOUT = Path(__file__).resolve().parents[3]
SHIPPED = yaml.safe_load((CHECKOUT / "params.yaml").read_text())[F]["finetune"]["runs"][0]
FIRST: dict[str, Any] = SHIPPED | {
    "encoder": "roberta",
    "name": "acceptability",
    "task": "acceptability",
    "methods": ["vanilla", "pgd", "freelb", "freelb_fresh"],
    "init_from": "",
    "joint_tasks": [],
    "max_length": 16,
}
SECOND = FIRST | {
    "name": "joint",
    "task": "sst2",
    "methods": ["freelb", "yopo_2"],
    "init_from": "acceptability",
    "joint_tasks": ["cola"],
}
OF_ALBERT = FIRST | {"encoder": "albert", "methods": ["free_at", "freelb"], "eps": 0.0, "project": False}
RUNS = [copy.deepcopy(one) for one in (FIRST, SECOND, OF_ALBERT)]  # two of one list are an alias in YAML


def tuned(encoder: str = "*") -> list[str]:
    """Fine-tunings of an encoder and what follows from them; only RoBERTa's are compared in table 3.5."""
    probes = [] if encoder == "albert" else [f"{INCREASE}/*"]
    return [f"{FINETUNE}/{encoder}/*", *probes, f"{ENSEMBLE}/{encoder}/*", "render"]


def of_methods(*names: str) -> list[str]:
    """Fine-tunings by some methods and what follows from them; nothing starts from one of them but ``vanilla``."""
    voted = [f"{ENSEMBLE}/*/{name}/*" for name in names if name == "freelb"]
    return [*(f"{FINETUNE}/*/{name}/*" for name in names), f"{INCREASE}/*", *voted, "render"]


TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (
        f"{F}.seeds",
        {FINETUNE, INCREASE, ENSEMBLE, IMAGES, "render"},
        [*(f"{step}/*/seed1" for step in (FINETUNE, INCREASE, IMAGES)), f"{ENSEMBLE}/*", "render"],
    ),
    *(
        (f"{F}.{section}.*", {PRETRAIN}, [f"{PRETRAIN}/*", *tuned()])
        for section in ("corpus", "pretrain_encoder")
    ),
    *((f"{F}.encoders.{key}", {PRETRAIN}, []) for key in ("bert.*", "roberta.embedding_dim")),
    *(
        (
            f"{F}.encoders.{encoder}.checkpoint",
            {PRETRAIN, "render"},
            tuned(encoder),
        )  # no encoder is pretrained
        for encoder in ("roberta", "albert")
    ),
    *(
        (f"{F}.encoders.{encoder}.*", {PRETRAIN}, [f"{PRETRAIN}/{encoder}/*", *tuned(encoder)])
        for encoder in ("roberta", "albert")
    ),
    (f"{F}.finetune.clean_first", {FINETUNE}, of_methods("freelb", "freelb_fresh")),
    (f"{F}.finetune.free_at_rate", {FINETUNE}, [f"{FINETUNE}/albert/*/free_at/*", "render"]),
    (f"{F}.finetune.second_encoder.*", {FINETUNE}, []),  # of no task
    (f"{F}.finetune.decisive.*", {FINETUNE}, []),  # without tasks none is decisive, and there is one seed
    (f"{F}.finetune.wide", {FINETUNE}, []),  # of methods that are not here
    (
        f"{F}.finetune.mask",
        {FINETUNE},
        of_methods("pgd", "free_at", "freelb", "freelb_fresh", "yopo_2"),
    ),
    (f"{F}.finetune.runs", {FINETUNE, INCREASE}, tuned("roberta")),  # how long the texts are of the first
    (f"{F}.finetune.*", {FINETUNE}, tuned()),
    (f"{F}.max_loss_increase.tasks", {INCREASE, "render"}, ["render"]),  # one less
    (f"{F}.max_loss_increase.*", {INCREASE}, [f"{INCREASE}/*", "render"]),
    (  # one more network of each run of GLUE in an ensemble, and of what it starts from
        f"{F}.ensemble.members",
        {FINETUNE, ENSEMBLE, "render"},
        [f"{FINETUNE}/roberta/glue_members/*", f"{ENSEMBLE}/roberta/freelb/*", "render"],
    ),
    (f"{F}.ensemble.csqa_members", {ENSEMBLE}, []),  # of a task that is not here
    (f"{F}.ensemble.*", {ENSEMBLE, "render"}, [f"{ENSEMBLE}/roberta/pgd/*", "render"]),
    (f"{F}.images.dataset", {IMAGES, "render"}, MADE),
    (f"{F}.images.*", {PREPARE}, MADE),
    (f"{F}.train_images_adversarially.methods", {IMAGES, "render"}, [f"{IMAGES}/pgd/*", "render"]),
    (f"{F}.train_images_adversarially.perturbation.*", {IMAGES}, [f"{IMAGES}/freelb/*", "render"]),
    (f"{F}.train_images_adversarially.*", {IMAGES}, [f"{IMAGES}/*", "render"]),
]
# Runs of a list are one value: what becomes of it when one of them goes.
TIED: dict[str, tuple[dict[str, Any], set[str], list[str]]] = {
    "one fine-tuning less": (
        {f"{F}.finetune.runs": [FIRST, OF_ALBERT]},
        {FINETUNE, ENSEMBLE, "render"},
        [f"{ENSEMBLE}/roberta/freelb/*", "render"],
    ),
}


FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{F}.seeds": lambda seeds: [*seeds, 1],
    f"{F}.corpus.dataset": lambda name: "imdb",
    f"{F}.encoders.*.checkpoint": lambda name: "a_checkpoint",
    f"{F}.encoders.*.dim": lambda n: 2 * n,
    f"{F}.encoders.*.heads": lambda n: 2 * n,
    f"{F}.*.betas": lambda betas: [betas[0], 0.99],
    f"{F}.pretrain_encoder.schedule": lambda name: "cosine",
    f"{F}.finetune.schedule": lambda name: "cosine",
    f"{F}.finetune.mask": lambda word: "start",
    f"{F}.finetune.decisive.tasks": lambda names: ["acceptability"],
    f"{F}.finetune.second_encoder.rates": lambda rates: [*rates, 1.0],
    f"{F}.finetune.second_encoder.methods": lambda names: [*names, "freelb"],
    f"{F}.finetune.decisive.rates": lambda rates: [1.0e-3],
    f"{F}.finetune.decisive.tuning_seeds": lambda seeds: [101],
    f"{F}.finetune.decisive.radii": lambda radii: [0.5, *radii],
    f"{F}.finetune.runs": lambda runs: [{**runs[0], "max_length": 15}, *runs[1:]],
    f"{F}.max_loss_increase.tasks": lambda names: names[:-1],
    f"{F}.ensemble.methods": lambda names: [*names, "pgd"],
    f"{F}.images.dataset": lambda name: "cifar10",
    f"{F}.train_images_adversarially.methods": lambda names: [*names, "pgd"],
    f"{F}.train_images_adversarially.network.name": lambda name: "SENet18",
    f"{F}.train_images_adversarially.train.schedule": lambda name: "step",
    f"{F}.train_images_adversarially.perturbation.norm": lambda name: "l2",
}
FIXED = {f"{F}.finetune.second_encoder.tasks"}  # of the decisive tasks, of which there are none
QUICK = {
    f"{F}.encoders.albert.checkpoint",
    f"{F}.pretrain_encoder.lr",
    f"{F}.finetune.mask",
    f"{F}.finetune.runs",
    f"{F}.max_loss_increase.radius_decay",
    f"{F}.train_images_adversarially.perturbation.passes",
}
BY_PGD = ({FINETUNE}, [f"{FINETUNE}/*/pgd/*", f"{INCREASE}/*", "render"])  # an adversarial gradient
