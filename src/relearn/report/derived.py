"""Numbers read from a run's files or settings instead of its metrics, named ``<step>.<name>@<argument>``.

==============================  ======================================================================================
name@argument                   meaning
==============================  ======================================================================================
``millions@<metric>``           a count metric, in millions
``parameters@<model>@<input>``  parameters in millions, from counts.csv; an input is matched by the first word of its name
``counted@<column>@<row>``      a column of counts.csv in the row of this network, in millions or in 10^9 (multiply_adds)
``first@<metric>@<metric>``     the first of these metrics that the record has
``flops@<model>@<input>``       multiply-adds in 10^9, from counts.csv
``longest@<column>@<name>@<n>`` the greatest length for which cost.csv has a number, for this attention and batch size
``setting@<key>@<default>``     the number stored under this key in the settings, at any depth
``bits@<metric>``               a metric in nats, in bits
``seconds@<n>``                 seconds for n images, from a speed in images_per_s
``mce@<network>``               mce_frac, if the record's notes say that it is relative to this network
``corruption@<name>``           error under one corruption of sets.csv, averaged over its severities
``ordered@<n>``                 the n-th smallest of the errors under the 15 corruptions
==============================  ======================================================================================

An omitted argument matches anything; the value is None if there is no such number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from relearn.report.runs import Run

Of = Callable[[Run], float | None]
#: the corruptions of ImageNet-C
CORRUPTIONS = (
    *(
        "gaussian_noise",
        "shot_noise",
        "impulse_noise",
        "defocus_blur",
        "glass_blur",
        "motion_blur",
        "zoom_blur",
    ),
    *("snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression"),
)


def derived(name: str) -> Of:
    """The function that computes ``<name>@<argument>...`` from a run.

    Raises:
        ValueError: an unknown name.
    """
    kind, *arguments = name.split("@")
    if kind not in KINDS:
        raise ValueError(f"found quantity {name}, allowed: {', '.join(KINDS)} before the @")
    return partial(KINDS[kind], arguments=arguments)


def rows_of(run: Run, file: str, **wanted: str) -> list[dict[str, Any]]:
    """The rows of one of the run's CSV files that have these values, compared as strings."""
    rows = run.rows(file) if run.has(file) else []
    return [row for row in rows if all(str(row[name]) == value for name, value in wanted.items())]


def corruption_errors(run: Run) -> dict[str, float]:
    """Error fraction of each corruption, averaged over severities; from generated corruptions if present, else from ImageNet-C."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows_of(run, "sets.csv", set="corrupted") or rows_of(run, "sets.csv", set="c"):
        if row["corruption"] and row["accuracy_frac"] is not None:
            found[str(row["corruption"])].append(1 - float(row["accuracy_frac"]))
    return {name: sum(errors) / len(errors) for name, errors in found.items()}


def _millions(run: Run, arguments: list[str]) -> float | None:
    value = run.metrics.get(arguments[0])
    return None if value is None else value / 1e6


def _count(run: Run, arguments: list[str], *, column: str, over: float) -> float | None:
    model, *place = (argument.strip() for argument in arguments)
    values = [
        row[column]
        for row in rows_of(run, "counts.csv", model=model)
        if row[column] is not None and (not place or str(row["task_or_input"]).split()[:1] == place[:1])
    ]
    return float(values[0]) / over if values else None


def _of_network(run: Run, arguments: list[str]) -> float | None:
    column, network = arguments
    values = [row[column] for row in rows_of(run, "counts.csv", network=network) if row[column] is not None]
    return float(values[0]) / (1e9 if column == "multiply_adds" else 1e6) if values else None


def _first(run: Run, arguments: list[str]) -> float | None:
    return next((value for name in arguments if (value := run.metrics.get(name)) is not None), None)


def _longest(run: Run, arguments: list[str]) -> float | None:
    column, attention, batch = arguments
    rows = rows_of(run, "cost.csv", attention=attention, batch=batch)
    return max((float(row["length"]) for row in rows if row[column] is not None), default=None)


def _setting(run: Run, arguments: list[str]) -> float | None:
    key, *default = arguments
    numbers = [value for value in under(run.settings, key) if isinstance(value, int | float)]
    return next((float(value) for value in [*numbers, *default]), None)


def under(settings: Mapping[str, Any], key: str) -> Iterator[Any]:
    """The values stored under this key, at any depth."""
    for name, value in settings.items():
        if name == key:
            yield value
        if isinstance(value, Mapping):
            yield from under(value, key)


def _bits(run: Run, arguments: list[str]) -> float | None:
    value = run.metrics.get(arguments[0])
    return None if value is None else value / math.log(2)


def _seconds(run: Run, arguments: list[str]) -> float | None:
    speed = run.metrics.get("images_per_s")
    return float(arguments[0]) / speed if speed else None


def _mce(run: Run, arguments: list[str]) -> float | None:
    notes = [note for note in run.record["notes"] if note.startswith("mce_frac: ")]
    return run.metrics.get("mce_frac") if notes and f"relative to {arguments[0]}" in notes[-1] else None


def _corruption(run: Run, arguments: list[str]) -> float | None:
    return corruption_errors(run).get(arguments[0])


def _ordered(run: Run, arguments: list[str]) -> float | None:
    errors = corruption_errors(run)
    if not errors.keys() >= set(CORRUPTIONS):
        return None
    return sorted(errors[name] for name in CORRUPTIONS)[int(arguments[0]) - 1]


KINDS: dict[str, Callable[..., float | None]] = {
    "millions": _millions,
    "parameters": partial(_count, column="parameters_count", over=1e6),
    "flops": partial(_count, column="flops_count", over=1e9),
    "counted": _of_network,
    "first": _first,
    "longest": _longest,
    "setting": _setting,
    "bits": _bits,
    "seconds": _seconds,
    "mce": _mce,
    "corruption": _corruption,
    "ordered": _ordered,
}
