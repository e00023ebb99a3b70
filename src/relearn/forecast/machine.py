"""The speed of a machine: measured here once, or from a GPU's published peak; both are stored in files.

.. math:: t = c_f / C + p_f / P + b / W + n / N

is the time in seconds for :math:`c_f` operations in convolutions, :math:`p_f` in matrix products, :math:`b` bytes moved and
:math:`n` calls, on a machine that does C, P, W and N of these per second. With ``bf16``, C and P are those of bfloat16; the rest
does not change, because autocast keeps sums, norms and weights in single precision. The model assumes that nothing overlaps. Its
errors are corrected by :mod:`relearn.forecast.correction`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from relearn.forecast.amount import Amount
from relearn.runs.atomic_files import write
from relearn.runs.node.machine import cores as own_cores
from relearn.runs.record_file import RecordError

SHIPPED = Path(__file__).with_name("machines.json")
REMEDY = "`relearn plan --calibrate` rewrites it"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Rates of one processor core, or of one GPU.

    Args:
        name: of the processor or GPU.
        convolutions, products: floating point operations per second.
        bandwidth: bytes per second.
        calls: operations started per second.
        start_s: seconds from the command to the first line of a job.
        cores: processor cores that jobs may use.
        gpus: GPUs that jobs may use; 0: jobs run on the cores.
        jobs_per_device: jobs that share a GPU.
        source: where the numbers come from.
        spread: factor by which real times may differ from these rates either way, if no record corrects them.
        bf16_convolutions, bf16_products: floating point operations per second in bfloat16; 0: as in single precision.
        precision: ``fp32`` or ``bf16``, in which the jobs run.
    """

    name: str
    convolutions: float
    products: float
    bandwidth: float
    calls: float
    start_s: float
    cores: int = 1
    gpus: int = 0
    jobs_per_device: int = 1
    source: str = ""
    spread: float = 3.0
    bf16_convolutions: float = 0.0
    bf16_products: float = 0.0
    precision: str = "fp32"

    def at(self, precision: str) -> Machine:
        """The same machine with its jobs in this precision."""
        return self if precision == self.precision else replace(self, precision=precision)

    @property
    def at_once(self) -> int:
        """Jobs that run side by side: on the GPUs if there are any, otherwise one a core."""
        return self.gpus * self.jobs_per_device or self.cores

    def device_share(self, amount: Amount) -> float:
        """Share of a job's seconds in which the GPU computes or moves bytes, rather than waiting for the host; 0 on a processor."""
        *device, _, _ = terms = self.terms(amount)
        return sum(device) / (sum(terms) or 1.0) if self.gpus else 0.0

    def terms(self, amount: Amount) -> tuple[float, float, float, float, float]:
        """Seconds for convolutions, matrix products, bytes moved, calls, and one start."""
        half = self.precision == "bf16"
        return (
            amount.convolutions / ((half and self.bf16_convolutions) or self.convolutions),
            amount.products / ((half and self.bf16_products) or self.products),
            amount.moved / self.bandwidth,
            amount.calls / self.calls,
            self.start_s,
        )


def own_file() -> Path:
    """The file with the calibration of this machine."""
    from relearn.data.cache import cache_folder

    return cache_folder() / "forecast" / "machine.json"


def keep(machine: Machine, path: Path | None = None) -> Path:
    """Save a calibration for later forecasts."""
    path = path or own_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, f"{json.dumps(asdict(machine), indent=1)}\n".encode())
    return path


def this_machine(cores: int | None = None) -> Machine:
    """This machine as calibrated; if it was not, the shipped processor of its name, or the reference processor (see ``source``).

    Raises:
        RecordError: the file with the calibration is damaged.
    """
    from relearn.runs import provenance

    path = own_file()
    if path.is_file():
        found = _machine(_json(path), path)
        for one in fields(Machine):
            _check(one, getattr(found, one.name), path)
    else:
        found = processor(str(provenance.machine("cpu", "fp32", 1)["cpu"]))
    return replace(found, cores=cores or own_cores())


@cache
def processor(name: str) -> Machine:
    """The shipped processor of this name, else the one of this model with other instructions, else the reference processor."""
    known = [one for one in (_machine(values, SHIPPED) for values in _json(SHIPPED).values()) if not one.gpus]
    models = [
        name,
        name.partition(", ")[0],
    ]  # the name ends with the vector instructions, see provenance.VECTORS
    return next((one for model in models for one in known if one.name == model), device("cpu"))


def device(name: str) -> Machine:
    """A GPU with rates from its published peak, or the reference processor.

    Raises:
        ValueError: unknown device.
    """
    known = _json(SHIPPED)
    if name not in known:
        raise ValueError(f"--device: found {name}, allowed: {', '.join(known)}")
    found = _machine(known[name], SHIPPED)
    if not found.gpus:
        return found
    host = this_machine()  # a processor like it starts the operations
    source = f"{found.source}; operations started as fast as by {host.name} ({host.source})"
    return replace(found, calls=host.calls, source=source)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, RecursionError, ValueError) as error:
        raise RecordError(f"{path}: {error}; {REMEDY}") from None


def _machine(values: Any, path: Path) -> Machine:
    if not isinstance(values, Mapping):
        raise RecordError(f"{path}: found {values!r:.60}, allowed: a mapping; {REMEDY}")
    known = {one.name for one in fields(Machine)}
    try:
        return Machine(**{key: value for key, value in values.items() if key in known})
    except TypeError as error:
        raise RecordError(f"{path}: {error}; {REMEDY}") from None


def _check(one: Field[Any], value: Any, path: Path) -> None:
    """Check one value of a calibration: rates divide, so none may be 0; what is 0 by default may be."""
    if one.type == "str":
        sound, allowed = isinstance(value, str), "text"
    else:
        number = isinstance(value, (int, float) if one.type == "float" else int) and not isinstance(
            value, bool
        )
        low = one.default == 0
        sound = number and value < math.inf and (value >= 0 if low else value > 0)
        allowed = f"a {'whole ' * (one.type == 'int')}number {'from' if low else 'above'} 0"
    if not sound:
        raise RecordError(f"{path}: {one.name} is {value!r:.60}, allowed: {allowed}; {REMEDY}")
