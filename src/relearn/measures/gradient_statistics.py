r"""Size of each weight tensor of a network, and variation of its gradient over minibatches.

zhu2022, figures 4.1 and 4.4 to 4.10. Let :math:`g^{(b)}` be the gradient of the mean loss on minibatch b = 1 … B with respect to a
parameter tensor W of d elements:

.. math::
    \bar g_e = \frac1B \sum_b g^{(b)}_e, \qquad
    \sigma_e = \sqrt{\frac{1}{B-1} \sum_b (g^{(b)}_e - \bar g_e)^2}, \qquad
    \sigma(g) = \frac1d \sum_e \sigma_e, \qquad |E\,g| = \frac1d \sum_e |\bar g_e|

=====================  ============================================  ==================================================
column                 formula                                       remark
=====================  ============================================  ==================================================
``weight_abs_mean``    :math:`\|W\|_1 / d`                           figures 4.4 to 4.10
``weight_norm``        :math:`\|W\|_2`                               figure 4.1
``gradient_std``       :math:`\sigma(g)`                             figures 4.4 to 4.10
``gradient_abs_mean``  :math:`|E\,g|`
``relative_std``       :math:`\sigma(g) / |E\,g|`                    figure 4.1; None if every mean is exactly 0
=====================  ============================================  ==================================================

The text leaves the following open. We use the sample standard deviation (divisor B - 1), so σ² is unbiased. ``relative_std`` is the
ratio of the two means over elements, not the mean of ratios: a mean :math:`\bar g_e` near 0 makes a ratio arbitrarily large, and the
mean of such ratios does not converge. Since :math:`\bar g` is itself an estimate, ``relative_std`` is bounded: for normal gradients
with mean 0 it is about :math:`\sqrt{\pi B / 2}`, so only values with the same B are comparable.

Batch normalisation uses the statistics of the batch, as in training, without updating its running statistics; dropout is off; modes are
restored. There is one pass with Welford's recurrence, which needs two extra tensors per parameter for any number of minibatches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from relearn.maths.eval_mode import batch_statistics

COLUMNS = (
    "index",
    "name",
    "kind",
    "group",
    "numel",
    "weight_abs_mean",
    "weight_norm",
    "gradient_std",
    "gradient_abs_mean",
    "relative_std",
)
KINDS = ("norm", "linear", "bias", "embedding", "scalar")
_NORMS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.instancenorm._InstanceNorm)
_MAPS = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd)
_ROLES = {
    "q": ("q", "query", "q_proj", "to_q"),
    "k": ("k", "key", "k_proj", "to_k"),
    "v": ("v", "value", "v_proj", "to_v"),
    "out": ("out", "out_proj", "o_proj", "to_out"),
    "fc1": ("fc1", "linear1"),
    "fc2": ("fc2", "linear2"),
    "head": ("head", "fc", "classifier", "output"),
}
_ROLE_OF = {word: role for role, words in _ROLES.items() for word in words}


def gradient_statistics(
    model: nn.Module,
    loss: Callable[..., Tensor],
    batches: Iterable[Sequence[Any]],
    *,
    count: int,
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) per trained parameter tensor, in the order of the model's definition, ``index`` from 0.

    A tensor shared by several modules counts once, under its first name. A tensor that does not require a gradient has no row; one that
    does not affect the loss has gradient 0. ``kind`` is one of :data:`KINDS`: the weight of a normalisation, of a linear map or
    convolution, a bias of any of them, an embedding, or another multiplier or shift (FixUp's scalars, a vector on a skip
    connection). ``group`` is its role in the network: q, k, v, out, fc1, fc2, head, conv, linear, batch_norm, layer_norm, norm,
    embedding, scalar; a bias is in the group of its module. Non-finite numbers are kept (an overflowing gradient is a result).

    Args:
        model: any module; the batches must be on its device.
        loss: ``loss(output, *rest)`` → scalar mean over the minibatch.
        batches: each a sequence: the model's input (a tensor, or a tuple of tensors: ``model(*input)``), then further arguments of the
            loss.
        count: B, the number of minibatches to use; no more are drawn.

    Raises:
        ValueError: fewer than 2 minibatches requested or available, a model without trained parameters, a loss that is not a scalar.
    """
    if count < 2:
        raise ValueError(f"count: {count} (allowed: at least 2 minibatches)")
    named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    if not named:
        raise ValueError("the model has no parameter that requires a gradient; at least one is needed")
    parameters = [one for _, one in named]
    means, squares = moments(model, loss, batches, parameters, count)
    places = _places(model)
    rows = []
    for index, ((name, weight), mean, square) in enumerate(zip(named, means, squares)):
        std = float((square / (count - 1)).clamp(min=0).sqrt().mean(dtype=torch.float64))
        size = float(mean.abs().mean(dtype=torch.float64))
        kind, group = places[name]
        row = {"index": index, "name": name, "kind": kind, "group": group, "numel": weight.numel()}
        row["weight_abs_mean"] = float(weight.detach().abs().mean(dtype=torch.float64))
        row["weight_norm"] = float(torch.linalg.vector_norm(weight.detach(), dtype=torch.float64))
        row |= {"gradient_std": std, "gradient_abs_mean": size}
        row["relative_std"] = std / size if size != 0 else None
        rows.append(row)
    return rows


