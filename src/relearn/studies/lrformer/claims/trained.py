"""Predicate of ye2023 on trained classifiers: the Gaussian-process head is distance-aware and detects out-of-distribution images better.

Two criteria are judged for each attention and depth that was run:

- Entropy along rays that leave the data: the entropy in nats at the greatest distance minus that at the data, once in the feature
  space of the head, and once in pixel space, which the trunk distorts. In feature space, bounded random features make the rise almost
  true by construction, and the claim is about images; so both decide. The entropy of a dense head on the same rays is reported in
  addition.
- AUROC of the predictive entropy, which both heads have: that of the Gaussian process minus that of the dense head, paired by seed and
  by set and averaged over the sets that both have. The AUROC for each set, and that of the Gaussian process's own variance, are
  reported in addition.

Two controls that pool the patches, with and without LayerNorm behind the last block, are reported in addition, and so is the variance of
the Gaussian process along the rays in pixels. Behind this norm features are bounded, and without class token and norm they grow with the
distance in pixels. The variance shows how far the features are from the data's; entropy depends on the logits, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from relearn.report import classified
from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, folders, select
from relearn.report.seeds import Sample, difference
from relearn.report.verdicts import Above

STEP = "evaluate_uncertainty"
ATTENTIONS = {"dot": "dot products", "lrsa": "LRSA"}
CONTROLS = {"mean": "patches pooled", "mean_no_norm": "patches pooled, no last norm"}
ENTROPY, VARIANCE = "entropy", "gp_variance"
SPREAD, OF_SPREAD = "variance of the GP on the way out in pixels", ("variance", "")
FEATURES, PIXELS = "features", "pixels"

BySet = Mapping[str, float]


def gp_is_distance_aware(evidence: Evidence) -> Finding:
    """Entropy rises in features and in pixels, and AUROC is above the dense head's, for each attention and depth that was run."""
    parts: dict[str, Comparison | None] = {}
    beside: list[Comparison | None] = []
    for attention, words in ATTENTIONS.items():
        for depth in _depths(evidence, f"{attention}_gp"):
            name = f"{words}, {depth} blocks"
            gp, dense = place(f"{attention}_gp", depth), place(f"{attention}_dense", depth)
            for space in (FEATURES, PIXELS):
                title = f"{name}: entropy on the way out in {space}"
                parts[title] = _rise(evidence, title, *gp, space)
                beside.append(_rise(evidence, f"{title}, dense head", *dense, space, decides=False))
            ours, theirs = (_detection(evidence, where, ENTROPY) for _, where in (gp, dense))
            beside.append(
                _rise(evidence, f"{name}: {SPREAD}", *gp, PIXELS, quantity=OF_SPREAD, decides=False)
            )
            for control, way in CONTROLS.items():
                where = place(f"{attention}_gp_{control}", depth)
                title = f"{name}, {way}: entropy on the way out in pixels"
                beside.append(_rise(evidence, title, *where, PIXELS, decides=False))
                title = f"{name}, {way}: {SPREAD}"
                beside.append(_rise(evidence, title, *where, PIXELS, quantity=OF_SPREAD, decides=False))
            parts[f"{name}: AUROC"] = _apart(f"{name}: AUROC, GP - dense", gp[0], dense[0], ours, theirs)
            for one in _sets((ours, theirs)):
                title = f"{name}: AUROC against {one}, GP - dense"
                beside.append(_apart(title, gp[0], dense[0], ours, theirs, only=one, decides=False))
            spread = _detection(evidence, gp[1], VARIANCE)
            title = f"{name}: AUROC by variance, GP - dense by entropy"
            beside.append(_apart(title, gp[0], dense[0], spread, theirs, decides=False))
    return finding(parts or {"a Gaussian-process head": None}, beside)


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Reasons: too few seeds, or a seed without a compared training above chance."""
    names = dict.fromkeys(name for name, _, _ in comparison.keys)
    variants = {}
    for name in names:
        variant, depth = name.split("/")
        variants[f"{variant} of {depth} blocks"] = place(variant, int(depth))[1]
    return classified.lacks(comparison, evidence, variants)


def place(variant: str, depth: int) -> tuple[str, Where]:
    """The name of a variant in a comparison, and the filter for its runs."""
    return f"{variant}/{depth}", {"variant": variant, "depth": str(depth)}


def _finished_runs(evidence: Evidence, where: Where) -> list[Run]:
    runs = select(evidence.runs, {"step": STEP}, where)
    return [run for run in runs if not run.diverged]


def _depths(evidence: Evidence, variant: str) -> list[int]:
    return sorted({int(run.labels["depth"]) for run in _finished_runs(evidence, {"variant": variant})})


def _rise(
    evidence: Evidence,
    words: str,
    name: str,
    where: Where,
    space: str,
    *,
    quantity: tuple[str, str] = ("entropy_nats", "nats"),
    decides: bool = True,
) -> Comparison | None:
    """The mean of a quantity (its column and unit) at the greatest distance minus that at the smallest, by seed."""
    column, unit = quantity
    near: dict[int, float] = {}
    far: dict[int, float] = {}
    notes = []
    runs = _finished_runs(evidence, where)
    for run in runs:
        path = [row for row in run.rows("distance.csv") if row["space"] == space]
        path.sort(key=lambda row: float(row["distance"]))
        if len(path) > 1:
            near[run.seed], far[run.seed] = (float(path[at][column]) for at in (0, -1))
            grows = [float(b[column]) >= float(a[column]) for a, b in pairwise(path)]
            ends = " ".join([f"{near[run.seed]:.3f} to {far[run.seed]:.3f}", *([unit] if unit else [])])
            notes.append(
                f"seed {run.seed}: {ends} at {path[-1]['distance']:g} deviations, "
                f"rises or stays in {sum(grows)} of {len(grows)} steps"
            )
    return difference(
        words,
        Sample(name, far, folders(runs)),
        Sample(name, near, folders(runs)),
        Above(0.0),
        unit=unit,
        role=classified.STEP,
        decides=decides,
        notes=notes,
    )


def _detection(evidence: Evidence, where: Where, score: str) -> dict[int, tuple[BySet, str]]:
    """AUROC by set and the run's folder, for each seed."""
    return {
        run.seed: (
            {
                str(row["set"]): float(row["auroc_frac"])
                for row in run.rows("ood.csv")
                if row["score"] == score
            },
            run.folder,
        )
        for run in _finished_runs(evidence, where)
    }


