"""The value that a run takes from trainings with other seeds, each of which tried one candidate."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SIGNS = {"valid_loss_nats": -1.0, "accbest_frac": 1.0, "dev_acc_frac": 1.0}
"""The metrics that judge a training, and whether more of them is better."""


def best_tried(key: str, records: Sequence[Path]) -> float:
    """The best of the values of ``key`` that trainings tried: ``tau`` of an initialisation, or ``lr`` of a training.

    The label ``tried`` of a training names its candidate, e.g. ``tau0.01``. The best has the best mean over seeds of the first of these
    numbers that the trainings have: validation loss, best accuracy, accuracy on held-out samples; of equal ones the smallest. A training
    without that number is worse than any other.

    Raises:
        ValueError: a record names no candidate, or no training has a number.
    """
    scores: dict[float, list[float]] = defaultdict(list)
    for path in records:
        record = json.loads(path.read_text(encoding="utf-8"))
        label = str(record["labels"].get("tried", ""))
        if not (found := re.fullmatch(f"{key}([0-9.e+-]+)", label)):
            raise ValueError(f"{path}: tried: found {label or 'nothing'}, allowed: {key} with a number")
        numbers = [sign * record["metrics"][name] for name, sign in SIGNS.items() if _known(record, name)]
        scores[float(found[1])].append(numbers[0] if numbers else -math.inf)
    means = {candidate: sum(many) / len(many) for candidate, many in scores.items()}
    if max(means.values()) == -math.inf:
        raise ValueError(
            f"tried: found {len(records)} trainings without a number, allowed: one with a number"
        )
    return min(means, key=lambda candidate: (-means[candidate], candidate))


def _known(record: dict[str, Any], name: str) -> bool:
    value = record["metrics"].get(name)
    return value is not None and math.isfinite(value)
