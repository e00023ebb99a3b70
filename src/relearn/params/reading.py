"""Read, overlay and validate params.yaml: one reader for the Snakefile, the command line and DVC.

``scale: mini`` uses params.yaml as it is. Any other scale lays ``params/<scale>.yaml`` over it: mappings
merge, lists and scalars replace. All faults are reported at once, one per line, with file, line, key
path, what was found and what is allowed. Pydantic is imported only inside ``load``, because a machine that runs
single steps does not need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.params import SCALES as SCALES
from relearn.params import messages as faults
from relearn.params.strict_yaml import KeyPath, Problem, Source, read

if TYPE_CHECKING:
    from relearn.params.types import Section

MACHINE_KEYS = ("scale", "device", "precision", "mirror", "minutes")
PRECISIONS = ("fp32", "bf16")
DEVICE = re.compile(r"auto|cpu|cuda(:(0|[1-9][0-9]*))?")


class ParamsError(ValueError):
    """Parameters that cannot be run; ``problems`` holds one line for each fault."""

    def __init__(self, problems: Iterable[object]) -> None:
        self.problems = [str(problem) for problem in problems]
        super().__init__("\n".join(self.problems))


def load(
    path: str | Path = "params.yaml",
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    model: type[Section],
) -> dict[str, Any]:
    """The parameters in force, every value explicit.

    Args:
        path: the parameter file; overlays are in ``params/`` next to it.
        scale: one of SCALES; None takes the file's own ``scale``.
        overrides: values laid over both, nested as in the file (for tests and tools).
        model: the schema of the whole file.

    Raises:
        ParamsError: with one line for every fault of the files and the values.
    """
    base, overlay, scale, problems = _sources(path, scale)
    top = Source("override", values=dict(overrides or {}))
    merged = _laid_over(_laid_over(base.values, overlay.values), top.values)
    if scale in SCALES:
        merged["scale"] = scale
    settled: dict[str, Any] = {}
    if base.values:
        settled, found = faults.check(merged, model)
        reported = {(problem.file, problem.path) for problem in problems}
        for key, text, missing in found:
            layers = [base, overlay, top] if missing else [top, overlay, base]
            problem = Problem(*_place(key[:-1] if missing else key, layers), key, text)
            if (problem.file, key) not in reported:
                problems.append(problem)
    if problems:
        rank = {base.file: 0, overlay.file: 1}
        places = [(rank.get(problem.file, 2), problem.line) for problem in problems]
        raise ParamsError(problems[at] for at in sorted(range(len(problems)), key=places.__getitem__))
    return settled


def overlay_file(path: str | Path, scale: str) -> Path | None:
    """The file that ``scale`` lays over ``path``; None for mini."""
    return None if scale == "mini" else Path(path).parent / "params" / f"{scale}.yaml"


def hidden_by_overlay(path: str | Path = "params.yaml", scale: str | None = None) -> list[str]:
    """Key paths whose value in ``path`` is overridden by a different value of the overlay."""
    base, overlay, _, problems = _sources(path, scale)
    if problems:
        raise ParamsError(problems)
    below = leaves(base.values)
    return [key for key, value in leaves(overlay.values).items() if key in below and below[key] != value]


def hidden_line(path: str | Path = "params.yaml", scale: str | None = None, most: int | None = None) -> str:
    """One line that names the values overridden by the overlay in force, at most ``most`` of them; "" if there are none."""
    keys = hidden_by_overlay(path, scale)
    if not keys:
        return ""
    chosen = scale or read(path).values["scale"]
    named = keys if most is None or len(keys) <= most else keys[:most]
    rest = f" and others (`relearn validate --scale {chosen}` names all)" if len(named) < len(keys) else ""
    return f"{overlay_file(path, chosen)} overrides {len(keys)} values of {path}: {', '.join(named)}{rest}"


def chosen_scale(given: str | None = None, path: str | Path = "params.yaml") -> str:
    """The scale that was given on the command line, or that of the file.

    Raises:
        ValueError: neither is a scale.
    """
    scale = given or read(path).values.get("scale")
    if scale not in SCALES:
        where = "--scale" if given else f"no --scale, and {path}: scale"
        raise ValueError(f"{where}: found {scale or 'nothing'}, allowed: {', '.join(SCALES)}")
    return str(scale)


def leaves(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Map dotted key paths to values, for everything that is not a mapping (a list is one value)."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{above}.{name}" if above else name
        flat.update(leaves(value, key) if isinstance(value, Mapping) else {key: value})
    return flat


def machine(config: Mapping[str, Any], path: str | Path = "params.yaml") -> dict[str, Any]:
    """The settings of Snakemake's ``--config`` that are not parameters: where, and how precisely, to compute.

    Returns device (auto, cpu, cuda or cuda:N), precision (fp32 or bf16), mirror (a folder, or None) and minutes (the longest
    time that a job may request, or None).
    ``config`` may contain a parameter only with the value of the file, because DVC would not see another value.

    Raises:
        ParamsError: an unknown name, a parameter changed on the command line, or a value that is not allowed.
    """
    values: dict[str, Any] = {"device": "auto", "precision": "fp32", "mirror": None, "minutes": None}
    problems = []
    in_file = read(path).values
    for key, value in config.items():
        if key not in MACHINE_KEYS and key not in in_file:
            problems.append(f"--config {key}: {faults.nearest(key, MACHINE_KEYS)}")
        elif key not in MACHINE_KEYS and value != in_file[key]:
            problems.append(f"--config {key}: found values that {path} does not have, allowed: edit {path}")
        elif key in values:
            values[key] = value
    device, precision, mirror, minutes = (values[key] for key in ("device", "precision", "mirror", "minutes"))
    if not (isinstance(device, str) and DEVICE.fullmatch(device)):
        problems.append(
            f"--config device: found {faults.format_value(device)}, allowed: auto, cpu, cuda or cuda:N"
        )
    if precision not in PRECISIONS:
        allowed = ", ".join(PRECISIONS)
        problems.append(f"--config precision: found {faults.format_value(precision)}, allowed: {allowed}")
    if mirror is not None and not (isinstance(mirror, str) and mirror):
        problems.append(
            f"--config mirror: found {faults.format_value(mirror)}, allowed: the path of a folder"
        )
    if minutes is not None and (type(minutes) is not int or minutes < 1):
        problems.append(
            f"--config minutes: found {faults.format_value(minutes)}, allowed: a whole number, 1 or more"
        )
    if problems:
        raise ParamsError(problems)
    return values


def _sources(path: str | Path, scale: str | None) -> tuple[Source, Source, Any, list[Problem]]:
    """The file, the overlay in force, the scale in force, and the problems found while reading them."""
    base = read(path)
    problems: list[Problem] = list(base.problems)
    overlay = Source("overlay")
    chosen = base.values.get("scale") if scale is None else scale
    if chosen in SCALES:
        over = overlay_file(path, chosen)
        overlay = read(over) if over else overlay
        problems += overlay.problems
        if "scale" in overlay.values:
            place = (overlay.file, overlay.lines[("scale",)])
            problems.append(Problem(*place, ("scale",), f"found here, allowed: only in {base.file}"))
    elif scale is not None:
        meant = faults.guess(str(scale), SCALES)
        hint = f"; nearest: {meant}" if meant else ""
        text = f"found {faults.format_value(scale)}, allowed: {', '.join(SCALES)}{hint}"
        problems.append(Problem("scale", 0, (), text))
    return base, overlay, chosen, problems


def _laid_over(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """``high`` merged over ``low``: mappings merge, everything else replaces."""
    merged = dict(low)
    for name, value in high.items():
        below = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = _laid_over(below or {}, value) if both else value
    return merged


def _place(path: KeyPath, layers: list[Source]) -> tuple[str, int]:
    """File and line of the first layer that has the key, or else of its nearest ancestor."""
    for end in range(len(path), -1, -1):
        for layer in layers:
            if path[:end] in layer.lines:
                return layer.file, layer.lines[path[:end]]
            if end and _holds(layer, path[:end]):
                return layer.file, 0
    return layers[-1].file, 0


def _holds(layer: Source, path: KeyPath) -> bool:
    value: Any = layer.values
    for part in path:
        if not (isinstance(value, Mapping) and part in value):
            return isinstance(value, list) and part in range(len(value))
        value = value[part]
    return True
