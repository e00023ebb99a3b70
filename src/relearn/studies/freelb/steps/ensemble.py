"""ensemble: combine a method's fine-tuned networks for each task and write the GLUE submission.

Source: zhu2022, table 3.2.

Settings: members [{task, seed, name (of the run; default the task)}], in the order of the inputs.
Input: answers: one answers.csv of finetune for each member.
Output: scores.csv (task, part, metric, value, members_count, samples_count), submission.zip (the answers for all GLUE tasks among the
members, see relearn.data.glue_submission; an empty zip file if there are none).

The members of a task must have answered the same samples. The ensemble averages the members' probabilities of classes or candidates,
or their values in a regression; ties go to the first class. The paper does not state how its ensembles combine the models' answers
(table 3.2 has a single model for BERT and ensembles for RoBERTa); averaging probabilities is the usual choice. A member without
answers, because it diverged, is left out.

Metrics, for each task: <task>_dev_score_frac (its main metric), <task>_<part>_<metric> for each part with known labels
(cola_dev_mcc, stsb_test_pearson); overall_test_frac, the benchmark's mean score, if all of its test parts have labels;
members_count (with answers), answers_count (test samples in the submission).
Outcome: ok, or diverged if no member has answers.
"""

from __future__ import annotations

import contextlib
import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

NEEDS_TORCH = True
SCORES = ("task", "part", "metric", "value", "members_count", "samples_count")
EMPTY = b"PK\x05\x06" + bytes(18)  # an empty zip file


@dataclass(frozen=True, kw_only=True)
class Member:
    task: str
    seed: int
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    members: Sequence[Member]


class Part(NamedTuple):
    """A member's answers to one part of a task; ``outputs`` is empty if the member diverged."""

    ids: list[str]
    labels: list[str]
    outputs: list[list[float]]


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.glue_submission import SHEETS, write
    from relearn.data.text_tasks import metric_of
    from relearn.measures.glue_scores import overall
    from relearn.steps.csv_rows import write_rows
    from relearn.studies.freelb.steps.finetune_scores import measured, recorded

    members, files = settings.members, inputs.get("answers", [])
    if not members or len(members) != len(files):
        raise ValueError(
            f"members: {len(members)} with {len(files)} answers.csv (allowed: as many, at least 1)"
        )
    metrics: dict[str, float] = {}
    table: list[list[Any]] = []
    submitted: dict[str, dict[str, float]] = {}
    scored: dict[str, dict[str, float]] = {}
    notes, used = [], 0
    for task in dict.fromkeys(one.task for one in members):
        given = [read(path) for one, path in zip(members, files) if one.task == task]
        usable = [one for one in given if all(part.outputs for part in one.values())]
        if len(usable) < len(given):
            notes.append(f"{task}: {len(given) - len(usable)} of {len(given)} members without answers")
        if not usable:
            continue
        used += len(usable)
        kind, metric = metric_of(task)
        for part, (ids, labels, outputs) in together(task, kind, usable).items():
            sheet = sheet_of(task, part)
            if sheet in SHEETS:
                submitted[sheet] = submission(kind, ids, outputs)
            if "" in labels:
                continue
            right = torch.tensor([float(one) for one in labels])
            found = measured(kind, len(outputs[0]), outputs, right if kind == "regression" else right.long())
            metrics |= recorded(f"{task}_{part}", found)
            if sheet:
                scored[sheet] = found
            if part == "dev":
                metrics[f"{task}_dev_score_frac"] = found[metric]
            table += [[task, part, name, value, len(usable), len(ids)] for name, value in found.items()]
    metrics["members_count"] = float(used)
    metrics["answers_count"] = float(sum(map(len, submitted.values())))
    with contextlib.suppress(ValueError):  # a task is missing, or its labels are not public
        metrics["overall_test_frac"] = overall(scored)
    write_rows(run.output("scores.csv"), SCORES, table)
    packed = run.output("submission.zip")
    if submitted:
        missing = write(packed, submitted, official=False)
        notes += [
            f"{SHEETS[one].name}: {len(submitted[one])} of {SHEETS[one].count} answers" for one in submitted
        ]
        if missing:
            notes.append(f"missing from a complete submission: {', '.join(missing)}")
    else:
        packed.write_bytes(EMPTY)
        notes.append("no task of the benchmark among the members: the submission is empty")
    run.finish(
        metrics,
        outcome="ok" if used else "diverged",
        outcome_reason=None if used else "no member has answers",
        notes=notes,
    )


