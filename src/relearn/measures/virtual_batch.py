r"""Check that a K-pass gradient equals that of one K times larger batch (the "free" in FreeLB), in float64.

zhu2022, section 3.3: with the recorded perturbations δ_t and dropout masks m_t of the passes t = 0 … K-1,

.. math::
    g = \frac1K \sum_{t} \nabla_\theta L(f_{\theta(m_t)}(X + \delta_t), y) \quad = \quad
    \nabla_\theta L(f_{\theta(m)}(\mathcal X), \mathcal Y), \qquad \mathcal X = [X + \delta_0; \ldots; X + \delta_{K-1}]

where L is a mean over the batch. The right side is one forward and one backward pass of ordinary autograd; it uses none of the strategy's
code.

The masks are recorded and replayed on the CPU by a dispatch mode that intercepts ``bernoulli_`` and
:data:`relearn.maths.cheap_mask.cheap_mask`, below every module and function.
The equality does not hold for networks in which samples interact (batch normalisation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from relearn.maths.cheap_mask import cheap_mask

Loss = Callable[..., Tensor]


DRAWS = {torch.ops.aten.bernoulli_.float, cheap_mask.default}


class Compared(NamedTuple):
    """A K-pass gradient compared with the virtual batch's."""

    difference: float
    """Largest difference of an entry, relative to the largest entry of the virtual batch's gradient."""
    loss_difference: float
    """Relative difference of the losses."""
    passes: int
    masks: int
    """Number of masks drawn per pass."""
    reused: bool
    """Whether all passes used the masks of the first one."""


def compare(
    strategy: Callable[[nn.Module, Loss, Sequence[Any]], Tensor],
    deltas: list[Tensor],
    model: nn.Module,
    loss: Loss,
    batch: Sequence[Any],
    table: nn.Module | None = None,
) -> Compared:
    """Run ``strategy(model, loss, batch)``, then the equivalent virtual batch.

    Args:
        strategy: stores its gradient in the parameters' ``grad`` and appends a copy of δ_t to ``deltas`` before every pass.
        deltas: the list to which the strategy appends, initially empty.
        model, loss, batch: arguments of the strategy; the model is on the CPU.
        table: the module to whose output δ is added; None: the first input itself.

    Raises:
        ValueError: the strategy recorded no δ, or its passes drew different numbers of masks.
    """
    model.zero_grad(set_to_none=True)
    with _Written() as drawn:
        value = strategy(model, loss, batch)
    ours = _gradients(model)
    passes, masks = len(deltas), drawn.masks
    if not passes or len(masks) % passes:
        raise ValueError(
            f"passes: found {passes} with {len(masks)} masks (allowed: at least one, with equally many masks each)"
        )
    each = len(masks) // passes
    columns = [masks[place::each] for place in range(each)]

    def repeated(item: Any) -> Any:
        if isinstance(item, Tensor):
            return torch.cat([item] * passes)
        return tuple(repeated(one) for one in item)

    inputs, *rest = (repeated(item) for item in batch)
    stacked = torch.cat(deltas)
    model.zero_grad(set_to_none=True)
    with ExitStack() as stack:
        if table is not None:
            handle = table.register_forward_hook(lambda module, arguments, rows: rows + stacked)
            stack.callback(handle.remove)
        else:
            inputs = inputs + stacked
        stack.enter_context(_Given([torch.cat(column) for column in columns]))
        output = model(inputs) if isinstance(inputs, Tensor) else model(*inputs)
        virtual = loss(output, *rest)
        virtual.backward()
    theirs = _gradients(model)
    model.zero_grad(set_to_none=True)
    largest = max(float(gradient.abs().max()) for gradient in theirs.values())
    apart = max(
        float((ours[name] - theirs[name]).abs().max()) if name in ours else float("inf") for name in theirs
    )
    reused = all(torch.equal(column[0], one) for column in columns for one in column[1:])
    return Compared(
        apart / largest, abs(float(value) / float(virtual.detach()) - 1), passes, each, bool(each) and reused
    )


class _Written(TorchDispatchMode):
    """Record every mask that is drawn, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.masks: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func in DRAWS:
            self.masks.append(found.clone())
        return found


class _Given(TorchDispatchMode):
    """Replay recorded masks instead of drawing them.

    Raises:
        ValueError: masks of another number or shape are requested.
    """

    def __init__(self, masks: list[Tensor]) -> None:
        super().__init__()
        self.masks, self.place = masks, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in DRAWS:
            return func(*args, **(kwargs or {}))
        mask = self.masks[self.place] if self.place < len(self.masks) else None
        if mask is None or mask.shape != args[0].shape:
            found = tuple(args[0].shape)
            raise ValueError(f"masks: the virtual batch draws one of {found} (allowed: those of the passes)")
        self.place += 1
        return mask.clone() if func is cheap_mask.default else args[0].copy_(mask)


def _gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
