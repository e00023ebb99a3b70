"""Optional compilation of networks for training and attacks; off unless the process calls :func:`use`, e.g. ``use("reduce-overhead")``.

Small networks on fast devices are limited by kernel launches. ``torch.compile`` fuses kernels, and its mode ``reduce-overhead``
replays them as CUDA graphs. The results then differ by rounding, and the dropout masks are drawn differently. Compilation is
therefore chosen per machine, like the precision, and is not part of a run's settings.
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

    Parameters, buffers and their names are unchanged, and the compiled code is discarded when the context ends; a method that the
    caller has put on the network returns. A network without the method is left alone.
    """
    mode = _chosen[0]
    if mode == OFF or not hasattr(model, method):
        yield
        return
    options: dict[str, Any] = {"backend": mode} if mode == "aot_eager" else {"mode": mode}
    own = {name: model.__dict__[name] for name in [method] if name in model.__dict__}
    model.__dict__[method] = torch.compile(getattr(model, method), **options)
    try:
        yield
    finally:
        del model.__dict__[method]
        model.__dict__.update(own)
