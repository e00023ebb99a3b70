r"""Tolerances, metric by metric, for a record made on a device compared with the CPU's.

A metric :math:`a` on the CPU and :math:`b` on the device agree if

.. math:: |a - b| \le \text{absolute} + \text{relative} \cdot |a|

Results without training differ only by rounding. Training amplifies rounding: after some hundred steps two correct runs differ
as much as two seeds, so its limits only detect errors by a multiple, not in a digit. Times, rates and bytes depend on the
machine, as do their ratios: they must be present in both records or in neither, and are not compared.

=========  =========  ======================  ======================
precision  what       absolute                relative
=========  =========  ======================  ======================
fp32       formula    1e-4, fractions 0.02    1e-3
fp32       training   0.02, fractions 0.15    0.3
bf16       formula    1e-2, fractions 0.1     0.05
bf16       training   0.05, fractions 0.25    0.5
=========  =========  ======================  ======================

The limits were set before any results from a GPU were available, and have not changed. The first run on one (an H100) showed which
steps belong to which kind: pre-training has no history but weights, and the inversion of a residual map that is no contraction
amplifies rounding as a training does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

MACHINE = ("_s", "_ms", "_mb", "_bytes", "_per_s", "_speedup", "_share_of_time")
RATIO, TIMED = (
    "_ratio",
    ("throughput", "time_training_step", "benchmark_attention"),
)  # ratios of times and bytes
FRACTION = "_frac"
STEP_BY_STEP = (
    *("history.csv", "ascents.csv", "curves.csv", "attacks.csv", "loss_curves.csv", "increases.csv"),
    *("errors.csv", "weights.safetensors"),
)
LIMITS = {  # (precision, whether trained): absolute, absolute of fractions, relative
    ("fp32", False): (1e-4, 0.02, 1e-3),
    ("fp32", True): (0.02, 0.15, 0.3),
    ("bf16", False): (1e-2, 0.1, 0.05),
    ("bf16", True): (0.05, 0.25, 0.5),
}


class Verdict(NamedTuple):
    """The comparison of two records.

    Attributes:
        ok: whether every metric agrees.
        worst: the metric nearest to its limit, or furthest beyond it; "" if nothing is compared.
        share: its difference as a fraction of the limit; 0 if all are equal.
        cpu, device: its values.
        compared: number of metrics.
        beyond: number of metrics beyond their limit.
    """

    ok: bool
    worst: str = ""
    share: float = 0.0
    cpu: float | None = None
    device: float | None = None
    compared: int = 0
    beyond: int = 0


def trained(record: Mapping[str, Any]) -> bool:
    """Whether a run trained, optimised or iterated something step by step, judged by its output files."""
    return any(name in STEP_BY_STEP for name in record["outputs"])


def compare(cpu: Mapping[str, Any], device: Mapping[str, Any], precision: str) -> Verdict:
    """Compare the metrics of two records of the same run."""
    if cpu["outcome"] != device["outcome"]:
        return Verdict(False, f"outcome {cpu['outcome']}, on the device {device['outcome']}", math.inf)
    absolute, of_fractions, relative = LIMITS[precision, trained(cpu)]
    worst, count, beyond = Verdict(True), 0, 0
    for name in sorted(cpu["metrics"].keys() | device["metrics"].keys()):
        a, b = cpu["metrics"].get(name), device["metrics"].get(name)
        if name.endswith(MACHINE) or (name.endswith(RATIO) and cpu.get("step") in TIMED):
            if (a is None) != (b is None):
                return Verdict(False, name, math.inf, a, b)
            continue
        count += 1
        share = _share(a, b, (of_fractions if name.endswith(FRACTION) else absolute), relative)
        beyond += share > 1
        if share > worst.share or not worst.worst:
            worst = Verdict(share <= 1, name, share, a, b)
    return worst._replace(compared=count, beyond=beyond)


def _share(a: float | None, b: float | None, absolute: float, relative: float) -> float:
    if a is None or b is None:
        return 0.0 if a is b else math.inf
    return abs(a - b) / (absolute + relative * abs(a))
