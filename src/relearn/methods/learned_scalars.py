r"""A scalar per weight tensor that is learned during training, in contrast to GradInit's factors.

zhu2022, table 4.7: "simply letting the model learn to rescale the layers". Each trainable tensor W that is not zero is replaced by sW,
with a scalar s that starts at 1 and is trained with all other parameters:

.. math:: \frac{\partial L}{\partial s} = \Bigl\langle \frac{\partial L}{\partial (sW)}, W \Bigr\rangle, \qquad
          \frac{\partial L}{\partial W} = s\, \frac{\partial L}{\partial (sW)}

Attach them before training and fold them into the weights after it:

    with learned_scalars(model) as names:
        fit(model, …)           # names of the scalars end in ".scale": lr_scale={"*.scale": 0.1} lowers their learning rate
    # the model has its original structure, and its weights are sW

Exactly the tensors that have a factor in GradInit get a scalar. Tied weights share one scalar. Weight decay acts on s and on W, as on
any parameter; the text does not specify this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize


class Multiplied(nn.Module):
    """sW with a learnable s."""

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=like.dtype, device=like.device))

    def forward(self, w: Tensor) -> Tensor:
        return self.scale * w


@contextlib.contextmanager
def learned_scalars(model: nn.Module) -> Iterator[list[str]]:
    """Context in which the model's tensors have scalars (:func:`attach`); on exit these are folded in, even after an error."""
    names = attach(model)
    try:
        yield names
    finally:
        fold(model)


def attach(model: nn.Module) -> list[str]:
    """Give each trainable tensor of ``model`` that is not zero a learnable scalar; the network's outputs stay the same.

    Returns:
        The original names of the tensors.

    Raises:
        ValueError: no tensor to multiply, or the tensors already have scalars.
    """
    if any(isinstance(module, Multiplied) for module in model.modules()):
        raise ValueError("model: its weights carry learnable scalars already; fold them first")
    scalars: dict[int, Multiplied] = {}
    names = []
    for prefix, module in list(model.named_modules()):
        for name, tensor in list(module.named_parameters(recurse=False)):
            if not tensor.requires_grad or not tensor.detach().any():
                continue
            if id(tensor) not in scalars:
                scalars[id(tensor)] = Multiplied(tensor)
                names.append(f"{prefix}.{name}".lstrip("."))
            order = list(module._parameters)
            parametrize.register_parametrization(module, name, scalars[id(tensor)])
            # Remember the order, because removing a parametrisation moves the tensor behind all others.
            module.parametrizations[name].order = order
    if not names:
        raise ValueError("model: it has no trainable parameter with a norm above zero to multiply")
    return names


def fold(model: nn.Module) -> dict[str, float]:
    """Multiply each tensor by its scalar and remove the scalars; the network's outputs stay the same.

    Returns:
        The scalars by the tensors' names; empty if there are none.
    """
    done: dict[int, float] = {}
    scales = {}
    for prefix, module in list(model.named_modules()):
        if not parametrize.is_parametrized(module):
            continue
        orders = []
        for name, stack in list(module.parametrizations.items()):
            if not isinstance(stack[0], Multiplied):
                continue
            scale, tensor = stack[0].scale.detach(), stack.original
            orders.append(stack.order)
            # a class of its own, as copies share the class and torch deletes the tensor's property there
            shared = type(module)
            own = {
                key: value for key, value in vars(shared).items() if key not in ("__dict__", "__weakref__")
            }
            module.__class__ = type(shared.__name__, shared.__bases__, own)
            parametrize.remove_parametrizations(module, name, leave_parametrized=False)
            if id(tensor) not in done:
                with torch.no_grad():
                    tensor.mul_(scale)
                done[id(tensor)] = scales[f"{prefix}.{name}".lstrip(".")] = float(scale)
        for order in orders[:1]:
            for name in order:
                module._parameters[name] = module._parameters.pop(name)
    return scales