def _sets(sides: Iterable[Mapping[int, tuple[BySet, str]]]) -> list[str]:
    """The sets of all seeds, in order of appearance."""
    return list(dict.fromkeys(one for side in sides for by_set, _ in side.values() for one in by_set))


def _apart(
    words: str,
    ours: str,
    theirs: str,
    left: Mapping[int, tuple[BySet, str]],
    right: Mapping[int, tuple[BySet, str]],
    *,
    only: str | None = None,
    decides: bool = True,
) -> Comparison | None:
    """AUROC, left minus right, over the seeds that both have; for each seed the mean over the sets that both have."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    runs: dict[str, list[str]] = defaultdict(list)
    used: dict[str, None] = {}
    for seed in sorted(left.keys() & right.keys()):
        (mine, folder), (other, theirs_folder) = left[seed], right[seed]
        shared = [one for one in mine if one in other and only in (None, one)]
        if shared:
            used |= dict.fromkeys(shared)
            values["left"][seed] = sum(mine[one] for one in shared) / len(shared)
            values["right"][seed] = sum(other[one] for one in shared) / len(shared)
            runs["left"].append(folder)
            runs["right"].append(theirs_folder)
    notes = [f"mean over {', '.join(used)}"] if used and only is None else []
    return difference(
        words,
        Sample(ours, values["left"], tuple(runs["left"])),
        Sample(theirs, values["right"], tuple(runs["right"])),
        Above(0.0),
        role=classified.STEP,
        decides=decides,
        notes=notes,
    )
