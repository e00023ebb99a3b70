"""Predicate for zhu2022, tables 5.8 to 5.11: each network's accuracy on sets derived from ImageNet equals the printed one.

Only runs whose record contains one of these sets count. A network of another size, on CIFAR-10 or on corruptions made by this
project's generator has no printed number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from relearn.measures.imagenet_mce import ALEXNET
from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.derived import rows_of
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.report.seeds import Sample, comparison, mean, sample
from relearn.report.statistics import Interval, student_mean, wilson
from relearn.report.verdicts import Side, Within

STEP = "evaluate_robustness"
Z = 1.959964  # quantile for a two-sided 95% interval
MARGIN = 0.003  # 0.3 percentage points
#: set → display name; mCE is relative to AlexNet, on ImageNet-C's released files
SETS = {
    "real": "ReaL",
    "v2": "V2",
    "c": "-C, mCE",
    "a": "-A",
    "r": "-R",
    "nine_original": "ImageNet-9, original",
    "nine_same": "ImageNet-9, mixed-same",
    "nine_rand": "ImageNet-9, mixed-rand",
}
#: percentages printed in tables 5.8, 5.9 and 5.11 at 224 pixels, in the order of SETS
PRINTED: dict[str, tuple[float | None, ...]] = {
    "ResNet-50": (82.5, 63.3, 78.9, 6.2, 35.3, 94.9, 87.1, 81.6),
    "DeiT-S": (85.7, 68.5, 57.1, 19.0, 41.9, 97.1, 89.1, 84.2),
    "CvT-13": (86.7, 70.4, 59.6, 25.4, 42.9, None, 90.5, 85.7),
    "CvT-21": (87.2, 71.3, 56.2, 31.1, 42.6, None, 90.5, 85.0),
    "CvT-LS-13": (87.0, 70.5, 58.7, 27.0, 42.6, 97.0, 90.7, 85.6),
    "CvT-LS-17": (87.2, 71.6, None, None, None, None, None, None),
    "CvT-LS-21": (87.5, 71.9, 55.2, 29.3, 45.0, 97.2, 91.5, 85.8),
    "CvT-LS-21S": (87.4, 71.7, None, None, None, None, None, None),
}


def derived_sets(evidence: Evidence) -> Finding:
    """Each measured accuracy of a long-short network is within 0.3 points of the printed one; other networks are shown only.

    One checkpoint is enough, because the claim is about these networks. The interval is over images: Wilson's, or for mCE the bound
    for maximally correlated errors. A number within the 0.3 points is correct for these images, so its claimed range is widened by
    the error over images. One checkpoint therefore reproduces the printed number if and only if it is within the 0.3 points, and
    contradicts it if the interval excludes this range. With several seeds the interval also covers Student's interval over seeds.
    """
    parts: dict[str, Comparison | None] = {}
    beside: list[Comparison] = []
    for network, printed in PRINTED.items():
        where = {"step": STEP, "network": network}
        for (one, words), percent in zip(SETS.items(), printed):
            metric = "mce@AlexNet" if one == "c" else f"{one}_acc_frac"
            measured = sample(evidence, f"{STEP}.{metric}", where, network=network)
            if percent is None or not measured.values:
                continue
            name = f"{network}, {words}"
            runs = [run for run in select(evidence.runs, where) if run.folder in measured.runs]
            below, above = _over_images(runs, one, mean(measured))
            near = abs(mean(measured) - percent / 100) <= MARGIN + 1e-9
            more = (below, above) if near else (0.0, 0.0)
            side = Within(percent / 100 - MARGIN - more[0], percent / 100 + MARGIN + more[1])
            notes = [f"printed {percent:g}", *_protocols(runs, one)]
            decides = network.startswith("CvT-LS")
            part = _part(name, measured, (below, above), side, notes, decides)
            if decides:
                parts[name] = part
            else:
                beside.append(part)
    return finding(parts or {"long-short networks on ImageNet's derived sets": None}, beside)


def _part(
    name: str,
    measured: Sample,
    errors: tuple[float, float],
    side: Side,
    notes: Sequence[str],
    decides: bool,
) -> Comparison:
    estimate = mean(measured)
    low, high = estimate - errors[0], estimate + errors[1]
    method, freedom = "interval over images", math.inf
    if len(measured.values) > 1:
        seeds = student_mean(list(measured.values.values()))
        low, high, freedom = min(low, seeds.low), max(high, seeds.high), seeds.freedom
        method += ", widened to Student's over seeds"
    interval = Interval(estimate, low, high, freedom)
    seeds_of = list(measured.values)
    return comparison(name, interval, side, "fraction", method, (measured,), seeds_of, STEP, decides, notes)


def _over_images(runs: Sequence[Run], name: str, estimate: float) -> tuple[float, float]:
    """Distances from an accuracy, or an mCE, to the lower and upper end of its 95% interval over images."""
    rows = [row for run in runs[:1] for row in rows_of(run, "sets.csv", set=name)]
    if name == "c":
        known = [row for row in rows if row["corruption"] in ALEXNET]
        error = sum(
            math.sqrt(
                float(row["accuracy_frac"]) * (1 - float(row["accuracy_frac"])) / int(row["samples_count"])
            )
            / ALEXNET[str(row["corruption"])]
            for row in known
        )
        half = Z * error / len(known) if known else 0.0
        return half, half
    count = int(rows[0]["samples_count"]) if rows else 0
    if not count:
        return 0.0, 0.0
    around = wilson(estimate * count, count)
    return estimate - around.low, around.high - estimate


def _protocols(runs: list[Run], name: str) -> list[str]:
    """The protocols under which a set's images were read, as stated in the records."""
    found = (row["protocol"] for run in runs for row in rows_of(run, "sets.csv", set=name))
    return list(dict.fromkeys(f"protocol: {protocol}" for protocol in found))


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {"derived_sets": derived_sets}


def power(found: Comparison, evidence: Evidence) -> list[str]:
    """No reasons: the claim is about these checkpoints, and its interval is over images."""
    return []
