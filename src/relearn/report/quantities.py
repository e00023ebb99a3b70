r"""What a trial says: from the rows of a run's trials.csv to numbers.

Attack success is a target that the victim takes for the poison class. Some it takes so without any attack: its control is
the same victim behind the same defence, trained on the set with unperturbed bases (``control_success``).

* ``attack_success``: as the papers count, whatever the control does;
* ``attack_success_net``: success - control, -1, 0 or 1 for a trial: what the poisons add.

Defence success is the share of attacks that fail after filtering and retraining (1 - attack success).
Two populations of attacks are in use, and both are reported:

* ``defence_success``: every attack, also one that fails by itself, so without a defence it is not 0;
  ``defence_success_net`` is 1 - ``attack_success_net``;
* ``defence_success_effective``: only attacks that succeed against the same victim without a defence, where the control
  does not. The defence has failed where the attack succeeds and its control behind the defence does not; so without a
  defence it is 0. Where no attack succeeds it has no value. (The defence's public code counts so without controls.)

A run of Deep k-NN holds a row for every k of its sweep; without a stated k the chosen one counts. A run of
the imbalance study holds a row for every class size, with and without replication; the chosen one is balanced.

What diverged:

* a victim whose fine-tuning diverged says nothing about the attack: its run is left out, and the report
  counts it ("[1 diverged]");
* a run of a whole training (``<step>.<metric>``) has its own numbers also where it diverged, and they count,
  as in the papers' tables; one without a number is counted as diverged and not averaged;
* a poison that was rejected (not finite, or outside its ball) was never scored: the attack has failed. The
  train step writes success 0 for it and a note with the reason, and every rate here counts it as a failure;
  a crafting that diverged as a whole is nothing but rejected poisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from relearn.report.artefacts import Where
from relearn.report.derived import derived
from relearn.report.runs import Run, select
from relearn.runs.record_rows import columns as columns_of

if TYPE_CHECKING:
    import pandas

Key = tuple[str, int, int]  # victim, seed, target
Row = Mapping[str, Any]  # of a trials.csv


@dataclass(frozen=True)
class Trial:
    """One number: of one target on one victim of one seed, at one k (None: the defence has no k).

    ``balance`` is n/N of the imbalance study (None elsewhere), ``replicated`` whether n was made up to N.
    """

    victim: str
    seed: int
    target: int
    k: int | None
    value: float
    folder: str
    balance: float | None = None
    replicated: bool = False

    @property
    def key(self) -> Key:
        return self.victim, self.seed, self.target


@dataclass(frozen=True)
class Quantity:
    """Which step measures it, how a row says it, whether it is yes or no, over which attacks.

    ``member`` is the label that names whom a run is of, ``rows`` says which of its rows count. With ``metric``
    a run is one trial: the number of that name in its record, and the members are the seeds; with ``of_run`` it
    is a number made from its files.
    """

    step: str
    value: Callable[[Row], float | None]
    binary: bool = False
    effective: bool = False
    member: str = "victim"
    rows: Callable[[Row], bool] | None = None
    metric: str | None = None
    of_run: Callable[[Run], float | None] | None = None

    def number(self, run: Run) -> float | None:
        """What a run that is one trial has measured."""
        return self.of_run(run) if self.of_run else run.metrics.get(self.metric or "")


def _number(name: str) -> Callable[[Row], float | None]:
    return lambda row: None if row[name] is None else float(row[name])


def _number_if_there(row: Row, name: str) -> float | None:
    return None if row.get(name) is None else float(row[name])


def _failed(row: Row) -> float | None:
    return 1.0 - float(row["success"])


def _control(row: Row) -> float | None:
    return None if row.get("control_success") is None else float(row["control_success"])


def _net(row: Row) -> float | None:
    control = _control(row)
    return None if control is None else float(row["success"]) - control


def _failed_net(row: Row) -> float | None:
    net = _net(row)
    return None if net is None else 1.0 - net


def _failed_or_natural(row: Row) -> float | None:
    return 1.0 if _control(row) else _failed(row)


def _share(part: str, whole: str) -> Callable[[Row], float | None]:
    return lambda row: float(row[part]) / float(row[whole]) if row[whole] else None


QUANTITIES = {
    "attack_success": Quantity("train", _number("success"), binary=True),
    "defence_success": Quantity("train", _failed, binary=True),
    "defence_success_effective": Quantity("train", _failed_or_natural, binary=True, effective=True),
    "control_success": Quantity("train", _control, binary=True),
    "attack_success_net": Quantity("train", _net),
    "defence_success_net": Quantity("train", _failed_net),
    "train_accuracy": Quantity("train", lambda row: _number_if_there(row, "train_accuracy_frac")),
    "poisons_fitted": Quantity("train", lambda row: _number_if_there(row, "poisons_fitted_frac")),
    "test_accuracy": Quantity("train", _number("test_accuracy_frac")),
    "poisons_removed": Quantity("filter", _share("poisons_removed", "poisons")),
    "clean_removed": Quantity("filter", _share("clean_removed", "clean")),
    "mcc": Quantity("filter", _number("mcc")),
}


def quantity(name: str) -> Quantity:
    """A quantity by name: one of QUANTITIES, ``<kind>_accuracy`` of the step ``evaluate_networks``, or a metric.

    ``clean_accuracy``, ``corruption_accuracy`` (mean over corruptions and severities) and
    ``pgd_accuracy@<eps>`` with eps as the record writes it; ``<step>.<metric>`` is a metric of a step's record,
    ``<step>.<name>@<argument>`` a number that :mod:`relearn.report.derived` makes from its files.

    Raises:
        ValueError: a name that is none of these.
    """
    if name in QUANTITIES:
        return QUANTITIES[name]
    step, dot, metric = name.partition(".")
    if dot and step.isidentifier() and step not in QUANTITIES:
        of_run = derived(metric) if "@" in metric else None
        return Quantity(step, _number(metric), member="seed", metric=metric, of_run=of_run)
    kind, _, level = name.partition("_accuracy")
    if kind not in ("clean", "pgd", "corruption"):
        allowed = f"{', '.join(QUANTITIES)}, <kind>_accuracy, <step>.<metric>"
        raise ValueError(f"found quantity {name}, allowed: {allowed}")

    def rows(row: Row) -> bool:
        return row["kind"] == kind and (not level or f"{float(row['level']):g}" == level.removeprefix("@"))

    return Quantity("evaluate_networks", _number("accuracy_frac"), member="architecture", rows=rows)


class Evidence:
    """All runs of one study at one scale, asked by quantity."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)
        self._effective: dict[tuple[str, str], set[Key]] = {}
        self._columns: dict[str, dict[Run, float]] = {}

    @cached_property
    def table(self) -> pandas.DataFrame:
        """Runs × metrics: one row a run with the columns of ``runs.parquet`` (:mod:`relearn.runs.record_rows`)."""
        import pandas

        columns, _ = columns_of([dict(run.record) for run in self.runs], [run.folder for run in self.runs])
        return pandas.DataFrame(columns)

    def _column(self, metric: str) -> dict[Run, float]:
        """The metric of every run that has a number for it."""
        if metric not in self._columns:
            values = self.table.get(f"metrics.{metric}", [None] * len(self.runs))
            pairs = zip(self.runs, values)
            self._columns[metric] = {run: float(one) for run, one in pairs if one is not None and one == one}
        return self._columns[metric]

    def of(self, name: str, *filters: Where) -> list[Run]:
        """The runs that measure this quantity; diverged ones among them."""
        return select(self._by_step.get(quantity(name).step, ()), *filters)

    @cached_property
    def _by_step(self) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.step, []).append(run)
        return found

    def trials(self, name: str, *filters: Where, sweep: bool = False) -> list[Trial]:
        """The quantity of every trial of the runs that did not diverge.

        Args:
            name: as ``quantity`` takes it.
            filters: what the runs must agree with.
            sweep: every k and every class size instead of the chosen one.

        Raises:
            ValueError: naming the run, for a trials.csv that lacks a column or holds no number.
        """
        kind = quantity(name)
        if kind.metric:
            return self._metrics(kind, self.of(name, *filters))
        found = []
        for run in self.of(name, *filters):
            if run.diverged:
                continue
            attacks = self._effective_for(run) if kind.effective else None
            for row in run.trials:
                if (not sweep and row.get("chosen") == 0) or (kind.rows and not kind.rows(row)):
                    continue
                trial = _trial(kind, name, run, row)
                if trial and (attacks is None or trial.key in attacks):
                    found.append(trial)
        return found

    def _metrics(self, kind: Quantity, runs: Iterable[Run]) -> list[Trial]:
        """A trial a run that has a number, whatever became of it; ``victim`` names its seed."""
        measured = kind.of_run or self._column(kind.metric or "").get
        values = [(run, measured(run)) for run in runs]
        return [
            Trial(f"seed{run.seed}", run.seed, 0, None, float(value), run.folder)
            for run, value in values
            if value is not None
        ]

    def effective(self, setting: str, attack: str) -> set[Key]:
        """The (victim, seed, target) of which this attack succeeds in this setting without a defence, and its control does not."""
        if (setting, attack) not in self._effective:
            undefended = {"setting": setting, "attack": attack, "defence": "none"}
            trials = self.trials("attack_success", undefended)
            natural = {trial.key for trial in self.trials("control_success", undefended) if trial.value}
            self._effective[setting, attack] = {trial.key for trial in trials if trial.value} - natural
        return self._effective[setting, attack]

    def _effective_for(self, run: Run) -> set[Key]:
        setting = run.labels["setting"]
        # the imbalance study starts from the attacks that work on the balanced set, as the public code does
        return self.effective("transfer" if setting == "imbalance" else setting, run.labels["attack"])


def _trial(kind: Quantity, name: str, run: Run, row: Row) -> Trial | None:
    try:
        value = kind.value(row)
        if value is None:
            return None
        target = int(row["target"]) if "target" in row else 0
        found = Trial(run.labels[kind.member], run.seed, target, row.get("k") or None, value, run.folder)
        if row.get("class_size_frac") is None:
            return found
        return replace(found, balance=float(row["class_size_frac"]), replicated=bool(row["replicated"]))
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__} {error}"
        raise ValueError(f"{run.folder}/trials.csv: {name}: {problem}") from None