def sheet_of(task: str, part: str) -> str:
    """The benchmark's table for a part: a test part, MNLI's mismatched test part, or another task's test part; "" for a dev part."""
    if part.startswith("test"):
        return task.removesuffix("_pairs") + part.removeprefix("test")
    return "" if part.startswith("dev") else part


def read(path: Path) -> dict[str, Part]:
    """The parts of an answers.csv.

    Raises:
        ValueError: the columns differ, a logit is not finite, or only some samples of a part have answers.
    """
    from relearn.studies.freelb.steps.finetune import ANSWERS

    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        if tuple(lines.fieldnames or ()) != ANSWERS:
            raise ValueError(f"{path}: columns {lines.fieldnames} (allowed: {', '.join(ANSWERS)})")
        parts: dict[str, Part] = {}
        for line in lines:
            part = parts.setdefault(line["part"], Part([], [], []))
            part.ids.append(line["id"])
            part.labels.append(line["label"])
            if line["logits"]:
                part.outputs.append(_numbers(line["logits"], f"{path}: {line['part']} {line['id']}"))
    for name, part in parts.items():
        if part.outputs and len(part.outputs) < len(part.ids):
            found = f"{len(part.outputs)} answers to {len(part.ids)} samples"
            raise ValueError(f"{path}: {name}: {found} (allowed: one to each, or none)")
    return parts


def _numbers(words: str, where: str) -> list[float]:
    try:
        found = [float(one) for one in words.split()]
    except ValueError:
        found = []
    if not found or not all(map(math.isfinite, found)):
        raise ValueError(f"{where}: logits {words!r} (allowed: finite numbers)")
    return found


def together(
    task: str, kind: str, members: Sequence[Mapping[str, Part]]
) -> dict[str, tuple[list[str], list[str], list[list[float]]]]:
    r"""Ids, labels and the mean :math:`\frac1M \sum_m p_m` for each part, where p are a member's probabilities (or values).

    Raises:
        ValueError: the members answered different samples, or have different classes or candidates.
    """
    first = members[0]
    for other in members[1:]:
        if {name: one[:2] for name, one in other.items()} != {name: one[:2] for name, one in first.items()}:
            raise ValueError(f"answers: members of {task} answered other samples (allowed: the same)")
        if any(
            [len(row) for row in one.outputs] != [len(row) for row in first[name].outputs]
            for name, one in other.items()
        ):
            raise ValueError(
                f"answers: members of {task} chose among other classes or candidates (allowed: the same)"
            )
    return {
        name: (
            part.ids,
            part.labels,
            [mean(kind, [one[name].outputs[place] for one in members]) for place in range(len(part.ids))],
        )
        for name, part in first.items()
    }


def mean(kind: str, outputs: Sequence[Sequence[float]]) -> list[float]:
    """The mean of the members' probabilities (or values) for one sample."""
    given = outputs if kind == "regression" else [softmax(one) for one in outputs]
    return [math.fsum(column) / len(given) for column in zip(*given, strict=True)]


def softmax(logits: Sequence[float]) -> list[float]:
    """Softmax of one sample's logits."""
    most = max(logits)
    powers = [math.exp(one - most) for one in logits]
    return [one / math.fsum(powers) for one in powers]


def submission(kind: str, ids: Sequence[str], outputs: list[list[float]]) -> dict[str, float]:
    """The answer to each test sample, in the format of the benchmark."""
    from relearn.measures.glue_scores import entailment_answers
    from relearn.studies.freelb.steps.finetune_scores import answers

    if kind == "ranking":
        return {name: float(one) for name, one in entailment_answers(ids, outputs).items()}
    found: Tensor = answers(kind, outputs)
    return dict(zip(ids, found.tolist()))
