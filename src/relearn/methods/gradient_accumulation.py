r"""Gradient accumulation, for any gradient strategy of :func:`relearn.methods.fit.fit`.

A batch S of N rows goes through the network in m contiguous shares :math:`S_i` of :math:`N_i` rows, which differ by one row at most:

.. math:: \nabla L(S) = \sum_{i=1}^m \frac{N_i}{N} \nabla L(S_i)

for every loss that is a mean over rows, exactly, where nothing ties the rows of a batch together (dropout draws other masks for other
shares, batch normalisation sees other statistics). Adversarial strategies perturb sample by sample, so that a share's samples
move as they would in the whole batch; a random start is drawn anew for every share.

In data parallel training a process has shares of its rows. Where batch normalisation takes its statistics over all processes, every
process must make as many passes: as many shares as the process with the fewest rows can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

Gradient = Callable[[nn.Module, Callable[..., Tensor], Sequence[Any]], Tensor]


class GradientAccumulation:
    """A gradient strategy that gives every share of a batch to a strategy of its own.

    Strategy i has always share i, so that one that remembers a batch (FreeAT, whose batches come several times in a row) remembers
    its share. What the strategies keep is kept with the training's state.

    Args:
        strategies: one a share; each adds its gradient to ``parameter.grad``.

    Raises:
        ValueError: no strategy.
    """

    def __init__(self, strategies: Sequence[Gradient]) -> None:
        if not strategies:
            raise ValueError("accumulate: 0 (allowed: at least 1)")
        self.strategies = list(strategies)

    def __call__(self, model: nn.Module, loss: Callable[..., Tensor], batch: Sequence[Any]) -> Tensor:
        """The loss of the whole batch, detached; a batch of fewer rows than shares has as many shares as rows."""
        first = batch[0] if isinstance(batch[0], Tensor) else batch[0][0]
        rows = len(first)
        shares = _as_many(min(rows, len(self.strategies)), model)
        total: Tensor | None = None
        for index, strategy in enumerate(self.strategies[:shares]):
            start, end = index * rows // shares, (index + 1) * rows // shares
            weight = (end - start) / rows
            value = strategy(model, _weighted(loss, weight), [_cut(item, start, end) for item in batch])
            total = value if total is None else total + value
        assert total is not None
        return total

    @property
    def skipped_count(self) -> int:
        """What the strategies skipped together."""
        return sum(int(getattr(one, "skipped_count", 0)) for one in self.strategies)

    def state_dict(self) -> dict[str, Any]:
        """The state of every strategy that has one."""
        kept = {str(index): getattr(one, "state_dict", None) for index, one in enumerate(self.strategies)}
        return {index: state() for index, state in kept.items() if state is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what :meth:`state_dict` gave; nothing starts all of them anew."""
        for index, one in enumerate(self.strategies):
            if hasattr(one, "load_state_dict"):
                one.load_state_dict(state.get(str(index), {}))


def _as_many(count: int, model: nn.Module) -> int:
    """``count`` passes, or the fewest of a process where batch normalisation waits for all of them in every pass."""
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    if not several or not any(
        isinstance(one, nn.modules.batchnorm._BatchNorm) and one.training for one in model.modules()
    ):
        return count
    fewest = torch.tensor(count, device=next(model.parameters()).device)
    dist.all_reduce(fewest, dist.ReduceOp.MIN)
    return int(fewest)


def _weighted(loss: Callable[..., Tensor], weight: float) -> Callable[..., Tensor]:
    if weight == 1.0:
        return loss

    def weighted(*given: Any) -> Tensor:
        return loss(*given) * weight

    return weighted


def _cut(item: Any, start: int, end: int) -> Any:
    if isinstance(item, torch.Tensor):
        return item[start:end]
    return tuple(one[start:end] for one in item)
