"""What the tests of freelb's steps share: tiny settings, and runs in one folder."""

import copy
import random
from pathlib import Path
from typing import Any

import torch

from relearn.data.examples import Examples
from relearn.data.text_tasks import TextTask

from ...steps.recorded import by_command, rows_of

RECIPE: dict[str, Any] = {
    "warmup_steps": 3,
    "batch_size": 16,
    "lr": 5.0e-3,
    "weight_decay": 0.01,
    "betas": [0.9, 0.98],
    "adam_eps": 1.0e-6,
    "schedule": "linear",
    "clip_norm": None,
}
ENCODER: dict[str, Any] = {
    "family": "roberta",
    "layers": 1,
    "dim": 16,
    "heads": 2,
    "ffn": 16,
    "embedding_dim": 8,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "vocabulary": 300,
    "max_length": 16,
}
PRETRAIN: dict[str, Any] = {
    "encoder": ENCODER,
    "corpus": {"dataset": "pydoc_topics", "samples": 100},
    "mask_frac": 0.15,
    "steps": 20,
    "evaluations": 2,
    **RECIPE,
}


class Bench:
    """Runs of one step in one folder; what a run leaves out or adds is a change of the step's settings."""

    def __init__(self, root: Path, step: str, settings: dict[str, Any]) -> None:
        self.runs, self.step, self.settings = root / f"results/mini/runs/freelb/{step}", step, settings

    def run(
        self,
        name: str,
        *,
        seed: int = 0,
        code: int = 0,
        inputs: dict[str, list[Path]] | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        settings = {**copy.deepcopy(self.settings), **changes}
        given = {**(inputs or {}), "seed": seed, "code": code}
        return by_command("freelb", self.step, self.runs / name, settings, **given)

    def rows(self, name: str, file: str) -> list[dict[str, str]]:
        return rows_of(self.runs / name / file)


FINETUNE: dict[str, Any] = {
    "encoder": {**ENCODER, "checkpoint": ""},
    "task": "warm",
    "samples": {"train": 0, "dev": 0, "test": 0},
    "with_tasks": [],
    "max_length": 12,
    "method": {"kind": "vanilla"},
    "steps": 40,
    "accumulate": 1,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "evaluations": 4,
    **RECIPE,
    "lr": 1.0e-2,
}
WARM, COLD = ("red", "orange", "yellow"), ("blue", "green", "grey")
THINGS = ("house", "tree", "boat", "stone", "cloud", "road")


def tasks() -> dict[str, Any]:
    """Tasks that a tiny encoder learns in a second: colours, how many of them are warm, which candidate says a colour's name."""
    draw = random.Random(7)

    def sentence() -> list[str]:
        return [draw.choice(THINGS) for _ in range(draw.randint(2, 4))]

    def put(words: list[str], more: tuple[str, ...], count: int) -> str:
        for _ in range(count):
            words.insert(draw.randint(0, len(words)), draw.choice(more))
        return " ".join(words)

    def warm(place: int) -> tuple[list[Any], float]:
        return [(put(sentence(), (COLD, WARM)[place % 2], 2), None)], place % 2

    def three(place: int) -> tuple[list[Any], float]:
        return [(put(sentence(), (COLD, WARM, ("black",))[place % 3], 2), None)], place % 3

    def degree(place: int) -> tuple[list[Any], float]:
        warm = place % 4
        return [(put([], WARM, warm) + " sky", put(sentence(), COLD, 3 - warm))], 1.5 * warm

    def choice(place: int) -> tuple[list[Any], float]:
        right, count = draw.randrange(2), 2 + place % 2
        return [
            ("which is warm", put(sentence(), WARM if one == right else COLD, 1)) for one in range(count)
        ], right

    def part(make: Any, name: str, count: int, values: bool, known: bool = True) -> Examples:
        made = [make(place) for place in range(count)]
        labels = torch.tensor([label for _, label in made])
        labels = labels.float() if values else labels.long()
        return Examples(
            [rows for rows, _ in made],
            labels if known else None,
            [f"{name}{place}" for place in range(count)],
        )

    def task(name: str, make: Any, kind: str, classes: int, metric: str, known: bool = True) -> TextTask:
        values = kind == "regression"
        return TextTask(
            name=name,
            train=part(make, "a", 120, values),
            dev=part(make, "b", 40, values),
            test=part(make, "c", 30, values, known),
            kind=kind,
            classes=classes,
            metric=metric,
            source={"from": "nowhere"},
        )

    made = [
        task("warm", warm, "classification", 2, "accuracy"),
        task("again", warm, "classification", 2, "mcc", known=False),
        task("three", three, "classification", 3, "accuracy"),
        task("degree", degree, "regression", 1, "pearson"),
        task("choice", choice, "ranking", 1, "accuracy"),
    ]
    return {one.name: one for one in made}
