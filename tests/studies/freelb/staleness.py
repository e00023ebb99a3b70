"""What a parameter of ``freelb`` touches; see ``test_staleness``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

F = "freelb"
ACQUIRE, FINETUNE, PROVOKE, VOTE, PREPARE, CONTRAST, COUNT = (
    f"{F}/{step}" for step in ("acquire", "finetune", "provoke", "vote", "prepare", "contrast", "count")
)
STEPS = {ACQUIRE, FINETUNE, PROVOKE, VOTE, PREPARE, CONTRAST, COUNT}
STAGE_OF = {ACQUIRE: "finetune", PREPARE: "contrast"}
MADE = [f"{PREPARE}/*", f"{CONTRAST}/*", "render"]

# The runs of the scratch checkout: one starts from another and has a second task with it; none has BERT.
CHECKOUT = Path(__file__).resolve().parents[3]
SHIPPED = yaml.safe_load((CHECKOUT / "params.yaml").read_text())[F]["finetune"]["runs"][0]
FIRST: dict[str, Any] = SHIPPED | {
    "encoder": "roberta",
    "name": "acceptability",
    "task": "acceptability",
    "methods": ["vanilla", "pgd", "freelb", "freelb_fresh"],
    "start": "",
    "with_tasks": [],
    "max_length": 16,
}
SECOND = FIRST | {
    "name": "joint",
    "task": "sst2",
    "methods": ["freelb", "yopo_2"],
    "start": "acceptability",
    "with_tasks": ["cola"],
}
OF_ALBERT = FIRST | {"encoder": "albert", "methods": ["free_at", "freelb"], "eps": 0.0, "project": False}
RUNS = [copy.deepcopy(one) for one in (FIRST, SECOND, OF_ALBERT)]  # two of one list are an alias in YAML


def tuned(encoder: str = "*") -> list[str]:
    """Fine-tunings of an encoder and what follows from them; only RoBERTa's are provoked."""
    probes = [] if encoder == "albert" else [f"{PROVOKE}/*"]
    return [f"{FINETUNE}/{encoder}/*", *probes, f"{VOTE}/{encoder}/*", "render"]


def of_methods(*names: str) -> list[str]:
    """Fine-tunings by some methods and what follows from them; nothing starts from one of them but ``vanilla``."""
    voted = [f"{VOTE}/*/{name}/*" for name in names if name == "freelb"]
    return [*(f"{FINETUNE}/*/{name}/*" for name in names), f"{PROVOKE}/*", *voted, "render"]


TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (
        f"{F}.seeds",
        {FINETUNE, PROVOKE, VOTE, CONTRAST, "render"},
        [*(f"{step}/*/seed1" for step in (FINETUNE, PROVOKE, CONTRAST)), f"{VOTE}/*", "render"],
    ),
    *((f"{F}.{section}.*", {ACQUIRE}, [f"{ACQUIRE}/*", *tuned()]) for section in ("corpus", "acquire")),
    *((f"{F}.encoders.{key}", {ACQUIRE}, []) for key in ("bert.*", "roberta.embedding_dim")),
    *(
        (f"{F}.encoders.{encoder}.checkpoint", {ACQUIRE, "render"}, tuned(encoder))  # nothing is acquired
        for encoder in ("roberta", "albert")
    ),
    *(
        (f"{F}.encoders.{encoder}.*", {ACQUIRE}, [f"{ACQUIRE}/{encoder}/*", *tuned(encoder)])
        for encoder in ("roberta", "albert")
    ),
    (f"{F}.finetune.clean_first", {FINETUNE}, of_methods("freelb", "freelb_fresh")),
    (
        f"{F}.finetune.mask",
        {FINETUNE},
        of_methods("pgd", "free_at", "freelb", "freelb_fresh", "yopo_2"),
    ),
    (f"{F}.finetune.runs", {FINETUNE, PROVOKE}, tuned("roberta")),  # how long the texts are of the first
    (f"{F}.finetune.*", {FINETUNE}, tuned()),
    (f"{F}.provoke.tasks", {PROVOKE, "render"}, ["render"]),  # one less
    (f"{F}.provoke.*", {PROVOKE}, [f"{PROVOKE}/*", "render"]),
    (f"{F}.vote.*", {VOTE, "render"}, [f"{VOTE}/roberta/pgd/*", "render"]),
    (f"{F}.images.dataset", {CONTRAST}, MADE),
    (f"{F}.images.*", {PREPARE}, MADE),
    (f"{F}.contrast.methods", {CONTRAST, "render"}, [f"{CONTRAST}/pgd/*", "render"]),
    (f"{F}.contrast.perturbation.*", {CONTRAST}, [f"{CONTRAST}/freelb/*", "render"]),
    (f"{F}.contrast.*", {CONTRAST}, [f"{CONTRAST}/*", "render"]),
]
FIXED = {f"{F}.count.families"}  # of which there is one
# Runs of a list are one value: what becomes of it when one of them goes.
TIED: dict[str, tuple[dict[str, Any], set[str], list[str]]] = {
    "one fine-tuning less": (
        {f"{F}.finetune.runs": [FIRST, OF_ALBERT]},
        {FINETUNE, VOTE, "render"},
        [f"{VOTE}/roberta/freelb/*", "render"],
    ),
}


FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{F}.seeds": lambda seeds: [*seeds, 1],
    f"{F}.corpus.dataset": lambda name: "imdb",
    f"{F}.encoders.*.checkpoint": lambda name: "a_checkpoint",
    f"{F}.encoders.*.dim": lambda n: 2 * n,
    f"{F}.encoders.*.heads": lambda n: 2 * n,
    f"{F}.*.betas": lambda betas: [betas[0], 0.99],
    f"{F}.finetune.mask": lambda word: "start",
    f"{F}.finetune.runs": lambda runs: [{**runs[0], "max_length": 15}, *runs[1:]],
    f"{F}.provoke.tasks": lambda names: names[:-1],
    f"{F}.vote.methods": lambda names: [*names, "pgd"],
    f"{F}.images.dataset": lambda name: "cifar10",
    f"{F}.contrast.methods": lambda names: [*names, "pgd"],
    f"{F}.contrast.network.name": lambda name: "SENet18",
    f"{F}.contrast.train.schedule": lambda name: "step",
    f"{F}.contrast.perturbation.norm": lambda name: "l2",
}
QUICK = {
    f"{F}.encoders.albert.checkpoint",
    f"{F}.acquire.lr",
    f"{F}.finetune.mask",
    f"{F}.finetune.runs",
    f"{F}.provoke.shrink",
    f"{F}.contrast.perturbation.passes",
}
BY_PGD = ({FINETUNE}, [f"{FINETUNE}/*/pgd/*", f"{PROVOKE}/*", "render"])  # an adversarial gradient
