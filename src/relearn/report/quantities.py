r"""What a trial says: from the rows of a run's trials.csv to numbers.

Defence success is the share of attacks that fail after filtering and retraining (1 - attack success).
Two populations of attacks are in use, and both are reported:

* ``defence_success``: every attack, also one that fails by itself, so without a defence it is not 0;
* ``defence_success_effective``: only attacks that succeed against the same victim without a defence (as
  the public code of the defence counts), so without a defence it is 0. Where no attack succeeds it has no
  value.

A run of Deep k-NN holds a row for every k of its sweep; without a stated k the chosen one counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from relearn.report.artefacts import Where
from relearn.report.runs import Run, select

Key = tuple[str, int, int]  # victim, seed, target
Row = Mapping[str, Any]  # of a trials.csv


@dataclass(frozen=True)
class Trial:
    """One number: of one target on one victim of one seed, at one k (None: the defence has no k)."""

    victim: str
    seed: int
    target: int
    k: int | None
    value: float
    folder: str

    @property
    def key(self) -> Key:
        return self.victim, self.seed, self.target


@dataclass(frozen=True)
class Quantity:
    """Which step measures it, how a row says it, whether it is yes or no, over which attacks."""

    step: str
    value: Callable[[Row], float | None]
    binary: bool = False
    effective: bool = False


def _number(name: str) -> Callable[[Row], float | None]:
    return lambda row: None if row[name] is None else float(row[name])


def _failed(row: Row) -> float | None:
    return 1.0 - float(row["success"])


def _share(part: str, whole: str) -> Callable[[Row], float | None]:
    return lambda row: float(row[part]) / float(row[whole]) if row[whole] else None


QUANTITIES = {
    "attack_success": Quantity("train", _number("success"), binary=True),
    "defence_success": Quantity("train", _failed, binary=True),
    "defence_success_effective": Quantity("train", _failed, binary=True, effective=True),
    "test_accuracy": Quantity("train", _number("test_accuracy_frac")),
    "poisons_removed": Quantity("filter", _share("poisons_removed", "poisons")),
    "clean_removed": Quantity("filter", _share("clean_removed", "clean")),
    "mcc": Quantity("filter", _number("mcc")),
}


class Evidence:
    """All runs of one study at one scale, asked by quantity."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)
        self._effective: dict[str, set[Key]] = {}

    def of(self, quantity: str, *filters: Where) -> list[Run]:
        """The runs that measure this quantity; diverged ones among them."""
        return select(self.runs, {"step": QUANTITIES[quantity].step}, *filters)

    def trials(self, quantity: str, *filters: Where, sweep: bool = False) -> list[Trial]:
        """The quantity of every trial of the runs that did not diverge.

        Args:
            quantity: a key of QUANTITIES.
            filters: what the runs must agree with.
            sweep: every k instead of the chosen one.

        Raises:
            ValueError: naming the run, for a trials.csv that lacks a column or holds no number.
        """
        kind = QUANTITIES[quantity]
        found = []
        for run in self.of(quantity, *filters):
            if run.diverged:
                continue
            attacks = self.effective(run.labels["attack"]) if kind.effective else None
            for row in run.trials:
                if not sweep and row.get("chosen") == 0:
                    continue
                try:
                    value = kind.value(row)
                    key = run.labels["victim"], run.seed, int(row["target"])
                    k = row.get("k") or None
                except (KeyError, TypeError, ValueError) as error:
                    problem = f"{type(error).__name__} {error}"
                    raise ValueError(f"{run.folder}/trials.csv: {quantity}: {problem}") from None
                if value is not None and (attacks is None or key in attacks):
                    found.append(Trial(*key, k, value, run.folder))
        return found

    def effective(self, attack: str) -> set[Key]:
        """The (victim, seed, target) of which this attack succeeds without a defence."""
        if attack not in self._effective:
            undefended = self.trials("attack_success", {"attack": attack, "defence": "none"})
            self._effective[attack] = {trial.key for trial in undefended if trial.value}
        return self._effective[attack]

    def normalised_k(self) -> dict[int, float]:
        """k divided by the size of the largest class, for every k that a filter run used."""
        return {
            row["k"]: float(row["normalised_k"])
            for run in select(self.runs, {"step": "filter", "defence": "deep_knn"})
            for row in run.trials
            if row["k"] and row["normalised_k"] is not None
        }

    def victim_accuracies(self) -> dict[str, float | None]:
        """Test accuracy of each victim before any fine-tuning: the least over its seeds."""
        found: dict[str, list[float]] = defaultdict(list)
        for run in select(self.runs, {"step": "evaluate", "protocol": "accuracy", "role": "victim"}):
            accuracy = run.metrics.get("test_accuracy_frac")
            if accuracy is not None:
                found[run.labels["architecture"]].append(accuracy)
        return {victim: min(values) for victim, values in found.items()}

    def black_box_victims(self, attack: str) -> set[str]:
        """Victims whose architecture no substitute has, as the threat models of the runs say."""
        return {
            run.labels["victim"]
            for run in select(self.runs, {"step": "train", "attack": attack, "defence": "none"})
            if (run.record["threat_model"] or {}).get("knowledge") == "black_box"
        }
