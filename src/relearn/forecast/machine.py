"""How fast a machine is: measured here once, or a GPU's published peak; both are files of numbers.

.. math:: t = c_f / C + p_f / P + b / W + n / N

The seconds of a piece of work with :math:`c_f` operations in convolutions, :math:`p_f` in products of matrices, :math:`b`
bytes moved and :math:`n` calls, on a machine that does C, P, W and N of these a second. Nothing overlaps. What is wrong with
this is the business of :mod:`relearn.forecast.correction`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from relearn.forecast.amount import Amount
from relearn.runs.atomic_files import write

SHIPPED = Path(__file__).with_name("machines.json")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Rates of one processor core, or of one GPU.

    Args:
        name: of the processor or GPU.
        convolutions, products: floating point operations a second.
        bandwidth: bytes a second.
        calls: operations started a second.
        start_s: seconds from the command to the first line of a job.
        cores: processor cores that jobs may use.
        gpus: GPUs that jobs may use; 0: jobs run on the cores.
        source: where the numbers come from.
        spread: factor by which work may take longer or shorter than by these rates, where no record corrects them.
    """

    name: str
    convolutions: float
    products: float
    bandwidth: float
    calls: float
    start_s: float
    cores: int = 1
    gpus: int = 0
    source: str = ""
    spread: float = 3.0

    def terms(self, amount: Amount) -> tuple[float, float, float, float, float]:
        """Seconds by rate: convolutions, products, bytes, calls, and one start."""
        return (
            amount.convolutions / self.convolutions,
            amount.products / self.products,
            amount.moved / self.bandwidth,
            amount.calls / self.calls,
            self.start_s,
        )


def own_file() -> Path:
    """Where the calibration of this machine is kept."""
    from relearn.data.cache import cache_folder

    return cache_folder() / "forecast" / "machine.json"


def keep(machine: Machine, path: Path | None = None) -> Path:
    """Write a calibration for the next forecasts."""
    path = path or own_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, f"{json.dumps(asdict(machine), indent=1)}\n".encode())
    return path


def this_machine(cores: int | None = None) -> Machine:
    """This machine as it was calibrated; the reference processor where it was not, which ``source`` then says."""
    path = own_file()
    found = _machine(_json(path), path) if path.is_file() else device("cpu")
    return replace(found, cores=cores or processors())


def device(name: str) -> Machine:
    """A GPU by its published peak, or the reference processor.

    Raises:
        ValueError: no such device.
    """
    known = _json(SHIPPED)
    if name not in known:
        raise ValueError(f"--device: found {name}, allowed: {', '.join(known)}")
    found = _machine(known[name], SHIPPED)
    return (
        replace(found, calls=this_machine().calls) if found.gpus else found
    )  # a processor like this one starts the operations


def processors() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}; `relearn plan --calibrate` writes it anew") from None


def _machine(values: Mapping[str, Any], path: Path) -> Machine:
    known = {one.name for one in fields(Machine)}
    try:
        return Machine(**{key: value for key, value in values.items() if key in known})
    except TypeError as error:
        raise ValueError(f"{path}: {error}; `relearn plan --calibrate` writes it anew") from None
