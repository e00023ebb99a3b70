"""Contexts for the substitutes: eval mode, no weight gradients, dropout on or off, separate random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from relearn.maths.eval_mode import modes_kept

DROPOUT_LAYERS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)


@contextmanager
def dropout_active(net: nn.Module, active: bool) -> Iterator[None]:
    """Context with dropout layers on or off, whatever the mode of the rest of the network; restored afterwards.

    Only dropout modules are switched; a functional call in `forward` is not affected.
    """
    with modes_kept(net):
        for module in net.modules():
            if isinstance(module, DROPOUT_LAYERS):
                module.training = active
        yield


class OffDropout(TorchFunctionMode):
    """Context that notes in ``seen`` whether a dropout function with p > 0 is called with ``training=False``."""

    seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.seen |= kwargs.get("training") is False and kwargs.get("p", 0) > 0
        return func(*args, **kwargs)


def has_dropout(net: nn.Module) -> bool:
    """Whether any dropout layer of the network would draw a mask."""
    return any(isinstance(module, DROPOUT_LAYERS) and module.p > 0 for module in net.modules())


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Context with the global random state of the CPU and of `device` seeded; restored afterwards."""
    indices = []
    if device.type == "cuda":
        indices = [torch.cuda.current_device() if device.index is None else device.index]
    with torch.random.fork_rng(devices=indices):
        torch.default_generator.manual_seed(seed)
        for index in indices:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield


def random_state(device: torch.device) -> list[Tensor]:
    """The global random state of the CPU and of `device`."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def set_random_state(device: torch.device, states: Sequence[Tensor]) -> None:
    """Restore the state from `random_state`."""
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1], device)
