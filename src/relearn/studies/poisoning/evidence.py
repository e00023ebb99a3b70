"""Facts about the study's runs shared by several claims and figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from relearn.report.quantities import Evidence
from relearn.report.runs import select


def normalised_k(evidence: Evidence) -> dict[int, float]:
    """Map every k of the sweep to k divided by the size of the largest class."""
    swept = {"step": "filter", "setting": "transfer", "defence": "deep_knn"}
    return {
        row["k"]: float(row["normalised_k"])
        for run in select(evidence.runs, swept)
        for row in run.trials
        if row["k"] and row["normalised_k"] is not None
    }


def victim_accuracies(evidence: Evidence, role: str = "victim") -> dict[str, float | None]:
    """Test accuracy of each victim before any fine-tuning; the minimum over its seeds."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in select(evidence.runs, {"step": "evaluate_networks", "role": role}):
        accuracy = run.metrics.get("test_accuracy_frac")
        if accuracy is not None:
            found[run.labels["architecture"]].append(accuracy)
    return {victim: min(values) for victim, values in found.items()}


MIN_TRAIN_ACCURACY = 0.98
MIN_POISONS_FITTED = 0.95


def unfitted(evidence: Evidence, folders: Iterable[str]) -> list[str]:
    """Report the victims of these runs that have not fitted their fine-tuning set or its poisons, one reason each.

    The paper's victims overfit: its proposition assumes classifiers that assign every poison its given label. A victim
    that does not is no evidence about an attack or a defence. Runs of steps other than ``train`` are ignored.
    """
    wanted = set(folders)
    names = {
        "train_accuracy_frac": (MIN_TRAIN_ACCURACY, "its fine-tuning set"),
        "poisons_fitted_frac": (MIN_POISONS_FITTED, "the poisons left in it"),
    }
    least: dict[tuple[str, str], float] = {}
    unknown: set[str] = set()
    for run in select(evidence.runs, {"step": "train"}):
        if run.folder not in wanted or run.diverged:
            continue
        victim = run.labels["victim"]
        if run.metrics.get("train_accuracy_frac") is None:
            unknown.add(victim)
        for name in names:
            value = run.metrics.get(name)
            if value is not None:
                least[victim, name] = min(value, least.get((victim, name), 1.0))
    reasons = [f"fit of {victim} to its fine-tuning set not measured" for victim in sorted(unknown)]
    for (victim, name), value in sorted(least.items()):
        needed, words = names[name]
        if value < needed:
            reasons.append(f"{victim} fits {100 * value:.1f}% of {words}, needs {100 * needed:.0f}%")
    return reasons


def black_box_victims(evidence: Evidence, attack: str, setting: str = "transfer") -> set[str]:
    """Victims whose architecture no substitute has, according to the threat models in the records."""
    where = {"step": "train", "setting": setting, "attack": attack, "defence": "none"}
    return {
        run.labels["victim"]
        for run in select(evidence.runs, where)
        if (run.record["threat_model"] or {}).get("knowledge") == "black_box"
    }
