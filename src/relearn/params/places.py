"""Where a key of params.yaml is set at a scale: the file and the line to edit."""

from __future__ import annotations

from pathlib import Path

from relearn.params.reading import ParamsError, overlay_file
from relearn.params.strict_yaml import read


def place(key: str, path: str | Path = "params.yaml", scale: str = "mini") -> str:
    """``params.yaml:12 (gradinit.seeds)``; of a key that a scale's own file lacks, where it has to be added there.

    Args:
        key: dotted key path.
        path: the parameter file; overlays lie in ``params/`` beside it.
        scale: one of the scales.

    Raises:
        ParamsError: where neither file has the key.
    """
    wanted = tuple(key.split("."))
    base = read(path)
    if wanted not in base.lines:
        raise ParamsError([f"{key}: unknown, allowed: a key of {path}"])
    over = overlay_file(path, scale)
    if over is None:
        return f"{path}:{base.lines[wanted]} ({key})"
    overlay = read(over)
    if wanted in overlay.lines:
        return f"{over}:{overlay.lines[wanted]} ({key})"
    for end in range(len(wanted) - 1, 0, -1):
        if wanted[:end] in overlay.lines:
            return f"{over}:{overlay.lines[wanted[:end]]} (add {key}, which {path}:{base.lines[wanted]} sets)"
    return f"{over} (add {key}, which {path}:{base.lines[wanted]} sets)"
