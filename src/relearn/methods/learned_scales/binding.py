"""Evaluate a network at rescaled weights: θ_m = (α_1 W_1, …, α_M W_M)."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from relearn.methods.batch_source import pixels
from relearn.methods.fit_arguments import scalar_loss
from relearn.methods.memory_layout import layout

SCOPES = ("all", "fix_norm", "only_norm")
NORMS = (_BatchNorm, _InstanceNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


class ScaledWeights:
    r"""The trainable tensors W of a network, with a factor α for each tensor that scaling can change.

    The network's W do not change until :meth:`write`. ``torch.func.functional_call`` evaluates the network at other tensors and works
    for any module. A tensor shared by several modules counts once. Tensors without a factor (norm zero, or outside ``scope``) stay in
    θ with their own value: they still have a gradient and take part in an optimiser's step.

    In single precision θ and images have the memory layout in which a training step is fast (:mod:`relearn.methods.memory_layout`); W keeps
    its own. With ``bf16`` second derivatives are slower in that layout, so there nothing is changed.

    .. math:: \frac{\partial F}{\partial \alpha_i} = \Bigl\langle \frac{\partial F}{\partial \theta_i}, W_i \Bigr\rangle

    Args:
        model: the network; its parameters with ``requires_grad`` are W.
        scope: ``all``; ``fix_norm``: parameters of normalisation layers get no factor; ``only_norm``: only those parameters do
            (zhu2022, table 4.6).
        least_dims: tensors of fewer dimensions get no factor.
        exclude: shell patterns of names, such as ``*.w_skip``; these tensors get no factor.
        precision: ``fp32``, or ``bf16`` for autocast.

    Attributes:
        names: names of W. factors: positions of the tensors with a factor. norms: their ‖W‖, (M,). skipped: names of the tensors
            in scope whose norm is zero.

    Raises:
        ValueError: an unknown scope; a model with nothing to scale; a parameter that is not finite.
    """

    def __init__(
        self,
        model: nn.Module,
        scope: str = "all",
        least_dims: int = 0,
        exclude: Sequence[str] = (),
        *,
        precision: str = "fp32",
    ) -> None:
        if scope not in SCOPES:
            raise ValueError(f"scope: found {scope!r}, allowed are {', '.join(SCOPES)}")
        trainable = {name: one for name, one in model.named_parameters() if one.requires_grad}
        if not trainable:
            raise ValueError("model: it has no trainable parameters to scale")
        self.model = model
        self.names = list(trainable)
        self.tensors = [one.detach() for one in trainable.values()]
        self.precision, self.form = precision, torch.preserve_format
        if precision == "fp32":
            self.form = layout(model, self.tensors[0].device, precision)
        # functional_call also uses these, so a module that updates its buffers updates copies.
        self.buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        norms = [torch.linalg.vector_norm(one) for one in self.tensors]
        sizes = torch.stack([norm.double().cpu() for norm in norms])
        if not sizes.isfinite().all():
            name = self.names[int((~sizes.isfinite()).nonzero()[0])]
            raise ValueError(f"model: parameter {name!r} is not finite; allowed are finite weights")
        inside = [
            ok and not any(fnmatch.fnmatchcase(name, one) for one in exclude)
            for name, ok in zip(self.names, _in_scope(model, trainable, scope, least_dims))
        ]
        self.factors = [i for i, (ok, size) in enumerate(zip(inside, sizes)) if ok and size > 0]
        self.norms = sizes[self.factors]
        self.skipped = tuple(name for name, ok, size in zip(self.names, inside, sizes) if ok and not size > 0)
        if not self.factors:
            raise ValueError(f"model: no parameter in scope {scope!r} has a norm above zero to scale")

    def __len__(self) -> int:
        return len(self.factors)

    def at(self, scales: Tensor) -> list[Tensor]:
        """θ_m as new leaf tensors that require a gradient, one per name; ``scales`` (M,)."""
        factor = dict(zip(self.factors, scales.tolist()))
        theta = (w * factor[i] if i in factor else w.clone() for i, w in enumerate(self.tensors))
        return [self._laid_out(one).requires_grad_() for one in theta]

    def _laid_out(self, one: Any) -> Any:
        of_images = isinstance(one, Tensor) and one.dim() == 4
        return (
            one.contiguous(memory_format=self.form) if of_images and self.form is torch.channels_last else one
        )

    def loss(self, theta: Sequence[Tensor], loss: Callable[..., Tensor], batch: Sequence[Any]) -> Tensor:
        """``loss(model(input), *rest)`` of the batch ``(input, *rest)`` at the tensors ``theta``.

        As in :func:`relearn.methods.fit.fit`, the batch is moved to the model's device, and a uint8 input is converted to floats
        in [0, 1].

        Raises:
            ValueError: the loss is not a scalar, or has no gradient.
        """
        given, *rest = pixels(batch, self.tensors[0].device)
        inputs = tuple(map(self._laid_out, given if isinstance(given, (tuple, list)) else (given,)))
        with _autocast(self.tensors[0].device, self.precision):
            tensors = {**self.buffers, **dict(zip(self.names, theta))}
            value = loss(functional_call(self.model, tensors, inputs), *rest)
        return scalar_loss(value).reshape(())

    def scaled(self, theta: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of ``theta`` that have a factor."""
        return [theta[i] for i in self.factors]

    def by_scale(self, gradients: Sequence[Tensor]) -> Tensor:
        """⟨∂F/∂θ_i, W_i⟩ for the tensors with a factor, given their ∂F/∂θ_i: float64 on the host, (M,)."""
        products = [
            torch.dot(gradient.reshape(-1), self.tensors[i].reshape(-1))
            for i, gradient in zip(self.factors, gradients)
        ]
        return torch.stack(products).double().cpu()

    def by_name(self, scales: Tensor) -> dict[str, float]:
        return {self.names[i]: scale for i, scale in zip(self.factors, scales.tolist())}

    @torch.no_grad()
    def write(self, scales: Tensor) -> None:
        """Rescale the network's own parameters in place."""
        for i, scale in zip(self.factors, scales.tolist()):
            self.tensors[i].mul_(scale)


def _in_scope(model: nn.Module, trainable: Mapping[str, Tensor], scope: str, least_dims: int) -> list[bool]:
    of_norms = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, NORMS)
        or type(module).__name__.endswith("Norm")  # networks may define their own
        for parameter in module.parameters(recurse=False)
    }
    wanted = {"all": (True, True), "fix_norm": (False, True), "only_norm": (True, False)}[scope]
    return [wanted[0 if id(one) in of_norms else 1] and one.dim() >= least_dims for one in trainable.values()]


def _autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
