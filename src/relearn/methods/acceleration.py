"""Compiled networks for trainings and attacks, off unless a process asks for it: ``use("reduce-overhead")``.

A small network on a fast device waits for the launches of its kernels. ``torch.compile`` fuses them, and its mode
``reduce-overhead`` replays them as CUDA graphs. The numbers then differ by rounding, and the dropout masks are other draws, so
this is a choice of the machine and not a setting of a run, like the precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

OFF = "off"
MODES = (OFF, "default", "reduce-overhead", "max-autotune", "aot_eager")
"""Modes of ``torch.compile``; ``aot_eager`` traces without generating code and so needs no compiler (for tests)."""

_chosen = [OFF]


def use(mode: str) -> None:
    """Choose the mode of every later :func:`compiled` of this process.

    Raises:
        ValueError: an unknown mode.
    """
    if mode not in MODES:
        raise ValueError(f"compile: found {mode!r}, allowed are {', '.join(MODES)}")
    _chosen[0] = mode


@contextmanager
def compiled(model: nn.Module, method: str = "forward") -> Iterator[None]:
    """Context in which ``model(x)``, or ``model.<method>(x)``, runs compiled if :func:`use` has asked for it.

    Parameters, buffers and their names stay as they are; nothing of the compiled code outlives the context. A network without the
    method is left alone.
    """
    mode = _chosen[0]
    if mode == OFF or not hasattr(model, method):
        yield
        return
    options: dict[str, Any] = {"backend": mode} if mode == "aot_eager" else {"mode": mode}
    model.__dict__[method] = torch.compile(getattr(model, method), **options)
    try:
        yield
    finally:
        del model.__dict__[method]
