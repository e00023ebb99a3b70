"""The accuracy of a guess on the images of a study."""

from __future__ import annotations

from relearn.report.quantities import Evidence
from relearn.report.runs import select


def of_images(evidence: Evidence) -> float | None:
    """One over the number of classes; None where no image set was prepared, or sets of different numbers."""
    runs = select(evidence.runs, {"step": "prepare_images"})
    counts = {run.metrics.get("classes_count") for run in runs} - {None}
    return 1 / counts.pop() if len(counts) == 1 else None  # type: ignore[operator]
