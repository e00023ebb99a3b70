r"""Forecasts of job durations: a cost model corrected by past runs.

If a run with the same settings has been made, its time is the forecast. Otherwise the model's seconds m are multiplied by a
ratio of sums over records of the same kind,

.. math:: r = \sum_i y_i / \sum_i m_i

over this scale if it has at least :data:`ENOUGH` records, otherwise over all scales. Without records of the kind, those of the
step in its study are used, then those of the step in any study. A step without a formula gets the mean of its records.

The range of one job is :math:`r\,m\,e^{\pm 1.28 s}`, where s is the standard deviation of :math:`\log(y_i / m_i)`, larger if there are
few records and at least :data:`FLOOR`. The errors of n jobs average out except for a shared part: s² becomes s²/n + t², with t =
:data:`SHARED` for records of this scale and :data:`ELSEWHERE` for those of other scales. A machine without records, such as a GPU,
uses its own rates and the ratios of the kinds of work: whatever a formula omits, it omits on every machine. The same holds for another
precision. A mean over runs of another scale, whose jobs have another size, has t = :data:`ANOTHER_SIZE`, a factor of ten.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from relearn.forecast.amount import Amount
from relearn.forecast.evidence import Row
from relearn.forecast.machine import Machine

ENOUGH = 3
FLOOR, SHARED, ELSEWHERE = 0.10, 0.15, 0.40
QUANTILE = 1.28
"""Of the normal distribution: four runs of five lie within."""
ANOTHER_SIZE = math.log(10) / QUANTILE


class Forecast(NamedTuple):
    """CPU or device seconds of one job.

    Attributes:
        seconds: the forecast.
        spread: standard deviation of its logarithm that is independent between jobs.
        shared: the part shared by the jobs of its step.
        basis: its source: ``run``, ``scale``, ``other scales``, ``mean`` (for a step without a formula) or ``model``.
    """

    seconds: float
    spread: float
    shared: float
    basis: str


class Ratio(NamedTuple):
    value: float
    spread: float
    shared: float
    basis: str


class Correction:
    """The corrected model of one machine and scale.

    Args:
        machine: the machine with its rates.
        efficiencies: factors of its five terms, and a further one for convolutions and products in bfloat16.
        rows: the runs used as evidence.
        scale: scale of the forecast jobs.
        own: further runs, made on ``machine``.
        made_on: the machine, with its rates, on which one of ``rows`` was made; None: ``machine``.
        same_runs: whether a run with the same settings is its own forecast.
    """

    def __init__(
        self,
        machine: Machine,
        efficiencies: Sequence[float],
        rows: Iterable[Row],
        scale: str,
        *,
        own: Iterable[Row] = (),
        made_on: Callable[[Row], Machine] | None = None,
        same_runs: bool = True,
    ) -> None:
        self.machine, self.efficiencies, self.scale = machine, efficiencies, scale
        self.rows = [(row, (made_on(row) if made_on else machine).at(row.precision)) for row in rows]
        self.rows += [(row, machine.at(row.precision)) for row in own]
        self.made = (
            {row.run: (row, made_on) for row, made_on in self.rows} if same_runs and not machine.gpus else {}
        )
        self.ratios = self._ratios()
        self.means = self._means()
        self.memory: dict[tuple[str, str, str], float] = defaultdict(float)
        for row, _ in self.rows:
            key = row.scale, row.study, row.step
            self.memory[key] = max(self.memory[key], row.memory_mb)

    def model(self, amount: Amount, machine: Machine | None = None) -> float:
        """Seconds by the model, without correction."""
        machine = machine or self.machine
        *factors, half = (1.0,) * 6 if machine.gpus else self.efficiencies
        if machine.precision == "bf16":
            factors[:2] = [half * factor for factor in factors[:2]]
        return sum(factor * term for factor, term in zip(factors, machine.terms(amount), strict=True))

    def of(self, study: str, step: str, kind: str, run: str, amount: Amount | None) -> Forecast | None:
        """The forecast of one job; None if nothing is known about its step."""
        if run in self.made:
            row, made_on = self.made[run]
            moved = self.model(amount) / self.model(amount, made_on) if amount is not None else 1.0
            shared = SHARED if made_on.precision == self.machine.precision else ELSEWHERE
            return Forecast(moved * row.cpu_s, FLOOR, shared, "run")
        ratio = self._ratio(study, step, kind)
        if amount is not None:
            shared = self._unknown if self.machine.gpus else ratio.shared
            return Forecast(ratio.value * self.model(amount), ratio.spread, shared, ratio.basis)
        for scale in (self.scale, ""):
            if found := self.means.get((scale, study, step)):
                return Forecast(*found, SHARED if scale else ANOTHER_SIZE, "scale" if scale else "mean")
        return None

    def _ratio(self, study: str, step: str, kind: str) -> Ratio:
        keys = [(study, step, kind), (study, step), (step,)]
        for key in keys:
            for scale in (self.scale, ""):
                if ratio := self.ratios.get((scale, *key)):
                    return ratio
        return Ratio(1.0, self._unknown, self._unknown, "model")

    @property
    def _unknown(self) -> float:
        """The standard deviation of the logarithm for a forecast without any records."""
        return math.log(self.machine.spread) / QUANTILE

    def _ratios(self) -> dict[tuple[str, ...], Ratio]:
        pairs: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
        for row, made_on in self.rows:
            if row.amount is None or row.cpu_s <= 0:
                continue
            pair = row.cpu_s, self.model(row.amount, made_on)
            for key in ((row.study, row.step, row.kind), (row.study, row.step), (row.step,)):
                pairs[("", *key)].append(pair)
                if row.scale == self.scale:
                    pairs[(row.scale, *key)].append(pair)
        return {
            key: _ratio_of(found, bool(key[0]))
            for key, found in pairs.items()
            if len(found) >= ENOUGH or not key[0]
        }

    def _means(self) -> dict[tuple[str, str, str], tuple[float, float]]:
        found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for row, _ in self.rows:
            if row.cpu_s > 0:
                found[("", row.study, row.step)].append(row.cpu_s)
                if row.scale == self.scale:
                    found[(row.scale, row.study, row.step)].append(row.cpu_s)
        return {key: (statistics.fmean(many), _log_spread(many)) for key, many in found.items()}


def _ratio_of(pairs: Sequence[tuple[float, float]], here: bool) -> Ratio:
    value = sum(measured for measured, _ in pairs) / sum(model for _, model in pairs)
    spread = _log_spread([measured / model for measured, model in pairs])
    return Ratio(value, spread, SHARED if here else ELSEWHERE, "scale" if here else "other scales")


def _log_spread(values: Sequence[float]) -> float:
    r"""Standard deviation s of the logarithms of n values, as a range that is to contain a further one in four of five cases needs it.

    Student's :math:`s\,t_{0.9,n-1}\sqrt{1 + 1/n}` over the normal quantile: 1.7 s for three values, nearly s for many. The quantile is the
    series in 1 / (n - 1) of Fisher and Cornish, within 4%, because SciPy takes longer to import than the plan to make.
    """
    logs, n, z = [math.log(value) for value in values], len(values), QUANTILE
    if n < 2:
        return ELSEWHERE
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    student = z + sum(term / (n - 1) ** power for power, term in enumerate(terms, 1))
    return max(FLOOR, statistics.stdev(logs) * student * math.sqrt(1 + 1 / n) / z)


def total(forecasts: Iterable[Forecast]) -> tuple[float, float, float]:
    """The sum of the forecasts, with its low and high end."""
    many = list(forecasts)
    middle = sum(one.seconds for one in many)
    if not middle:
        return 0.0, 0.0, 0.0
    own = math.sqrt(sum((one.seconds * one.spread) ** 2 for one in many)) / middle
    shared = sum(one.seconds * one.shared for one in many) / middle
    factor = math.exp(QUANTILE * math.hypot(own, shared))
    return middle, middle / factor, middle * factor
