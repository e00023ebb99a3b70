"""Predicates for the study's claims, keyed by claim id in claims.yaml; this module compares trained models.

Differences are paired by seed. On the Long Range Arena, long-short attention uses window 8 and rank 32, the setting that the paper
uses for all tasks, so that no setting is selected by its result. The best settings of table 5.2 are reported but do not decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from relearn.data.lra import TASKS as ALL_TASKS
from relearn.report import classified
from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.derived import rows_of
from relearn.report.leaderboard import Board
from relearn.report.quantities import Evidence
from relearn.report.runs import folders, select
from relearn.report.seeds import Sample, average, difference, sample
from relearn.report.statistics import Interval
from relearn.report.verdicts import Above, Below, Side, Within
from relearn.studies.long_short.claims import exact
from relearn.studies.long_short.claims.perturbed import PAIRED, fall_less, falls, right_after
from relearn.studies.vision import PARTS

TASKS = {"listops": 0.1, "text": 0.5, "retrieval": 0.5}  # tasks of table 5.1, with chance accuracy
OURS, BEST, FULL = "long_short", "long_short_best", "full"
BASELINES = (FULL, "reformer", "linformer", "performer", "nystromformer")  # from table 5.1
ALSO = (
    BEST,
    "dynamic",
    "window",
    "linformer_window",
    "linear",
    "big_bird",
    "longformer",
    "sparse",
    "sinkhorn",
    "synthesizer",
)
UNIFORM = 8.0  # bits per character of a uniform guess over bytes; used for a diverged model without a value
BPC, PRINTED_MILLIONS = 0.995, 44  # what prints as 0.99
SIMILAR = {"CvT-LS-13": "CvT-13"}  # pair compared in figure 5.6
SIMILAR_ALSO = {"CvT-LS-21": "CvT-21", "ViL-LS-Medium": "ViL-Medium"} | dict.fromkeys(PARTS, "CvT-13")
ALL = Above(1.0, strict=False)
BOARDS = (
    Board(
        title="Attention on long-range tasks",
        better="higher",
        quantity="train_lra.acc_frac",
        where={"step": "train_lra", "task": list(ALL_TASKS)},  # without the trainings that choose a rate
        method="attention",
        cell="task",
        says="Test accuracy with each attention, trained by the same recipe, but for the rate that was chosen for it; mean over seeds.",
        protocol=("steps", "batch_size"),
    ),
)


def on_lra(attention: str, task: str) -> Where:
    """Filter for the training runs of an attention on a task of the Long Range Arena."""
    return {"step": "train_lra", "attention": attention, "task": task}


def character_models(variant: str, dataset: str) -> Where:
    """Filter for the training runs of a character model."""
    return {"step": "train_long_char_lm", "variant": variant, "dataset": dataset}


def dual_norm_helps(evidence: Evidence) -> Finding:
    """Validation bits per character, with DualLN minus without, < 0 on every stream on which both were trained."""
    parts: dict[str, Comparison | None] = {}
    for dataset in sorted(
        {run.labels["dataset"] for run in select(evidence.runs, {"step": "train_long_char_lm"})}
    ):
        ours, theirs = (
            sample(
                evidence,
                "train_long_char_lm.valid_bpc",
                character_models(variant, dataset),
                network=f"train_long_char_lm/{variant}/{dataset}",
                lost=UNIFORM,
            )
            for variant in ("dual_norm", "no_dual_norm")
        )
        if ours.values or theirs.values:
            name = f"{dataset}: with DualLN - without"
            parts[name] = difference(name, ours, theirs, Below(0.0), unit="bits", role=classified.STEP)
    return finding(parts or {"character models with and without DualLN": None})


def beats_full_on_lra(evidence: Evidence) -> Finding:
    """Mean accuracy above that of every baseline of table 5.1, and fewer multiply-adds than full attention on every task.

    The mean is over the tasks on which both attentions were trained and which at least one has learned (:func:`learned`), at the seeds
    that have all of these tasks. A task on which both are at chance is uninformative and left out of the mean.
    """
    parts: dict[str, Comparison | None] = {}
    short: list[str] = []
    for baseline in BASELINES:
        name = f"{OURS} - {baseline}"
        parts[name], tasks = _mean_apart(evidence, name, OURS, baseline)
        if parts[name]:
            there = [task for task in TASKS if _both(evidence, task, OURS, baseline)]
            idle = [task for task in there if task not in tasks]
            if len(there) < len(TASKS):
                lacking = ", ".join(task for task in TASKS if task not in there)
                short.append(f"{name}: no runs of both on {lacking}")
            if idle:
                short.append(f"{name}: both at chance level on {', '.join(idle)}, which enters no mean")
    compared = any(parts.values())
    name = "share of tasks with fewer multiply-adds than full attention"
    parts[name] = _fewer(evidence, name, compared)
    also = [
        _mean_apart(evidence, f"{left} - {right}", left, right, decides=False)[0]
        for left, right in [*((BEST, baseline) for baseline in BASELINES), *((OURS, one) for one in ALSO)]
    ]
    return finding(parts, also, short)


def _mean_apart(
    evidence: Evidence, name: str, left: str, right: str, *, decides: bool = True
) -> tuple[Comparison | None, Sequence[str]]:
    """Difference of mean accuracies over the tasks on which both were trained and which one has learned, and the list of these tasks.

    If no task is learned, the means are over all common tasks, and the comparison is underpowered.
    """
    scores = {
        side: {task: _accuracy(evidence, side, task) for task in TASKS}
        for side in dict.fromkeys((left, right))
    }
    there = [task for task in TASKS if _both(evidence, task, left, right)]
    if not there:
        return None, ()
    tasks = [t for t in there if any(learned(evidence, side, t) for side in (left, right))] or there
    samples = [
        _mean(f"train_lra/{side}/{'+'.join(tasks)}", [scores[side][t] for t in tasks])
        for side in (left, right)
    ]
    paired = samples[0].values.keys() & samples[1].values.keys()
    notes = [
        classified.summary(evidence, f"{side}, {task}", on_lra(side, task), paired)
        for task in tasks
        for side in (left, right)
    ]
    part = difference(
        name, samples[0], samples[1], Above(0.0), role=classified.STEP, decides=decides, notes=notes
    )
    return part, tasks


def _both(evidence: Evidence, task: str, left: str, right: str) -> bool:
    """Whether both attentions were trained on a task."""
    return all(_accuracy(evidence, side, task).values for side in (left, right))


def learned(evidence: Evidence, attention: str, task: str) -> bool:
    """Whether the mean test accuracy over seeds exceeds chance by two standard errors (binomial, over the test samples).

    Chance is the accuracy of a uniform guess or of the most frequent class, whichever is greater. A run that only reduced its
    training loss has not learned the task.
    """
    runs = select(evidence.runs, on_lra(attention, task))
    shares = _accuracy(evidence, attention, task).values
    if not shares:
        return False
    chance = max([TASKS.get(task, 0.0), *(run.metrics.get("most_frequent_frac") or 0.0 for run in runs)])
    count = max((len(rows_of(run, "predictions.csv")) for run in runs), default=0)
    error = math.sqrt(chance * (1 - chance) / count) if count else 0.0
    return sum(shares.values()) / len(shares) > chance + 2 * error


def _accuracy(evidence: Evidence, attention: str, task: str) -> Sample:
    return sample(
        evidence, "train_lra.acc_frac", on_lra(attention, task), network=attention, lost=TASKS[task]
    )


def _mean(name: str, samples: Sequence[Sample]) -> Sample:
    """The mean over the tasks, at the seeds that have all of them."""
    seeds = sorted(set.intersection(*(set(one.values) for one in samples)))
    values = {seed: sum(one.values[seed] for one in samples) / len(samples) for seed in seeds}
    return Sample(name, values, tuple(run for one in samples for run in one.runs))


def _fewer(evidence: Evidence, name: str, decides: bool) -> Comparison | None:
    """The share of tasks with fewer multiply-adds; the counts are exact, so the interval is a point."""
    counted, runs = exact.flops_of(evidence)
    tasks = [task for task in TASKS if (OURS, task) in counted and (FULL, task) in counted]
    if not tasks:
        return None
    share = sum(counted[OURS, task] < counted[FULL, task] for task in tasks) / len(tasks)
    notes = [f"{task}: {counted[OURS, task]:.3g} against {counted[FULL, task]:.3g}" for task in tasks]
    return _exact_comparison(name, share, ALL, "fraction", runs, (exact.CONVENTION, *notes), decides)


def dynamic_is_robust(evidence: Evidence) -> Finding:
    """Drop in accuracy, dynamic projection minus Linformer, < 0 for insertion and deletion on Retrieval (:mod:`perturbed`).

    Text, whose printed accuracies have the other sign (erratum Z15), and the accuracies after the changes are shown and do not decide.
    """
    parts: dict[str, Comparison | None] = {}
    beside: list[Comparison] = []
    for task in ("text", "retrieval"):
        for change in ("insertion", "deletion"):
            name = f"{task}, {change}: fall of dynamic projection - of Linformer"
            sides = [
                falls(evidence, f"train_lra/{one}/{task}", on_lra(one, task), change)
                for one in ("dynamic", "linformer")
            ]
            part = fall_less(name, *sides)
            if task == "retrieval":
                parts[name] = part
                after = f"{task} after {change}: accuracy, dynamic projection - Linformer"
                beside += [one for one in [right_after(after, *sides)] if one]
            elif part:
                beside.append(replace(part, decides=False))
    return finding(parts, beside)


def enwik8_0_99_bpc(evidence: Evidence) -> Finding:
    """At the published size, test bits per character on enwik8 below 0.995, printed as 0.99, and about 44 million parameters."""
    where = character_models("dual_norm", "enwik8")
    whole = [
        run.folder
        for run in select(evidence.runs, where)
        if round((run.metrics.get("parameters_count") or 0) / 1e6) == PRINTED_MILLIONS
    ]
    measured = sample(
        evidence,
        "train_long_char_lm.test_bpc",
        where,
        network="train_long_char_lm/dual_norm/enwik8",
        lost=UNIFORM,
    )
    parts: dict[str, Comparison | None] = {"enwik8 at the published size": None}
    if whole and set(whole) == set(measured.runs):
        name = "test bits per character on enwik8"
        parts = {name: average(name, measured, Below(BPC), unit="bits", role=classified.STEP)}
    parts["the parameters at the published size"] = _size(evidence, bool(whole))
    return finding(parts)


def _size(evidence: Evidence, decides: bool) -> Comparison | None:
    runs = select(evidence.runs, {"step": "count_params_flops", "family": "language"})
    counts = [
        run.metrics["small_parameters_count"] for run in runs if run.metrics.get("small_parameters_count")
    ]
    if not counts:
        return None
    millions = round(float(counts[0] or 0.0) / 1e6, 2)
    side: Side = Within(PRINTED_MILLIONS - 0.5, PRINTED_MILLIONS + 0.5)
    name = "millions of parameters"
    return _exact_comparison(name, millions, side, "millions", folders(runs), (), decides)


def less_oversmoothing(evidence: Evidence) -> Finding:
    """Cosine similarity in the deeper half of the layers, CvT*-LS-13 minus CvT-13, < 0 after training.

    The differences before training and those of other pairs are reported without deciding.
    """
    parts: dict[str, Comparison | None] = {}
    also: list[Comparison | None] = []
    for ours, theirs in (SIMILAR | SIMILAR_ALSO).items():
        for metric, moment in (("deep_cosine", "trained"), ("start_deep_cosine", "before training")):
            decides = ours in SIMILAR and moment == "trained"
            name = f"{ours} - {theirs}, {moment}"
            one, other = (
                sample(
                    evidence,
                    f"patch_similarity.{metric}",
                    {"network": network},
                    network=f"train_vision/{network}/",
                )
                for network in (ours, theirs)
            )
            part = difference(
                name, one, other, Below(0.0), unit="cosine", role=classified.STEP, decides=decides
            )
            if decides:
                parts[name] = part
            else:
                also.append(part)
    return finding(parts, also)


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "linear_cost": exact.linear_cost,
    "dual_norm_aligns": exact.dual_norm_aligns,
    "dual_norm_helps": dual_norm_helps,
    "beats_full_on_lra": beats_full_on_lra,
    "dynamic_is_robust": dynamic_is_robust,
    "enwik8_0_99_bpc": enwik8_0_99_bpc,
    "less_oversmoothing": less_oversmoothing,
    "lra_flops": exact.lra_flops,
}


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Reasons why a comparison is underpowered: too few seeds, or a seed at which no compared run beats chance.

    A character model must have a lower test loss than the bigrams of its text, which it can learn without attention.
    For drops in accuracy both runs must beat chance (on the Long Range Arena: :func:`learned`), because an accuracy at chance cannot drop.
    For patch similarity, windows must be smaller than the grid: otherwise long-short attention cannot keep patches more diverse.
    """
    if comparison.role != classified.STEP:
        return []
    names = list(dict.fromkeys(name for name, _, _ in comparison.keys))
    variants = dict(_trainings(name) for name in names)
    together = not comparison.method.startswith(PAIRED)
    groups = [names] if together else [[name] for name in names]
    reasons = [] if not together else classified.lacks(comparison, evidence, variants)
    for group in groups:
        found = dict(_trainings(name) for name in group)
        if not together:
            reasons += classified.lacks(comparison, evidence, found)
        if group[0].startswith("train_lra/") and not any(classified.CHANCE in one for one in reasons):
            reasons += _idle(evidence, group)
        if group[0].startswith("train_long_char_lm/"):
            reasons += _above_bigrams(evidence, found)
    if comparison.unit == "cosine":
        reasons += _covered(evidence, [where["network"] for where in variants.values()])
    return list(dict.fromkeys(reasons))


