r"""merge_scores: compute the joint accuracy over several tasks, each answered by its own network.

Source: zhu2022, table 3.3, ARC-Merge.

Settings: members [{task}], in the order of the inputs.
Input: answers: one answers.csv of finetune for each member, all of the same seed and method.
Output: scores.csv (part, task, accuracy_frac, samples_count; the task ``merged`` covers all members).

With :math:`n_i` samples and :math:`c_i` correct answers of member i, the accuracy of a part is :math:`\sum_i c_i / \sum_i n_i`, the mean
of the members' accuracies weighted by their sizes. Five of the six printed numbers equal this mean to the last digit; for the sixth see
erratum Z13.

Metrics: <part>_accuracy_frac, <part>_samples_count, for each part for which all members have labels.
Outcome: ok, or diverged if a member has no answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEEDS_TORCH = True
SCORES = ("part", "task", "accuracy_frac", "samples_count")
MERGED = "merged"


@dataclass(frozen=True, kw_only=True)
class Member:
    task: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    members: Sequence[Member]


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.steps.csv_rows import write_rows
    from relearn.studies.freelb.steps.ensemble import read

    members, files = settings.members, inputs.get("answers", [])
    if len(members) < 2 or len(members) != len(files):
        raise ValueError(
            f"members: {len(members)} with {len(files)} answers.csv (allowed: as many, at least 2)"
        )
    given = [read(path) for path in files]
    parts = [name for name in given[0] if all(name in one and "" not in one[name].labels for one in given)]
    metrics: dict[str, float] = {}
    table: list[list[Any]] = []
    usable = all(one[part].outputs for one in given for part in parts)
    for part in parts if usable else []:
        counts = [(correct(one[part]), len(one[part].ids)) for one in given]
        counts.append((sum(right for right, _ in counts), sum(size for _, size in counts)))
        names = [*(member.task for member in members), MERGED]
        table += [[part, name, right / size, size] for name, (right, size) in zip(names, counts)]
        right, size = counts[-1]
        metrics |= {f"{part}_accuracy_frac": right / size, f"{part}_samples_count": float(size)}
    write_rows(run.output("scores.csv"), SCORES, table)
    run.finish(
        metrics,
        outcome="ok" if usable else "diverged",
        outcome_reason=None if usable else "a member has no answers",
    )


def correct(part: Any) -> int:
    """Number of correctly answered samples of a part; the answer is the highest output, the first in a tie."""
    from relearn.studies.freelb.steps.finetune_scores import answers

    found = answers("classification", part.outputs).tolist()
    return sum(answer == int(label) for answer, label in zip(found, part.labels))
