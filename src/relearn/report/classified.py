"""Image networks trained by the step `train_vision`, as claims compare them: by variant, seed by seed.

A variant is given by the labels of a run within its suite. Accuracy is that of the final weights after the last epoch. A
diverged run without a final accuracy counts with its best accuracy before divergence, or with chance if it has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, folders, select
from relearn.report.seeds import Sample, level, mean, sample
from relearn.report.verdicts import Above, too_few

MIN_SEEDS = 3
LEAST_BLEU = 10.0  # of a translation network that has learned, as the claims of chapter 4 ask
# of a network that has learned images, as `train_vision` asks: relearn.steps.trained.chance
ERRORS, BELOW = 2.0, 0.98
STEP = "train_vision"
CHANCE = "at chance level"
"""In a reason for ``underpowered``: the named networks have learned nothing."""
ALWAYS = Above(0.95, strict=False)
"""A share of trainings that is claimed to be all: one exception in twenty is allowed, as no number of trainings shows that
there is none. Three of three leave an interval from 0.29 and are a direction; 72 without an exception show it."""


def trainings(evidence: Evidence, where: Where) -> list[Run]:
    """Runs of the step `train_vision`, or of the step named in the filter."""
    return select(evidence.runs, {"step": STEP, **where})


def accuracy(evidence: Evidence, name: str, where: Where) -> Sample:
    """Accuracy by seed; ``name`` is the variant's name among the comparison's networks."""
    return sample(evidence, f"{STEP}.acc_frac", where, network=name, lost="accbest_frac")


def metric_of(evidence: Evidence, metric: str, name: str, where: Where) -> Sample:
    """Another metric of the record, by seed; runs without it are left out."""
    return sample(evidence, f"{STEP}.{metric}", where, network=name)


def guess(evidence: Evidence) -> float | None:
    """The chance accuracy on the images of a study: one over the number of classes.

    None if no image set was prepared, or if the sets differ in their number of classes.
    """
    runs = select(evidence.runs, {"step": "prepare_images"})
    counts = {run.metrics.get("classes_count") for run in runs} - {None}
    return 1 / counts.pop() if len(counts) == 1 else None  # type: ignore[operator]


def idle(run: Run, evidence: Evidence) -> bool:
    """Whether a training ended without having learned anything: its outcome says so, or its numbers if its step has no such outcome.

    Of images: the accuracy is not above chance and the loss is not below that of a guess, as in `train_vision`. Of translations: no
    test of the training has 10 BLEU.
    """
    if run.outcome != "ok" or run.step not in ("train_from_init", "train_translation"):
        return run.outcome == "not_converged"
    if run.step == "train_translation":
        return (run.metrics.get("bleu_best") or 0.0) < LEAST_BLEU
    chance, accuracy = guess(evidence), run.metrics.get("accfinal_frac")
    if chance is None or accuracy is None:
        return False
    images = run.settings.get("test_images") or max(
        one.metrics.get("test_count") or 1 for one in evidence.runs
    )
    loss = run.metrics.get("train_loss_nats")
    stays = loss is None or loss >= BELOW * -math.log(chance)
    return stays and accuracy <= chance + ERRORS * math.sqrt(chance * (1 - chance) / int(images))


def outcomes(evidence: Evidence, where: Where) -> dict[int, list[str]]:
    """The outcomes of the runs of each seed."""
    found: dict[int, list[str]] = {}
    for run in trainings(evidence, where):
        found.setdefault(run.seed, []).append(run.outcome)
    return dict(sorted(found.items()))


def ended(evidence: Evidence, name: str, where: Where, good: Callable[[str], bool]) -> Sample:
    """By seed, the share of runs with a good outcome."""
    ends = outcomes(evidence, where)
    shares = {seed: sum(map(good, words)) / len(words) for seed, words in ends.items()}
    return Sample(name, shares, folders(trainings(evidence, where)))


def all_end(
    words: str, evidence: Evidence, name: str, where: Where, good: Callable[[str], bool]
) -> Comparison | None:
    """The comparison "every run of a variant has a good outcome"; None without runs."""
    notes = [summary(evidence, name, where)]
    return level(words, ended(evidence, name, where, good), ALWAYS, role=STEP, notes=notes, units=1.0)


def summary(evidence: Evidence, name: str, where: Where, seeds: Collection[int] | None = None) -> str:
    """``rezero: 11.2%; 1 of 3 diverged, 1 of 3 not converged``; of the given seeds, where a comparison has only some."""
    there = outcomes(evidence, where)
    ends = [word for seed, words in there.items() if seeds is None or seed in seeds for word in words]
    step = where.get("step", STEP)
    one = sample(evidence, f"{step}.acc_frac", where, network=name, lost="accbest_frac")
    values = {seed: value for seed, value in one.values.items() if seeds is None or seed in seeds}
    number = [f"{100 * mean(replace(one, values=values)):.1f}%"] if values else []
    return f"{name}: {'; '.join([*number, *lost(ends)])}"


def lost(ends: Sequence[str]) -> list[str]:
    """``1 of 3 diverged, 1 of 3 not converged`` of these outcomes; empty if none is either."""
    words = [
        f"{ends.count(word)} of {len(ends)} {word.replace('_', ' ')}"
        for word in ("diverged", "not_converged")
        if word in ends
    ]
    return [", ".join(words)] if words else []


def lacks(comparison: Comparison, evidence: Evidence, variants: Mapping[str, Where]) -> list[str]:
    """Why a comparison is underpowered: too few seeds, or seeds at which no variant is above chance.

    A difference between networks none of which has learned anything says nothing. A network has learned if its outcome
    is ok, which the step reports if the loss or the accuracy is better than chance.

    Args:
        comparison: over seeds.
        evidence: the study's runs.
        variants: by name, a filter on runs; at each seed, one variant that has learned is enough.
    """
    seeds = comparison.seeds
    reasons = too_few(len(seeds), "seed", MIN_SEEDS)
    if comparison.role != STEP:
        return reasons
    learned = {
        seed
        for where in variants.values()
        for seed, words in outcomes(evidence, where).items()
        if "ok" in words
    }
    if idle := sorted(seeds - learned):
        reasons.append(f"{' and '.join(variants)} {CHANCE}, {_of_seeds(idle)}")
    return reasons


def _of_seeds(seeds: Collection[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
