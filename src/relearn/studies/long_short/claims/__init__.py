"""The predicates of zhu2022, chapter 5, by the ids of claims.yaml; here those over trained models.

A difference is paired by seed. On Long Range Arena long-short attention is that of window 8 and rank 32, the one setting that the
paper uses on all tasks, so that no setting is chosen by its result; the best settings of table 5.2 stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relearn.report import classified
from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.runs import select
from relearn.report.seeds import Sample, average, difference, sample
from relearn.report.statistics import Interval
from relearn.report.verdicts import Above, Below, Side, Within
from relearn.studies.long_short.claims import exact
from relearn.studies.long_short.claims.perturbed import METHOD, fall_less, falls

TASKS = {"listops": 0.1, "text": 0.5, "retrieval": 0.5}  # of table 5.1, with the accuracy of chance
OURS, BEST, FULL = "long_short", "long_short_best", "full"
RIVALS = (FULL, "reformer", "linformer", "performer", "nystromformer")  # of table 5.1
BESIDE = (
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
UNIFORM = 8.0  # bits per character: what a model that diverged without a number knows of a byte
BPC, PRINTED_MILLIONS = 0.99 + 0.01, 44
SIMILAR = {"CvT-LS-13": "CvT-13"}  # of figure 5.6
SIMILAR_BESIDE = {"CvT-LS-21": "CvT-21", "ViL-LS-Medium": "ViL-Medium"}
ALL = Above(1.0, strict=False)


def understood(attention: str, task: str) -> Where:
    """The trainings of an attention on a task of Long Range Arena."""
    return {"step": "understand", "attention": attention, "task": task}


def predicted(variant: str, dataset: str) -> Where:
    """The trainings of a character model."""
    return {"step": "predict", "variant": variant, "dataset": dataset}


def dual_norm_helps(evidence: Evidence) -> Finding:
    """Validation bits per character with DualLN minus without < 0, on every stream on which both were trained."""
    parts: dict[str, Comparison | None] = {}
    for dataset in sorted({run.labels["dataset"] for run in select(evidence.runs, {"step": "predict"})}):
        ours, theirs = (
            sample(
                evidence,
                "predict.valid_bpc",
                predicted(variant, dataset),
                network=f"predict/{variant}/{dataset}",
                lost=UNIFORM,
            )
            for variant in ("dual_norm", "no_dual_norm")
        )
        if ours.values or theirs.values:
            name = f"{dataset}: with DualLN - without"
            parts[name] = difference(name, ours, theirs, Below(0.0), unit="bits", role=classified.STEP)
    return finding(parts or {"character models with and without DualLN": None})


def beats_full_on_lra(evidence: Evidence) -> Finding:
    """Mean accuracy over tasks above that of every rival of table 5.1, and fewer multiply-adds than full attention on every task.

    A task counts that both were trained on; the mean is over the tasks at seeds that have all of them.
    """
    parts: dict[str, Comparison | None] = {}
    short: list[str] = []
    for rival in RIVALS:
        name = f"{OURS} - {rival}"
        parts[name], tasks = _mean_apart(evidence, name, OURS, rival)
        if parts[name] and len(tasks) < len(TASKS):
            short.append(
                f"{name}: no runs of both on {', '.join(task for task in TASKS if task not in tasks)}"
            )
    compared = any(parts.values())
    name = "share of tasks on which it counts fewer multiply-adds than full attention"
    parts[name] = _fewer(evidence, name, compared)
    beside = [
        _mean_apart(evidence, f"{left} - {right}", left, right, decides=False)[0]
        for left, right in [*((BEST, rival) for rival in RIVALS), *((OURS, one) for one in BESIDE)]
    ]
    found = finding(parts)
    return Finding([*found.parts, *(part for part in beside if part)], [*found.missing, *short])


def _mean_apart(
    evidence: Evidence, name: str, left: str, right: str, *, decides: bool = True
) -> tuple[Comparison | None, Sequence[str]]:
    """Mean accuracy over the tasks that both were trained on, by seed; and these tasks."""
    scores = {
        side: {task: _accuracy(evidence, side, task) for task in TASKS}
        for side in dict.fromkeys((left, right))
    }
    tasks = [task for task in TASKS if all(one[task].values for one in scores.values())]
    if not tasks:
        return None, ()
    samples = [
        _mean(f"understand/{side}/{'+'.join(tasks)}", [scores[side][t] for t in tasks])
        for side in (left, right)
    ]
    notes = [
        classified.said(evidence, f"{side}, {task}", understood(side, task))
        for task in tasks
        for side in (left, right)
    ]
    part = difference(
        name, samples[0], samples[1], Above(0.0), role=classified.STEP, decides=decides, notes=notes
    )
    return part, tasks


def _accuracy(evidence: Evidence, attention: str, task: str) -> Sample:
    return sample(
        evidence, "understand.acc_frac", understood(attention, task), network=attention, lost=TASKS[task]
    )


def _mean(name: str, samples: Sequence[Sample]) -> Sample:
    """Over the tasks, at the seeds that have all of them."""
    seeds = sorted(set.intersection(*(set(one.values) for one in samples)))
    values = {seed: sum(one.values[seed] for one in samples) / len(samples) for seed in seeds}
    return Sample(name, values, tuple(run for one in samples for run in one.runs))


def _fewer(evidence: Evidence, name: str, decides: bool) -> Comparison | None:
    """Counted, so that its interval is a point."""
    counted, runs = exact.flops_of(evidence)
    tasks = [task for task in TASKS if (OURS, task) in counted and (FULL, task) in counted]
    if not tasks:
        return None
    share = sum(counted[OURS, task] < counted[FULL, task] for task in tasks) / len(tasks)
    notes = [f"{task}: {counted[OURS, task]:.3g} against {counted[FULL, task]:.3g}" for task in tasks]
    return _counted(name, share, ALL, "fraction", runs, (exact.CONVENTION, *notes), decides)


def dynamic_is_robust(evidence: Evidence) -> Finding:
    """Fall of accuracy of dynamic projection minus Linformer's < 0, for insertion and deletion, on Text and Retrieval.

    Paired by test sample, each the mean over the seeds that both have; Student's interval over samples. The seeds and the
    accuracies on clean texts decide whether it is underpowered.
    """
    parts: dict[str, Comparison | None] = {}
    for task in ("text", "retrieval"):
        for change in ("insertion", "deletion"):
            name = f"{task}, {change}: fall of dynamic projection - of Linformer"
            sides = [
                falls(evidence, f"understand/{one}/{task}", understood(one, task), change)
                for one in ("dynamic", "linformer")
            ]
            parts[name] = fall_less(name, *sides)
    return finding(parts)


def bpc(evidence: Evidence) -> Finding:
    """Test bits per character of the published size on enwik8 at most 1.00, and 44 million parameters after rounding."""
    where = predicted("dual_norm", "enwik8")
    whole = [
        run.folder
        for run in select(evidence.runs, where)
        if round((run.metrics.get("parameters_count") or 0) / 1e6) == PRINTED_MILLIONS
    ]
    measured = sample(evidence, "predict.test_bpc", where, network="predict/dual_norm/enwik8", lost=UNIFORM)
    parts: dict[str, Comparison | None] = {"enwik8 at the published size": None}
    if whole and set(whole) == set(measured.runs):
        name = "test bits per character on enwik8"
        parts = {name: average(name, measured, Within(0.0, BPC), unit="bits", role=classified.STEP)}
    parts["the parameters at the published size"] = _size(evidence, bool(whole))
    return finding(parts)


def _size(evidence: Evidence, decides: bool) -> Comparison | None:
    runs = select(evidence.runs, {"step": "count", "family": "language"})
    counts = [
        run.metrics["small_parameters_count"] for run in runs if run.metrics.get("small_parameters_count")
    ]
    if not counts:
        return None
    millions = round(float(counts[0] or 0.0) / 1e6, 2)
    side: Side = Within(PRINTED_MILLIONS - 0.5, PRINTED_MILLIONS + 0.5)
    folders = tuple(run.folder for run in runs)
    return _counted("millions of parameters", millions, side, "millions", folders, (), decides)


def less_oversmoothing(evidence: Evidence) -> Finding:
    """Cosine similarity in the deeper half, CvT*-LS-13 minus CvT-13, < 0 after training; before it, and other pairs, beside it."""
    parts: dict[str, Comparison | None] = {}
    beside: list[Comparison | None] = []
    for ours, theirs in (SIMILAR | SIMILAR_BESIDE).items():
        for metric, moment in (("deep_cosine", "trained"), ("start_deep_cosine", "before training")):
            decides = ours in SIMILAR and moment == "trained"
            name = f"{ours} - {theirs}, {moment}"
            one, other = (
                sample(evidence, f"similarity.{metric}", {"network": network}, network=f"classify/{network}/")
                for network in (ours, theirs)
            )
            part = difference(
                name, one, other, Below(0.0), unit="cosine", role=classified.STEP, decides=decides
            )
            if decides:
                parts[name] = part
            else:
                beside.append(part)
    found = finding(parts)
    return Finding([*found.parts, *(part for part in beside if part)], found.missing)


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "linear_cost": exact.linear_cost,
    "dual_norm_aligns": exact.dual_norm_aligns,
    "dual_norm_helps": dual_norm_helps,
    "beats_full_on_lra": beats_full_on_lra,
    "dynamic_is_robust": dynamic_is_robust,
    "bpc": bpc,
    "less_oversmoothing": less_oversmoothing,
    "lra_flops": exact.lra_flops,
}


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Seeds, and at each of them a training of the compared ones above chance; of falls both, for chance cannot fall."""
    if comparison.role != classified.STEP:
        return []
    variants = dict(_trainings(name) for name in dict.fromkeys(name for name, _, _ in comparison.keys))
    if comparison.method != METHOD:
        return classified.lacks(comparison, evidence, variants)
    reasons = [
        reason
        for name, where in variants.items()
        for reason in classified.lacks(comparison, evidence, {name: where})
    ]
    return list(dict.fromkeys(reasons))


def _trainings(name: str) -> tuple[str, Where]:
    """The words and the filter of ``understand/<attention>/<tasks>``, ``predict/<variant>/<stream>`` or ``classify/<network>/``."""
    step, variant, place = name.split("/")
    if step == "understand":
        tasks = place.split("+")
        return f"{variant} on {' and '.join(tasks)}", {"step": step, "attention": variant, "task": tasks}
    if step == "predict":
        return f"{variant} on {place}", predicted(variant, place)
    return variant, {"step": step, "network": variant}


def _counted(
    name: str, value: float, side: Side, unit: str, runs: Sequence[str], notes: Sequence[str], decides: bool
) -> Comparison:
    """A number without chance among trained ones: its interval is a point."""
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
