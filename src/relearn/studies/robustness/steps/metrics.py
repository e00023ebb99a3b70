"""Metrics of `evaluate_robustness`, computed from its rows: means over corruptions, mCE, background gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from relearn.runs.atomic_files import digest
from relearn.studies.robustness.steps.image_sets import Row


def metrics_of(rows: Sequence[Row], reference: Path | None = None) -> tuple[dict[str, float], list[str]]:
    """Metrics for the record, and notes on the reference of mCE; see :mod:`relearn.studies.robustness.steps.evaluate_robustness`.

    Raises:
        ValueError: the reference has other corruptions or severities, or there are no corrupted images to compare.
    """
    from relearn.measures.background_gap import background_gap
    from relearn.measures.corruption_error import mean_corruption_accuracy, mean_corruption_error
    from relearn.measures.imagenet_mce import ALEXNET, SEVERITIES, imagenet_mce

    single = {row.set: row.accuracy_frac for row in rows if row.corruption is None}
    notes = []
    metrics = {f"{name}_acc_frac": share for name, share in single.items() if name != "test"}
    clean = single.get("test", single.get("val"))
    if clean is not None:
        metrics["acc_frac"] = clean
    if "nine_same" in single:
        metrics["nine_gap_frac"] = background_gap(single["nine_same"], single["nine_rand"])
    by_set = {name: _by_corruption(rows, name) for name in ("c", "cifar_c", "corrupted")}
    if released := by_set["c"]:
        metrics["c_acc_frac"] = metrics["corruption_acc_frac"] = mean_corruption_accuracy(released)
        errors = _errors(released)
        published = {(name, level) for name in ALEXNET for level in range(1, SEVERITIES + 1)}
        if {(row.corruption, row.severity) for row in rows if row.set == "c"} == published:
            metrics["mce_frac"] = imagenet_mce(errors)
            notes.append(
                "mce_frac: relative to AlexNet's published errors, 15 corruptions x 5 severities of set c"
            )
    if arrays := by_set["cifar_c"]:
        metrics["cifar_c_acc_frac"] = metrics["corruption_acc_frac"] = mean_corruption_accuracy(arrays)
    if made := by_set["corrupted"]:
        metrics["corruption_acc_frac"] = mean_corruption_accuracy(made)
    if reference is not None:
        other = next((name for name in ("corrupted", "c", "cifar_c") if by_set[name]), "c")
        if not by_set[other]:
            raise ValueError(
                f"{reference}: a reference, and no corrupted images; allowed: corruptions, or no reference"
            )
        words = f"of set {other}, relative to {reference.name} of another network, sha256 {digest(reference)}"
        errors, of_reference = _errors(by_set[other]), _reference(reference, other, rows)
        # if mce_frac is already relative to AlexNet, as published, the reference gets its own name
        name = "reference_mce_frac" if "mce_frac" in metrics else "mce_frac"
        if not of_reference:
            notes.append(f"no {name}: {words}, which diverged")
        elif perfect := [one for one, row in of_reference.items() if not sum(row)]:
            notes.append(f"no {name}: {words}, which makes no errors under {', '.join(perfect)}")
        else:
            metrics[name] = mean_corruption_error(errors, of_reference)
            notes.append(f"{name}: {words}")
    return metrics, notes


def _by_corruption(rows: Sequence[Row], name: str) -> dict[str, list[float]]:
    """For each corruption of a set, the accuracies in order of severity."""
    found: dict[str, list[float]] = {}
    for row in sorted(
        (row for row in rows if row.set == name and row.corruption), key=lambda row: row.severity or 0
    ):
        found.setdefault(row.corruption or "", []).append(row.accuracy_frac)
    return found


def _errors(accuracies: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    return {name: [1.0 - value for value in row] for name, row in accuracies.items()}


def _reference(path: Path, name: str, own: Sequence[Row]) -> dict[str, list[float]]:
    """For each corruption, the reference's errors in order of severity; empty if its logits were not finite.

    Raises:
        ValueError: there are no rows of the set, or a corruption has other severities than in ``own``.
    """
    import csv

    found: dict[str, dict[int, float]] = {}
    rows = 0
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows += 1
            if row.get("set") == name:
                found.setdefault(row["corruption"], {})[int(row["severity"])] = 1.0 - float(
                    row["accuracy_frac"]
                )
    if rows and not found:
        raise ValueError(
            f"{path}: no rows of set {name}; allowed: sets.csv of a run with the same corruptions"
        )
    for corruption, levels in found.items():
        wanted = {row.severity or 0 for row in own if row.set == name and row.corruption == corruption}
        if wanted and wanted != set(levels):
            raise ValueError(
                f"{path}: {corruption}: severities {sorted(levels)}; allowed: {sorted(wanted)}, as of this network"
            )
    return {corruption: [levels[one] for one in sorted(levels)] for corruption, levels in found.items()}
