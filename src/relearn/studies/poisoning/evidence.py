"""Facts about the study's runs that several claims and figures need."""

from __future__ import annotations

from collections import defaultdict

from relearn.report.quantities import Evidence
from relearn.report.runs import select


def normalised_k(evidence: Evidence) -> dict[int, float]:
    """k divided by the size of the largest class, for every k of the sweep."""
    swept = {"step": "filter", "setting": "transfer", "defence": "deep_knn"}
    return {
        row["k"]: float(row["normalised_k"])
        for run in select(evidence.runs, swept)
        for row in run.trials
        if row["k"] and row["normalised_k"] is not None
    }


def victim_accuracies(evidence: Evidence, role: str = "victim") -> dict[str, float | None]:
    """Test accuracy of each victim before any fine-tuning, the minimum over its seeds."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in select(evidence.runs, {"step": "evaluate_networks", "role": role}):
        accuracy = run.metrics.get("test_accuracy_frac")
        if accuracy is not None:
            found[run.labels["architecture"]].append(accuracy)
    return {victim: min(values) for victim, values in found.items()}


def black_box_victims(evidence: Evidence, attack: str, setting: str = "transfer") -> set[str]:
    """Victims whose architecture no substitute has, by the threat models in the records."""
    where = {"step": "train", "setting": setting, "attack": attack, "defence": "none"}
    return {
        run.labels["victim"]
        for run in select(evidence.runs, where)
        if (run.record["threat_model"] or {}).get("knowledge") == "black_box"
    }
