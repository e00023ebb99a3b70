"""Contexts in which networks are evaluated; afterwards, even after an error, every mode and flag is what it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm


@contextmanager
def modes_kept(*networks: Any) -> Iterator[None]:
    """Restore the mode of every module afterwards."""
    modes = [(module, module.training) for net in networks for module in net.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def eval_mode(*networks: Any) -> Iterator[None]:
    """Put networks in eval mode."""
    with modes_kept(*networks):
        for net in networks:
            net.eval()
        yield


@contextmanager
def frozen(*networks: Any) -> Iterator[None]:
    """Put networks in eval mode, without gradients of their parameters."""
    flags = [(parameter, parameter.requires_grad) for net in networks for parameter in net.parameters()]
    with eval_mode(*networks):
        try:
            for net in networks:
                net.requires_grad_(False)
            yield
        finally:
            for parameter, flag in flags:
                parameter.requires_grad_(flag)


@contextmanager
def batch_statistics(model: nn.Module) -> Iterator[None]:
    """Put all modules in eval mode, but let batch and instance norms use statistics of the batch; running ones do not change."""
    norms = [one for one in model.modules() if isinstance(one, (_BatchNorm, _InstanceNorm))]
    tracking = [norm.track_running_stats for norm in norms]
    with eval_mode(model):
        try:
            for norm in norms:
                # torch passes running statistics to the layer only if they are tracked or used.
                norm.training, norm.track_running_stats = True, False
            yield
        finally:
            for norm, kept in zip(norms, tracking):
                norm.track_running_stats = kept
