"""Trainings of image networks by the step `train_vision`, as claims compare them: by variant, seed by seed.

A variant is a training's labels below its suite. Accuracy is that of the trained weights after the last epoch. A
training that diverged before it had one counts with the best that it had before, or with chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.report.seeds import Sample, level, mean, sample
from relearn.report.verdicts import Above

MIN_SEEDS = 3
STEP = "train_vision"
ALWAYS = Above(0.95, strict=False)
"""A share of trainings that is claimed to be all: one exception in twenty is allowed, as no number of trainings shows that
there is none. Three of three leave an interval from 0.29 and are a direction; 72 without an exception show it."""


def trainings(evidence: Evidence, where: Where) -> list[Run]:
    """Of the step `train_vision`, or of the step that the filter names."""
    return select(evidence.runs, {"step": STEP, **where})


def accuracy(evidence: Evidence, name: str, where: Where) -> Sample:
    """By seed; ``name`` is what the variant is called among the comparison's networks."""
    return sample(evidence, f"{STEP}.acc_frac", where, network=name, lost="accbest_frac")


def metric_of(evidence: Evidence, metric: str, name: str, where: Where) -> Sample:
    """Another metric of the record, by seed; a training without it is left out."""
    return sample(evidence, f"{STEP}.{metric}", where, network=name)


def guess(evidence: Evidence) -> float | None:
    """The accuracy of a guess on the images of a study: one over the number of classes.

    None where no image set was prepared, or several of different numbers of classes.
    """
    runs = select(evidence.runs, {"step": "prepare_images"})
    counts = {run.metrics.get("classes_count") for run in runs} - {None}
    return 1 / counts.pop() if len(counts) == 1 else None  # type: ignore[operator]


def outcomes(evidence: Evidence, where: Where) -> dict[int, list[str]]:
    """How the trainings of each seed ended."""
    found: dict[int, list[str]] = {}
    for run in trainings(evidence, where):
        found.setdefault(run.seed, []).append(run.outcome)
    return dict(sorted(found.items()))


def ended(evidence: Evidence, name: str, where: Where, good: Callable[[str], bool]) -> Sample:
    """By seed, the share of its trainings whose outcome is good."""
    ends = outcomes(evidence, where)
    shares = {seed: sum(map(good, words)) / len(words) for seed, words in ends.items()}
    return Sample(name, shares, tuple(run.folder for run in trainings(evidence, where)))


def all_end(
    words: str, evidence: Evidence, name: str, where: Where, good: Callable[[str], bool]
) -> Comparison | None:
    """That every training of a variant ends so; None without one."""
    notes = [summary(evidence, name, where)]
    return level(words, ended(evidence, name, where, good), ALWAYS, role=STEP, notes=notes)


def summary(evidence: Evidence, name: str, where: Where) -> str:
    """``rezero: 11.2%; 1 of 3 diverged, 1 of 3 not converged``."""
    ends = [word for words in outcomes(evidence, where).values() for word in words]
    lost = [
        f"{ends.count(word)} of {len(ends)} {word.replace('_', ' ')}"
        for word in ("diverged", "not_converged")
        if word in ends
    ]
    step = where.get("step", STEP)
    one = sample(evidence, f"{step}.acc_frac", where, network=name, lost="accbest_frac")
    number = [f"{100 * mean(one):.1f}%"] if one.values else []
    return f"{name}: {'; '.join(number + ([', '.join(lost)] if lost else []))}"


def lacks(comparison: Comparison, evidence: Evidence, variants: Mapping[str, Where]) -> list[str]:
    """Why a comparison is underpowered: too few seeds, or seeds with no variant above chance.

    A difference between networks of which none has learned anything says nothing. A training has learned if its
    outcome is ok: the step gives it where the loss or the accuracy is better than chance.

    Args:
        comparison: over seeds.
        evidence: the study's runs.
        variants: by name, which trainings these are; one that has learned at a seed is enough there.
    """
    seeds = comparison.seeds
    reasons = (
        [] if len(seeds) >= MIN_SEEDS else [f"{len(seeds)} seed{'s' * (len(seeds) > 1)}, needs {MIN_SEEDS}"]
    )
    if comparison.role != STEP:
        return reasons
    learned = {
        seed
        for where in variants.values()
        for seed, words in outcomes(evidence, where).items()
        if "ok" in words
    }
    if idle := sorted(seeds - learned):
        reasons.append(f"{_listed(list(variants))} at chance level, {_of_seeds(idle)}")
    return reasons


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


def _of_seeds(seeds: Collection[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
