"""Contexts to evaluate a network in training mode, but without dropout and without changing its state; random states."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm


@contextlib.contextmanager
def preserve_state(model: nn.Module, seed: int) -> Iterator[None]:
    """Context in which every module is in eval mode (so dropout is off), except batch normalisation, which uses batch statistics without
    updating its running ones. torch's global generators are seeded with ``seed``, for networks that draw random numbers in ``forward``.
    Modes and random states are restored afterwards, even after an error.
    """
    modes = [(module, module.training) for module in model.modules()]
    norms = [module for module in model.modules() if isinstance(module, (_BatchNorm, _InstanceNorm))]
    tracks = [module.track_running_stats for module in norms]
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        try:
            model.eval()
            for norm in norms:
                # torch passes running statistics to the layer only if they are tracked or used.
                norm.training, norm.track_running_stats = True, False
            yield
        finally:
            for norm, track in zip(norms, tracks):
                norm.track_running_stats = track
            for module, mode in modes:
                module.training = mode


def random_state(device: torch.device) -> dict[str, Tensor]:
    """States of torch's global generators of the CPU and of ``device``."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states from :func:`random_state`."""
    torch.set_rng_state(state["cpu"].cpu())
    if device.type == "cuda" and "device" in state:
        torch.cuda.set_rng_state(state["device"].cpu(), device)


def double_backward() -> contextlib.AbstractContextManager[None]:
    """Context in which attention uses plain matrix products, because torch's fused kernels cannot be differentiated twice."""
    return sdpa_kernel(SDPBackend.MATH)