def _idle(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """A reason if no compared attention has learned any of the tasks."""
    sides = [name.split("/")[1:] for name in names]
    if any(learned(evidence, attention, task) for attention, tasks in sides for task in tasks.split("+")):
        return []
    described = " and ".join(_trainings(name)[0] for name in names)
    return [f"test accuracy of {described} within two standard errors of chance"]


def _above_bigrams(evidence: Evidence, models: Mapping[str, Where]) -> list[str]:
    """One reason for each character model whose mean test loss is not below that of the bigrams of its text, where that is recorded."""
    reasons = []
    for name, where in models.items():
        texts = select(evidence.runs, {"step": "prepare_char_stream", "dataset": where["dataset"]})
        floors = [bits for run in texts if (bits := run.metrics.get("bigram_bpc"))]
        found = [
            run.metrics["test_bpc"] or UNIFORM
            for run in select(evidence.runs, where)
            if "test_bpc" in run.metrics
        ]
        if floors and found and (mean := fmean(found)) >= min(floors):
            reasons.append(
                f"{name} at {mean:.2f} bits, needs less than {min(floors):.2f}, those of the text's bigrams"
            )
    return reasons


def _covered(evidence: Evidence, networks: Sequence[Any]) -> list[str]:
    """One reason for each network whose windows cover the whole last grid."""
    reasons = []
    for network in networks:
        for run in select(evidence.runs, {"step": "patch_similarity", "network": network}):
            window, patches = (run.metrics.get(f"last_{one}_count") for one in ("window", "patches"))
            if window and patches and window >= patches:
                reasons.append(
                    f"{network}: a window of {window:.0f} patches covers the last grid of {patches:.0f}"
                )
    return list(dict.fromkeys(reasons))


def _trainings(name: str) -> tuple[str, Where]:
    """Description and filter for a comparison's key.

    A key is ``train_lra/<attention>/<tasks>``, ``train_long_char_lm/<variant>/<stream>`` or ``train_vision/<network>/``.
    """
    step, variant, place = name.split("/")
    if step == "train_lra":
        tasks = place.split("+")
        return f"{variant} on {' and '.join(tasks)}", {"step": step, "attention": variant, "task": tasks}
    if step == "train_long_char_lm":
        return f"{variant} on {place}", character_models(variant, place)
    return variant, {"step": step, "network": variant}


def _exact_comparison(
    name: str, value: float, side: Side, unit: str, runs: Sequence[str], notes: Sequence[str], decides: bool
) -> Comparison:
    """An exact number presented as a comparison; its interval is a point."""
    return Comparison(
        name,
        Interval(value, value, value),
        side,
        unit,
        "counted, without chance",
        (("counted", 0, 0),),
        tuple(runs),
        tuple(notes),
        decides=decides,
        over="seeds",
    )
