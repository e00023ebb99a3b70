"""All fine-tuning tasks for sentence encoders, by name, in a common form (zhu2022, section 3.5.1, and two of our own).

| names | source | kind | metric |
|---|---|---|---|
| cola, sst2, mrpc, qqp, mnli, rte, ax | GLUE, see :mod:`relearn.data.glue` | classification | main metric of the task |
| stsb | GLUE | regression | pearson |
| qnli, wnli | GLUE, a choice between the sentences of one question | ranking | accuracy, over choices |
| qnli_pairs, wnli_pairs | the same as pairs, as in the benchmark | classification | accuracy |
| arc_easy, arc_challenge, arc, openbookqa, race, regents, csqa | :mod:`relearn.data.choices` | ranking | accuracy |
| imdb | :mod:`relearn.data.imdb`; every tenth training review is dev | classification | accuracy |
| acceptability | :mod:`relearn.data.acceptability` | classification | accuracy |

``arc`` is ARC-Easy and ARC-Challenge combined. The paper's recipe for ARC: race, then arc with openbookqa and regents, then arc.
``regents`` may have a training part only, ``ax`` has a test part only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from relearn.data.evenly_spaced import evenly_spaced_places
from relearn.data.examples import Examples

if TYPE_CHECKING:
    from relearn.data.choices import Questions

PARTS = ("train", "dev", "test")
KINDS = ("classification", "regression", "ranking")
FURTHER = ("dev_mismatched", "test_mismatched")
APART = "held_out"  # additional part: training samples held out by the caller
HELD_OUT = 10  # 1/HELD_OUT of IMDb's training reviews is for dev

FolderOf = Callable[[str], Path | None]

# Name: (name in relearn.data.glue, form, kind, metric).
GLUE = {
    "cola": ("cola", "pairs", "classification", "mcc"),
    "sst2": ("sst2", "pairs", "classification", "accuracy"),
    "mrpc": ("mrpc", "pairs", "classification", "accuracy"),
    "stsb": ("stsb", "pairs", "regression", "pearson"),
    "qqp": ("qqp", "pairs", "classification", "accuracy"),
    "mnli": ("mnli", "pairs", "classification", "accuracy"),
    "qnli": ("qnli", "ranking", "ranking", "accuracy"),
    "qnli_pairs": ("qnli", "pairs", "classification", "accuracy"),
    "rte": ("rte", "pairs", "classification", "accuracy"),
    "wnli": ("wnli", "ranking", "ranking", "accuracy"),
    "wnli_pairs": ("wnli", "pairs", "classification", "accuracy"),
    "ax": ("ax", "pairs", "classification", "mcc"),
}
# Name: (folder in RELEARN_MIRROR, form, arguments of its load).
CHOICES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "arc_easy": ("arc", "joined", {"sets": ("easy",)}),
    "arc_challenge": ("arc", "joined", {"sets": ("challenge",)}),
    "arc": ("arc", "joined", {"sets": ("easy", "challenge")}),
    "openbookqa": ("openbookqa", "joined", {}),
    "race": ("race", "joined", {}),
    "regents": ("regents", "joined", {}),
    "csqa": ("csqa", "prefixed", {}),
}
OWN = ("imdb", "acceptability")
TASKS = (*GLUE, *CHOICES, *OWN)


@dataclass(frozen=True)
class TextTask:
    """A task.

    Attributes:
        name: a key of :data:`TASKS`.
        train, dev, test: the parts; empty if the task has none.
        kind: one of :data:`KINDS`.
        classes: number of outputs of a model; 1 for regression and ranking.
        metric: main metric, ``accuracy``, ``mcc`` or ``pearson``.
        source: origin of the task: plain JSON without paths, with sha256 of the texts.
        further: additional parts: those of other genres for mnli (:data:`FURTHER`), and ``held_out`` if requested.
    """

    name: str
    train: Examples
    dev: Examples
    test: Examples
    kind: str
    classes: int
    metric: str
    source: dict[str, Any]
    further: Mapping[str, Examples] = field(default_factory=dict)


def metric_of(task: str) -> tuple[str, str]:
    """Kind and main metric of a task, without loading it.

    Raises:
        ValueError: the name is unknown.
    """
    if task in GLUE:
        return GLUE[task][2], GLUE[task][3]
    if task not in TASKS:
        raise ValueError(f"task: {task!r} (allowed: {', '.join(TASKS)})")
    return ("ranking" if task in CHOICES else "classification"), "accuracy"


def read(task: str, samples: Mapping[str, int], folder_of: FolderOf) -> TextTask:
    """A task with the given number of evenly spaced samples of each part.

    Args:
        task: a key of :data:`TASKS`.
        samples: number for train, dev and test; 0, or no entry: all. Additional parts use the numbers of dev and test. ``held_out``:
            number of evenly spaced training samples moved to the additional part ``held_out``; 0, or no entry: none.
        folder_of: the folder of a data set by its name (glue, imdb, arc, openbookqa, race, regents, csqa), None to download it.

    Raises:
        ValueError: an unknown task or part, a number below 0, or an error of its reader.
        OSError: files can neither be read nor fetched.
    """
    kind, metric = metric_of(task)
    for part, wanted in samples.items():
        if part not in (*PARTS, APART):
            raise ValueError(f"samples.{part}: no such part (allowed: {', '.join((*PARTS, APART))})")
        if wanted < 0:
            raise ValueError(f"samples.{part}: {wanted} (allowed: at least 0, all of them)")
    apart = samples.get(APART, 0)
    if task == "acceptability":
        from relearn.data import acceptability

        if apart:
            raise ValueError(f"samples.{APART}: {apart} (allowed for acceptability: 0)")
        own = acceptability.load(samples)
        return TextTask(task, own.train, own.dev, own.test, kind, 2, metric, own.source)
    classes, further, source = 1, {}, {}
    if task in GLUE:
        from relearn.data import glue

        name, form, _, _ = GLUE[task]
        found = glue.load(name, folder_of("glue"), form=form)
        parts = {part: getattr(found, part) for part in PARTS}
        further = {part: getattr(found, part) for part in FURTHER if getattr(found, part) is not None}
        classes, source = found.classes, found.source
    elif task in CHOICES:
        from relearn.data.choices import arc, csqa, examples, openbookqa, race, regents

        loads: dict[str, Callable[..., Questions]] = {
            "arc": arc.load,
            "openbookqa": openbookqa.load,
            "race": race.load,
            "regents": regents.load,
            "csqa": csqa.load,
        }
        folder, form, settings = CHOICES[task]
        questions = loads[folder](folder_of(folder), **settings)
        parts = {part: examples(getattr(questions, part), form) for part in PARTS}
        source = questions.source
    else:
        parts, source = _imdb(folder_of("imdb"))
        classes = 2
    if apart:
        parts["train"], further[APART] = _divided(parts["train"], apart)
    parts = {part: _spaced(one, samples.get(part, 0)) for part, one in parts.items()}
    further = {
        part: one if part == APART else _spaced(one, samples.get(part.partition("_")[0], 0))
        for part, one in further.items()
    }
    return TextTask(task, **parts, kind=kind, classes=classes, metric=metric, source=source, further=further)


def _spaced(examples: Examples, wanted: int) -> Examples:
    numbers = evenly_spaced_places(len(examples), wanted)
    return examples if len(numbers) == len(examples) else examples.part(numbers)


def _divided(train: Examples, wanted: int) -> tuple[Examples, Examples]:
    """The training samples without ``wanted`` evenly spaced ones, and these.

    Raises:
        ValueError: no training sample would be left.
    """
    if wanted >= len(train):
        raise ValueError(f"samples.{APART}: {wanted} (allowed: below the {len(train)} training samples)")
    apart = evenly_spaced_places(len(train), wanted)
    taken = set(apart)
    return train.part([row for row in range(len(train)) if row not in taken]), train.part(apart)


def _imdb(folder: Path | None) -> tuple[dict[str, Examples], dict[str, Any]]:
    from relearn.data import imdb

    found = imdb.load(folder)
    rows = range(len(found.train.texts))
    held = [row for row in rows if row % HELD_OUT == HELD_OUT - 1]
    places = {
        "train": ("train", [row for row in rows if row % HELD_OUT != HELD_OUT - 1]),
        "dev": ("train", held),
        "test": ("test", list(range(len(found.test.texts)))),
    }
    parts = {}
    for part, (official, numbers) in places.items():
        reviews: imdb.Reviews = getattr(found, official)
        parts[part] = Examples(
            [[(reviews.texts[row], None)] for row in numbers],
            torch.tensor([reviews.labels[row] for row in numbers], dtype=torch.int64),
            [f"{official}-{row}" for row in numbers],
        )
    return parts, found.source
