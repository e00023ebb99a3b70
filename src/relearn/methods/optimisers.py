"""Optimisers by name, and parameter groups for weight decay and learning rates."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

OPTIMISERS = ("sgd", "adam", "adamw", "radam")
DECAYS = ("all", "no_norm", "no_norm_no_bias", "no_vectors")
# Normalisations are recognised by type and by class name, because layers of this package and of timm derive from nn.Module.
_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
_NAMED_NORM = re.compile(r"Norm(\dd)?$")


def make_optimiser(
    model: nn.Module,
    name: str,
    *,
    lr: float,
    momentum: float = 0.9,
    nesterov: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1.0e-8,
    weight_decay: float = 0.0,
    decay: str = "all",
    lr_scale: Mapping[str, float] | None = None,
) -> torch.optim.Optimizer:
    r"""A torch optimiser over the parameters of ``model`` that require a gradient.

    ``weight_decay`` :math:`\lambda` is the L2 term :math:`g \leftarrow g + \lambda\theta` for ``sgd`` and ``adam``, and decoupled,
    :math:`\theta \leftarrow (1 - \eta\lambda)\theta`, for ``adamw`` and for ``radam``, as in the code of its authors (Liu et al. 2020).

    Args:
        eps: added to the square root of the second moment by the optimisers that have one (all but ``sgd``).
        decay, lr_scale: see :func:`parameter_groups`; every group stores its factor as ``group["lr_scale"]``.

    Raises:
        ValueError: an unknown name, no parameter to train, or an error of :func:`parameter_groups` or torch.
        RuntimeError: torch's at the first step, for sparse gradients with all but ``sgd``.
    """
    groups = parameter_groups(model, weight_decay, decay, lr_scale)
    if not groups:
        raise ValueError("model: no parameter requires a gradient (required: at least one)")
    rates: dict[str, Any] = {"lr": lr, "betas": tuple(betas), "eps": eps}
    if name == "radam":
        return torch.optim.RAdam(groups, decoupled_weight_decay=True, **rates)
    # One kernel for all tensors: on a CPU a step takes 0.2 to 0.3 of the time of torch's default, a loop over tensors.
    fused = not any(one.is_complex() for group in groups for one in group["params"]) and not any(
        isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse for module in model.modules()
    )
    if name == "sgd":
        found: torch.optim.Optimizer = torch.optim.SGD(groups, lr, momentum, nesterov=nesterov, fused=fused)
    elif name in ("adam", "adamw"):
        found = (torch.optim.Adam if name == "adam" else torch.optim.AdamW)(groups, fused=fused, **rates)
    else:
        raise ValueError(f"optimizer: found {name!r}, allowed are {', '.join(OPTIMISERS)}")
    if fused:
        found.register_step_pre_hook(_in_one_layout)
    return found


def _in_one_layout(stepper: torch.optim.Optimizer, *_: Any) -> None:
    """Give gradients and moments the strides of their parameter: fused kernels on a CPU do not check them, and mix up entries."""
    for group in stepper.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.stride() != parameter.stride():
                parameter.grad = torch.empty_like(parameter).copy_(parameter.grad)
    for parameter, moments in stepper.state.items():
        for key, value in moments.items():
            if value is not None and value.dim() and value.stride() != parameter.stride():
                moments[key] = torch.empty_like(parameter).copy_(value)


def parameter_groups(
    model: nn.Module, weight_decay: float, decay: str = "all", lr_scale: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """Parameters that require a gradient, grouped by weight decay and learning-rate factor.

    Args:
        decay: which parameters decay. ``all``: all of them. ``no_norm``: all but the weights and biases of normalisation layers.
            ``no_norm_no_bias``: also without parameters whose own name contains ``bias``. A normalisation layer is one of torch's, or a
            module whose class name ends in ``Norm``, ``Norm1d``, … The original tensors of ``torch.nn.utils.parametrize`` count as the
            parameter they define. ``no_vectors``: all but parameters of fewer than two dimensions and those named by
            ``model.no_weight_decay()``, if it exists; this is the convention of vision Transformers (timm, DeiT, Swin).
        lr_scale: factors of the learning rate by parameter name. Keys are shell patterns (``*.bias``); the first match counts, and
            the default is 1.

    Returns:
        Groups with ``params``, ``weight_decay``, ``lr_scale`` (and ``names``, for information), ordered by first appearance; a tied
        parameter appears once.

    Raises:
        ValueError: an unknown ``decay``, a pattern that matches no parameter, or a negative factor.
    """
    if decay not in DECAYS:
        raise ValueError(f"decay: found {decay!r}, allowed are {', '.join(DECAYS)}")
    scales = dict(lr_scale or {})
    for pattern, factor in scales.items():
        if factor < 0:
            raise ValueError(f"lr_scale {pattern!r}: found {factor}, allowed is 0 or more")
    normalising = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, _NORMS) or _NAMED_NORM.search(type(module).__name__)
        for parameter in _own(module)
    }
    unused = set(scales)
    named: set[str] = getattr(model, "no_weight_decay", set)() if decay == "no_vectors" else set()
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        matching = [pattern for pattern in scales if fnmatch.fnmatchcase(name, pattern)]
        unused -= set(matching)
        if not parameter.requires_grad:
            continue
        if decay == "no_vectors":
            spared = parameter.dim() < 2 or name in named
        else:
            spared = (decay != "all" and id(parameter) in normalising) or (
                decay == "no_norm_no_bias" and "bias" in _own_name(name)
            )
        key = (0.0 if spared else weight_decay, scales[matching[0]] if matching else 1.0)
        group = groups.setdefault(
            key, {"params": [], "names": [], "weight_decay": key[0], "lr_scale": key[1]}
        )
        group["params"].append(parameter)
        group["names"].append(name)
    if unused:
        raise ValueError(f"lr_scale: {sorted(unused)[0]!r} matches no parameter of {type(model).__name__}")
    return list(groups.values())


def _own(module: nn.Module) -> Iterator[nn.Parameter]:
    """A module's own parameters without those of its children; parametrised ones are stored in a child."""
    yield from module.parameters(recurse=False)
    if is_parametrized(module):
        yield from module.parametrizations.parameters()  # type: ignore[union-attr]


def _own_name(name: str) -> str:
    """The last part of a parameter's name: ``bias`` of ``head.bias`` and of ``head.parametrizations.bias.original``."""
    _, _, parametrised = name.rpartition("parametrizations.")
    return parametrised.partition(".")[0] if parametrised != name else name.rpartition(".")[2]
