"""Names in MLflow: experiments, runs, metrics, and tags with several entries. Standard library only.

Metric names are uniform across studies and end in their unit. Some metrics of the records are renamed in MLflow:

==============================  ==========================================================================
in the record                   in MLflow
==============================  ==========================================================================
acc_frac, accfinal_frac         test_accuracy_frac
accbest_frac                    test_accuracy_best_frac
acc1_frac                       test_accuracy_first_epoch_frac
last_acc_frac                   test_accuracy_last_frac (of the last network, if the best one is kept)
…_acc_frac                      …_accuracy_frac
loss_first_nats                 train_loss_first_nats
nll_nats                        test_loss_nats
…_nll_…                         …_loss_…
wall_s, cpu_s, device_s         system/wall_s, system/cpu_s, system/device_s
epoch_s, step_s, load_s         system/epoch_s, system/step_s, system/load_s
peak_memory_bytes               system/peak_memory_mb (10^6 bytes)
==============================  ==========================================================================

Units: ``_frac`` fraction in [0, 1], ``_nats``, ``_bpc`` bits per character, ``_s`` seconds, ``_mb``, ``_count``, ``_ratio``. Names
without a suffix have no unit (``loss`` is the objective that a run minimises, ``lr`` the learning rate, ``bleu_best`` a score).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

PREFIX = "mlflow.relearn."  # of the tags with the state of an import; MLflow's pages hide tags in "mlflow."
END = ";"  # after each entry of a multi-entry tag, so that '%table 4.1;%' does not match table 4.10

SPELLED = {
    "acc_frac": "test_accuracy_frac",
    "accfinal_frac": "test_accuracy_frac",
    "accbest_frac": "test_accuracy_best_frac",
    "acc1_frac": "test_accuracy_first_epoch_frac",
    "last_acc_frac": "test_accuracy_last_frac",
    "loss_first_nats": "train_loss_first_nats",
    "nll_nats": "test_loss_nats",
    "peak_memory_bytes": "system/peak_memory_mb",
    **{f"{name}_s": f"system/{name}_s" for name in ("wall", "cpu", "device", "epoch", "step", "load")},
}
UNITS = {
    "fraction": "frac",
    "fraction of cases that fail": "failing_frac",
    "none": "",
    "megabytes": "mb",
    "seconds": "s",
    "images_per_second": "images_per_s",
    "l2_norm": "norm",
}  # suffixes for the units of tables and claims; any other unit is its own suffix
PARTS = {"acc": "accuracy", "nll": "loss"}
FACTORS = {"peak_memory_bytes": 1e-6}


def metric(name: str, others: Iterable[str] = ()) -> str:
    """MLflow's name for a metric; the original name if the new one is already the name of another metric of the run.

    Args:
        name: in the record or the spool.
        others: the names of all metrics of the run.
    """
    new = SPELLED.get(name) or "_".join(PARTS.get(part, part) for part in name.split("_"))
    return name if new != name and new in others else new


def metrics(values: Mapping[str, float | None]) -> dict[str, float]:
    """A record's metrics with MLflow's names and units; metrics without a value are left out."""
    found = {name: float(value) for name, value in values.items() if value is not None}
    new = distinct(values)
    return {new[name]: value * FACTORS.get(name, 1.0) for name, value in found.items()}


def distinct(names: Iterable[str]) -> dict[str, str]:
    """MLflow's name for each metric of a run; of two that would get the same one, the later keeps its original name."""
    every = list(dict.fromkeys(names))
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in every:
        new = metric(name, every)
        found[name] = name if new in taken else new
        taken.add(found[name])
    return found


def with_unit(name: str, unit: str) -> str:
    """The name with its unit as a suffix, added only once: ``test_accuracy``, ``fraction`` → ``test_accuracy_frac``."""
    unit = unit.removesuffix("_fine")
    ending = UNITS.get(unit, unit)
    there = name in (ending, unit) or name.endswith(
        tuple(f"{mark}{one}" for mark in "_/ " for one in (ending, unit))
    )
    return allowed_name(name if not ending or there else f"{name}_{ending}")


def cells(numbers: Mapping[tuple[str, str, str, str], tuple[float, float, float | None]]) -> dict[str, float]:
    """Metrics ``measured/…``, ``published/…`` and ``deviation/…`` for table cells.

    Args:
        numbers: maps artefact, row, column and unit to the measured value, the published one, and the deviation if the table shows one.
    """
    found: dict[str, float] = {}
    for (artefact, row, column, unit), (measured, published, deviation) in numbers.items():
        name = with_unit(f"{artefact}/{row}/{column}", unit)
        found |= {f"measured/{name}": measured, f"published/{name}": published}
        found |= {} if deviation is None else {f"deviation/{name}": deviation}
    return found


def experiment(study: str, paper: str, scale: str) -> str:
    """``poisoning (mini), zhu2022``: the distinctive part comes first, since MLflow truncates the end."""
    return f"{study} ({scale}), {paper}"


def run(step: str, folder: str, labels: Mapping[str, str], seed: object) -> str:
    """``DPN92 deep_knn convex_polytope transfer seed0 train``: folder parts in reverse order, so that truncated names differ.

    Args:
        step: step of the study.
        folder: folder of the run, ``runs/<study>/<step>/transfer/convex_polytope/deep_knn/DPN92/seed0``; otherwise labels are used.
        labels: labels of the run.
        seed: seed of the run.
    """
    _, found, below = f"/{folder}".partition(f"/{step}/")
    parts = below.split("/") if found else [*labels.values()]
    return " ".join((*reversed([one for one in parts if one != f"seed{seed}"]), f"seed{seed}", step))


def join_entries(entries: Iterable[str], longest: int) -> str:
    """The entries joined to one tag value, each followed by END; entries that do not fit are left out."""
    text = ""
    for entry in entries:
        more = f"{entry}{END}"
        if len(text) + 1 + len(more) > longest:
            break
        text += f" {more}" if text else more
    return text


def allowed_name(name: str) -> str:
    """The name with every character that MLflow rejects replaced by an underscore."""
    return re.sub(r"[^\w\-. :/]", "_", name)
