r"""Quantities: numbers computed from the rows of a run's trials.csv, its metrics or its files.

An attack succeeds if the victim classifies the target as the poison class. Some targets are classified so without any attack.
The control measures this: the same victim with the same defence, trained with unperturbed bases (``control_success``).

* ``attack_success``: as the papers count, regardless of the control;
* ``attack_success_net``: success - control, -1, 0 or 1 for a trial: the effect of the poisons.

``certified_accuracy@<r>`` is the share of test images that a certified victim classifies correctly whatever r images are added to its set
of unperturbed bases or removed from it.

Defence success is the share of attacks that fail after filtering and retraining (1 - attack success).
It is reported over two populations of attacks:

* ``defence_success``: every attack, including those that fail anyway, so it is not 0 without a defence;
  ``defence_success_net`` is 1 - ``attack_success_net``;
* ``defence_success_effective``: only attacks that succeed against the same victim without a defence and whose control
  does not. The defence fails if the attack succeeds and its control with the defence does not; without a defence
  the value is therefore 0. If no attack succeeds it has no value. (The defence's public code counts so, without controls.)

A run of Deep k-NN has one row for every k of its sweep; unless k is given, the chosen one is used. A run of the
imbalance study has one row for every class size, with and without replication; the chosen one is balanced.

Divergence:

* A victim whose fine-tuning diverged says nothing about the attack: its run is left out, and the report
  counts it ("[1 diverged]").
* A run that is one whole training (``<step>.<metric>``) may have a number although it diverged; the number counts, as
  in the papers' tables. Without a number it is counted as diverged and left out of the mean.
* A rejected poison (not finite, or outside its ball) is never scored: the attack has failed. The train step
  writes success 0 for it and a note with the reason, and every rate here counts it as a failure. If the crafting
  diverged, all its poisons are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from relearn.report.artefacts import Where
from relearn.report.derived import derived, under
from relearn.report.runs import Run, select
from relearn.runs.record_rows import columns as columns_of

if TYPE_CHECKING:
    import pandas

Key = tuple[str, int, int]  # victim, seed, target
Published = Callable[[str], Mapping[str, Any] | None]  # the folder of a run to its settings at scale paper
Row = Mapping[str, Any]  # a row of trials.csv


@dataclass(frozen=True)
class Trial:
    """One number: for one target, one victim, one seed and one k (None: the defence has no k).

    ``balance`` is n/N in the imbalance study (None elsewhere), ``replicated`` says whether n was filled up to N by replication.
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
    """How a quantity is measured: its step, its value in a row, whether it is binary, and over which attacks.

    ``member`` is the label that names a run's member, ``rows`` selects the rows that count. With ``metric`` a run is
    one trial, its value is the metric of that name in its record, and the members are the seeds; with ``of_run`` the
    value is computed from the run's files.
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
        """The value of a run that is one trial."""
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


def _certified(changes: int) -> Callable[[Row], float | None]:
    return lambda row: _number_if_there(row, f"certified_accuracy_{changes}_frac")


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
    **{f"certified_accuracy@{r}": Quantity("train", _certified(r)) for r in (0, 1, 2, 5)},
    "poisons_removed": Quantity("filter", _share("poisons_removed", "poisons")),
    "clean_removed": Quantity("filter", _share("clean_removed", "clean")),
    "mcc": Quantity("filter", _number("mcc")),
}


def quantity(name: str) -> Quantity:
    """A quantity by name: one of QUANTITIES, ``<kind>_accuracy`` of the step ``evaluate_networks``, or a metric.

    ``clean_accuracy``, ``corruption_accuracy`` (mean over corruptions and severities) and
    ``pgd_accuracy@<eps>`` with eps as written in the record; ``<step>.<metric>`` is a metric of a step's record, and
    ``<step>.<name>@<argument>`` is computed from its files by :mod:`relearn.report.derived`.

    Raises:
        ValueError: an unknown name.
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


AMOUNTS = (
    *("epochs", "steps", "iterations"),  # of a training, a crafting or a search
    *("train", "train_samples", "train_pairs", "train_sentences", "train_images"),
    *("pretrain_per_class", "fine_tune_per_class"),
    *("width", "depth", "depths", "dim", "embed_dim", "layers"),
)
"""Settings that say how long and on how many samples a run trains, and how large its network is."""


