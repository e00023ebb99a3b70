"""Where a key of params.yaml is set at a given scale: the file and line to edit."""

from __future__ import annotations

from pathlib import Path

from relearn.params.reading import ParamsError, overlay_file
from relearn.params.strict_yaml import read


def place(key: str, path: str | Path = "params.yaml", scale: str = "mini") -> str:
    """``params.yaml:12 (gradinit.seeds)``; for a key that the overlay of the scale lacks, the place where it has to be added.

    Files are named relative to the folder of ``path``, so that a rendered page contains no absolute path.

    Args:
        key: dotted key path.
        path: the parameter file; overlays are in ``params/`` next to it.
        scale: one of the scales.

    Raises:
        ParamsError: neither file has the key.
    """
    wanted = tuple(key.split("."))
    base, over = read(path), overlay_file(path, scale)
    if wanted not in base.lines:
        raise ParamsError([f"{key}: unknown, allowed: a key of {path}"])
    here = f"{Path(path).name}:{base.lines[wanted]}"
    if over is None:
        return f"{here} ({key})"
    overlay, name = read(over), over.relative_to(Path(path).parent).as_posix()
    if wanted in overlay.lines:
        return f"{name}:{overlay.lines[wanted]} ({key})"
    above = (wanted[:end] for end in range(len(wanted) - 1, 0, -1))
    line = next((f":{overlay.lines[keys]}" for keys in above if keys in overlay.lines), "")
    return f"{name}{line} (add {key}, which {here} sets)"
