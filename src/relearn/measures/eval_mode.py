"""A context in which a network is evaluated and after which every module is in its own mode again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def eval_mode(net: Any) -> Iterator[None]:
    """Put a network in eval mode; afterwards, even after an error, every module has the mode that it had before."""
    modes = [(module, module.training) for module in net.modules()]
    try:
        net.eval()
        yield
    finally:
        for module, mode in modes:
            module.training = mode
