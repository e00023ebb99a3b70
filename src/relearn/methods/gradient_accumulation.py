r"""Gradient accumulation for any gradient strategy of :func:`relearn.methods.fit.fit`.

A batch S of N rows is split into m contiguous parts :math:`S_i` of :math:`N_i` rows, whose sizes differ by at most one:

.. math:: \nabla L(S) = \sum_{i=1}^m \frac{N_i}{N} \nabla L(S_i)

This is exact for every loss that is a mean over rows, as long as the rows of a batch do not interact (dropout draws different masks for
each part, and batch normalisation uses different statistics). Adversarial strategies perturb each sample separately, so the samples of
a part are perturbed as they would be in the whole batch, except that a random start is drawn anew for every part.

In data parallel training each process splits its own rows. If batch normalisation takes its statistics over all processes, every
process must make the same number of passes: the number of parts possible for the process with the fewest rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from relearn.methods.batch_source import cut, rows

Gradient = Callable[[nn.Module, Callable[..., Tensor], Sequence[Any]], Tensor]


class GradientAccumulation:
    """A gradient strategy that splits the batch and passes each part to its own strategy.

    Strategy i always gets part i, so a strategy that carries state from call to call (FreeAT, whose batches are replayed) sees the same
    part again. The strategies' state is saved with the training state.

    Args:
        strategies: one per part; each adds its gradient to ``parameter.grad``.

    Raises:
        ValueError: no strategy.
    """

    def __init__(self, strategies: Sequence[Gradient]) -> None:
        if not strategies:
            raise ValueError("accumulate: 0 (allowed: at least 1)")
        self.strategies = list(strategies)

    def __call__(self, model: nn.Module, loss: Callable[..., Tensor], batch: Sequence[Any]) -> Tensor:
        """The loss of the whole batch, detached; a batch with fewer rows than parts is split into single rows."""
        count = rows(batch)
        shares = _as_many(min(count, len(self.strategies)), model)
        total: Tensor | None = None
        for index, strategy in enumerate(self.strategies[:shares]):
            start, end = index * count // shares, (index + 1) * count // shares
            weight = (end - start) / count
            value = strategy(model, _weighted(loss, weight), [cut(item, slice(start, end)) for item in batch])
            total = value if total is None else total + value
        assert total is not None
        return total

    @property
    def skipped_count(self) -> int:
        """Total number of steps skipped by the strategies."""
        return sum(int(getattr(one, "skipped_count", 0)) for one in self.strategies)

    def state_dict(self) -> dict[str, Any]:
        """The state of every strategy that has one."""
        kept = {str(index): getattr(one, "state_dict", None) for index, one in enumerate(self.strategies)}
        return {index: state() for index, state in kept.items() if state is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state from :meth:`state_dict`; an empty mapping resets all strategies."""
        for index, one in enumerate(self.strategies):
            if hasattr(one, "load_state_dict"):
                one.load_state_dict(state.get(str(index), {}))


def _as_many(count: int, model: nn.Module) -> int:
    """``count`` passes, or the smallest count of all processes if batch normalisation synchronises the processes in every pass."""
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