class Evidence:
    """All runs of one study at one scale, queried by quantity.

    Args:
        runs: of the study.
        every: runs of other studies too, whose outputs those of the study may have read.
        published: the settings of a run at scale paper, None for a run that scale paper does not have. Without it no amount is compared.
    """

    def __init__(
        self, runs: Iterable[Run], every: Iterable[Run] = (), published: Published | None = None
    ) -> None:
        self.runs = list(runs)
        self._by_folder = {run.folder: run for run in (*every, *self.runs)}
        self._published = published
        self._whole: dict[str, bool] = {}
        self._effective: dict[tuple[str, str], set[Key]] = {}
        self._columns: dict[str, dict[Run, float]] = {}
        self._found: dict[tuple[str, str], list[Run]] = {}

    @cached_property
    def table(self) -> pandas.DataFrame:
        """Runs × metrics: one row per run with the columns of ``runs.parquet`` (:mod:`relearn.runs.record_rows`)."""
        import pandas

        columns, _ = columns_of([dict(run.record) for run in self.runs], [run.folder for run in self.runs])
        return pandas.DataFrame(columns)

    def _column(self, metric: str) -> dict[Run, float]:
        """The metric of every run that has a value for it."""
        if metric not in self._columns:
            values = self.table.get(f"metrics.{metric}", [None] * len(self.runs))
            pairs = zip(self.runs, values)
            self._columns[metric] = {run: float(one) for run, one in pairs if one is not None and one == one}
        return self._columns[metric]

    def sources(self, run: Run) -> list[Run]:
        """The run and those whose outputs it read."""
        return [run, *(self._by_folder[folder] for folder in run.sources if folder in self._by_folder)]

    def origins(self, run: Run) -> list[Run]:
        """The run, those whose outputs it read, and theirs in turn."""
        found: dict[str, Run] = {}
        waiting = [run.folder]
        while waiting:
            one = self._by_folder.get(waiting.pop())
            if one is not None and one.folder not in found:
                found[one.folder] = one
                waiting += one.sources
        return list(found.values())

    def follows(self, run: Run, protocol: Mapping[str, Any]) -> bool:
        """Whether the run and its origins are those of the paper: in the settings of ``protocol``, and in their amounts.

        A setting of ``protocol`` has, at any depth, its value or one of its values. :data:`AMOUNTS` equal those of the same run at
        scale paper; a run that scale paper does not have is not the paper's.
        """
        return all(
            value in (wanted if isinstance(wanted, list) else [wanted])
            for one in (self.origins(run) if protocol else ())
            for key, wanted in protocol.items()
            for value in under(one.settings, key)
        ) and (self._published is None or all(map(self._full, self.origins(run))))

    def _full(self, run: Run) -> bool:
        """Whether the run has the published amounts, as far as both it and the same run at scale paper have such a setting."""
        if run.folder not in self._whole:
            paper = self._published(run.folder) if self._published else None
            pairs = [[_plain(under(one, key)) for one in (run.settings, paper or {})] for key in AMOUNTS]
            self._whole[run.folder] = paper is not None and all(
                here == there for here, there in pairs if here and there
            )
        return self._whole[run.folder]

    def published_networks(self, run: Run) -> list[Mapping[str, Any]]:
        """The setting ``network`` of the same run at scale paper; where that has none, of the other runs of the named network."""
        own = (self._published(run.folder) or {}).get("network") if self._published else None
        return [own] if own else self._published_by_name.get(run.settings["network"].get("name"), [])

    @cached_property
    def _published_by_name(self) -> dict[Any, list[Mapping[str, Any]]]:
        found: dict[Any, list[Mapping[str, Any]]] = {}
        published = self._published
        for run in self._by_folder.values() if published else ():
            given = run.settings.get("network")
            whole = (published(run.folder) or {}).get("network") if published else None
            if isinstance(given, Mapping) and isinstance(whole, Mapping):
                found.setdefault(given.get("name"), []).append(whole)
        return found

    def of(self, name: str, *filters: Where) -> list[Run]:
        """The runs that measure this quantity, including diverged ones; a table, its coverage and claims ask for the same cells."""
        step = quantity(name).step
        asked = (step, repr(filters))
        if asked not in self._found:
            self._found[asked] = select(self._by_step.get(step, ()), *filters)
        return list(self._found[asked])

    @cached_property
    def _by_step(self) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.step, []).append(run)
        return found

    def trials(self, name: str, *filters: Where, sweep: bool = False) -> list[Trial]:
        """The quantity for every trial, from runs that did not diverge unless the quantity is a metric.

        Args:
            name: as for ``quantity``.
            filters: filters that the runs must match.
            sweep: every k and every class size instead of the chosen one.

        Raises:
            ValueError: naming the run, if its trials.csv lacks a column or has a cell that is not a number.
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
        """One trial per run with a value, whatever its outcome; ``victim`` names its seed."""
        measured = kind.of_run or self._column(kind.metric or "").get
        values = [(run, measured(run)) for run in runs]
        return [
            Trial(f"seed{run.seed}", run.seed, 0, None, float(value), run.folder)
            for run, value in values
            if value is not None
        ]

    def effective(self, setting: str, attack: str) -> set[Key]:
        """The (victim, seed, target) for which this attack succeeds without a defence in this setting and its control does not."""
        if (setting, attack) not in self._effective:
            undefended = {"setting": setting, "attack": attack, "defence": "none"}
            trials = self.trials("attack_success", undefended)
            natural = {trial.key for trial in self.trials("control_success", undefended) if trial.value}
            self._effective[setting, attack] = {trial.key for trial in trials if trial.value} - natural
        return self._effective[setting, attack]

    def _effective_for(self, run: Run) -> set[Key]:
        setting = run.labels["setting"]
        # the imbalance study starts from the attacks that succeed on the balanced set, as the public code does
        return self.effective("transfer" if setting == "imbalance" else setting, run.labels["attack"])


def _plain(values: Iterable[Any]) -> list[Any]:
    """The values, sequences as lists: a record has no tuples."""
    return [list(value) if isinstance(value, tuple) else value for value in values]


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
