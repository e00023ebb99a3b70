"""Contexts to evaluate a network in training mode, but without dropout and without changing its state; random states."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from relearn.maths.eval_mode import batch_statistics


@contextlib.contextmanager
def preserve_state(model: nn.Module, seed: int) -> Iterator[None]:
    """Context in which every module is in eval mode (so dropout is off), except batch normalisation, which uses batch statistics without
    updating its running ones. torch's global generators are seeded with ``seed``, for networks that draw random numbers in ``forward``.
    Modes and random states are restored afterwards, even after an error.
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices), batch_statistics(model):
        torch.manual_seed(seed)
        yield


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


@contextlib.contextmanager
def double_backward() -> Iterator[None]:
    """Context in which a network can be differentiated twice.

    Attention uses plain matrix products, because torch's fused kernels have no second derivative. ``torch.compile`` runs the original
    code: a compiled graph computes gradients without one, too. Activation checkpointing is off: it would repeat the forward pass during
    the backward one, when the network has its own weights again instead of the rescaled ones.
    """
    with sdpa_kernel(SDPBackend.MATH), torch.compiler.set_stance("force_eager"), _without_checkpoints():
        yield


class _AtOnce:
    """In the place of torch's reentrant checkpoint."""

    @staticmethod
    def apply(function: Callable[..., Any], _preserve: bool, *inputs: Any) -> Any:
        return function(*inputs)


def _no_hooks(*_: Any, **__: Any) -> Iterator[None]:
    """In the place of torch's other checkpoint: what it does before and after the forward pass."""
    yield


@contextlib.contextmanager
def _without_checkpoints() -> Iterator[None]:
    ours = {"CheckpointFunction": _AtOnce, "_checkpoint_without_reentrant_generator": _no_hooks}
    theirs = {name: getattr(torch.utils.checkpoint, name) for name in ours}
    try:
        for name, one in ours.items():
            setattr(torch.utils.checkpoint, name, one)
        yield
    finally:
        for name, one in theirs.items():
            setattr(torch.utils.checkpoint, name, one)
