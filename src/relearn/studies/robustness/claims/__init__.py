"""Predicate of zhu2022, tables 5.8 to 5.11, over sets derived from ImageNet: the accuracy of each network is the printed one.

Only runs on ImageNet's own sets count, which are those whose record has one of them; a network at another size, on CIFAR-10 or with
corruptions of this project's generator has no printed number.
"""

from __future__ import annotations

from collections.abc import Callable

from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.derived import rows_of
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.report.seeds import level, sample
from relearn.report.verdicts import Within

STEP = "evaluate_robustness"
MIN_SEEDS = 3
MARGIN = 0.003  # 0.3 points
#: set → what it is called; mCE relative to AlexNet, of ImageNet-C's own files
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
#: the percent that tables 5.8, 5.9 and 5.11 print, in the order of SETS
PRINTED: dict[str, tuple[float | None, ...]] = {
    "ResNet-50": (82.5, 63.3, 78.9, 6.2, 35.3, 94.9, 87.1, 81.6),
    "DeiT-S": (85.7, 68.5, 57.1, 19.0, 41.9, 97.1, 89.1, 84.2),
    "CvT-13": (86.7, 70.4, 59.6, 25.4, 42.9, None, 90.5, 85.7),
    "CvT-21": (87.2, 71.3, 56.2, 31.1, 42.6, None, 90.5, 85.0),
    "CvT-LS-13": (87.0, 70.5, 58.7, 27.0, 42.6, 97.0, 90.7, 85.6),
    "CvT-LS-17": (87.2, 71.6, None, None, None, None, None, None),
    "CvT-LS-21": (87.5, 71.9, 55.2, 29.3, 45.0, 97.2, 91.5, 85.8),
    "CvT-LS-21S": (87.4, 71.7, None, None, None, None, None, None),
    "CvT-13@384": (87.9, 71.9, None, None, None, None, None, None),
    "CvT-21@384": (87.7, 71.9, None, None, None, None, None, None),
    "CvT-LS-21@384": (88.0, 72.5, None, None, None, None, None, None),
    "CvT-LS-21@448": (88.2, 72.9, None, None, None, None, None, None),
}


def derived_sets(evidence: Evidence) -> Finding:
    """Each measured accuracy is within 0.3 points of the printed one, by network and set."""
    parts: dict[str, Comparison | None] = {}
    for network, printed in PRINTED.items():
        where = {"step": STEP, "network": network}
        for (one, words), percent in zip(SETS.items(), printed):
            metric = "mce@AlexNet" if one == "c" else f"{one}_acc_frac"
            measured = sample(evidence, f"{STEP}.{metric}", where, network=network)
            if percent is None or not measured.values:
                continue
            name = f"{network}, {words}"
            side = Within(percent / 100 - MARGIN, percent / 100 + MARGIN)
            runs = [run for run in select(evidence.runs, where) if run.folder in measured.runs]
            notes = [f"printed {percent:g}", *_protocols(runs, one)]
            parts[name] = level(name, measured, side, role=STEP, notes=notes)
    return finding(parts or {"networks on ImageNet's derived sets": None})


def _protocols(runs: list[Run], name: str) -> list[str]:
    """The protocol under which the images of a set were read, from the records."""
    found = (row["protocol"] for run in runs for row in rows_of(run, "sets.csv", set=name))
    return list(dict.fromkeys(f"protocol: {said}" for said in found))


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {"derived_sets": derived_sets}


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Reasons: too few seeds; one checkpoint allows no statement about another training."""
    count = len(comparison.seeds)
    return [] if count >= MIN_SEEDS else [f"{count} seed{'s' * (count > 1)}, needs {MIN_SEEDS}"]