def moments(
    model: nn.Module,
    loss: Callable[..., Tensor],
    batches: Iterable[Sequence[Any]],
    parameters: Sequence[Tensor],
    count: int,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return means of the gradients over ``count`` minibatches and sums of squared deviations from them, one tensor per parameter."""

    def zeros() -> list[Tensor]:
        return [
            torch.zeros_like(one, dtype=torch.promote_types(one.dtype, torch.float32)) for one in parameters
        ]

    means, squares, seen = zeros(), zeros(), 0
    with batch_statistics(model), torch.enable_grad():
        for batch in batches:
            seen += 1
            given, *rest = batch
            value = loss(model(*given) if isinstance(given, (tuple, list)) else model(given), *rest)
            if value.dim():
                raise ValueError(f"loss: shape {tuple(value.shape)}; allowed: a scalar, the minibatch's mean")
            gradients = torch.autograd.grad(value, parameters, allow_unused=True)
            for mean, square, gradient in zip(means, squares, gradients):
                change = -mean if gradient is None else gradient.to(mean.dtype) - mean
                mean.add_(change, alpha=1 / seen)
                square.addcmul_(
                    change, change, value=(seen - 1) / seen
                )  # change²(1 - 1/k): product of old and new deviation
            # free the gradients before the next forward pass needs memory for its activations
            del gradients, gradient, change, value
            if seen == count:
                break
    if seen < count:
        raise ValueError(f"batches: {seen} minibatches; {count} are needed")
    return means, squares


def _places(model: nn.Module) -> dict[str, tuple[str, str]]:
    """Return kind and group of every parameter, by name."""
    found = {}
    for path, module in model.named_modules():
        for own, parameter in module.named_parameters(recurse=False):
            name = f"{path}.{own}" if path else own
            found[name] = _place(module, path.rpartition(".")[2], own, parameter)
    return found


def _place(module: nn.Module, module_name: str, own: str, parameter: Tensor) -> tuple[str, str]:
    if isinstance(module, _NORMS):
        known = {_BatchNorm: "batch_norm", nn.LayerNorm: "layer_norm"}
        group = next((group for kind, group in known.items() if isinstance(module, kind)), "norm")
        return ("bias" if own == "bias" else "norm"), group
    if isinstance(module, nn.Embedding):
        return "embedding", "embedding"
    if isinstance(module, nn.modules.conv._ConvNd):
        return ("bias" if own == "bias" else "linear"), "conv"
    if isinstance(module, _MAPS):
        return ("bias" if own == "bias" else "linear"), _ROLE_OF.get(module_name, "linear")
    if parameter.dim() > 1 and parameter.numel() > 1:
        return "linear", _ROLE_OF.get(module_name, "linear")  # a weight matrix owned by its module directly
    if own.endswith("bias") and parameter.numel() > 1:
        return "bias", _ROLE_OF.get(module_name, "linear")
    return "scalar", "scalar"
