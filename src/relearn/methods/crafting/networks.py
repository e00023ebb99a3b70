"""Substitutes in use: evaluation mode, no weight gradients, Dropout on or off, own random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

DROPOUT_LAYERS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)


@contextmanager
def frozen(networks: Sequence[nn.Module]) -> Iterator[None]:
    """Networks in evaluation mode and without weight gradients; modes and flags are put back afterwards."""
    flags = [(parameter, parameter.requires_grad) for net in networks for parameter in net.parameters()]
    with _modes_kept(networks):
        try:
            for net in networks:
                net.eval().requires_grad_(False)
            yield
        finally:
            for parameter, flag in flags:
                parameter.requires_grad_(flag)


@contextmanager
def dropout_active(net: nn.Module, active: bool) -> Iterator[None]:
    """Dropout layers on or off, whatever mode the rest of the network is in; put back afterwards.

    Only Dropout modules are switched: a network that calls the function in its `forward` escapes this.
    """
    with _modes_kept([net]):
        for module in net.modules():
            if isinstance(module, DROPOUT_LAYERS):
                module.training = active
        yield


def has_dropout(net: nn.Module) -> bool:
    """Whether a Dropout layer of the network would draw anything."""
    return any(isinstance(module, DROPOUT_LAYERS) and module.p > 0 for module in net.modules())


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """The global random state of the CPU and of `device` set to a seed, and put back afterwards."""
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
    """What `random_state` gave, put back."""
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1], device)


@contextmanager
def _modes_kept(networks: Sequence[nn.Module]) -> Iterator[None]:
    modes = [(module, module.training) for net in networks for module in net.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
