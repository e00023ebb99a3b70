"""The optimisation loop for the factors with any derivative: batches, resuming, divergence, history."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, Protocol

import torch
from torch import Tensor

from relearn.methods.fit_state import Checkpoint
from relearn.methods.initialised import Initialised
from relearn.methods.learned_scales.binding import ScaledWeights
from relearn.methods.learned_scales.pools import Batch
from relearn.methods.learned_scales.preserve_state import (
    double_backward,
    preserve_state,
    random_state,
    set_random_state,
)

Row = dict[str, float | str]
Derivative = Callable[[Tensor, Sequence[Any]], tuple[int, Tensor, Row]]


class Mover(Protocol):
    """An optimiser of the factors."""

    scales: Tensor

    def step(self, gradient: Tensor, kind: int = 0) -> None: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


def learn(
    weights: ScaledWeights,
    mover: Mover,
    batches: Iterable[Sequence[Any]],
    derivative: Derivative,
    *,
    iterations: int,
    seed: int,
    log: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    checkpoint_every: int = 0,
    resumed: Callable[[Sequence[Row]], None] | None = None,
) -> Initialised:
    """Update the factors ``iterations`` times, with one batch each, then rescale the network; also under ``torch.no_grad()``.

    Args:
        derivative: (factors (M,), batch) → (kind for the mover, derivative (M,), row of the history).
        seed: for networks that draw random numbers in ``forward``.
        log: called once per iteration as ``log(step, **numbers of the row)``.
        progress: called once per iteration as ``progress(done, all)``.
        checkpoint: the loop resumes from its state if it has one; batches already used are drawn and skipped. The result is
            the same unless both the network and the batches draw from torch's global generators.
        checkpoint_every: iterations between saves; 0: never.
        resumed: called with the history of a resumed run.

    Raises:
        ValueError: ``iterations`` is no whole number above 0, an iterator has too few batches, or a number is not finite in the first
            iteration. The network is then unchanged.
    """
    if isinstance(iterations, bool) or not isinstance(iterations, Integral) or iterations < 1:
        raise ValueError(f"iterations: found {iterations}, allowed: a whole number, at least 1")
    result, done = Initialised(skipped=weights.skipped), 0
    state, device = checkpoint.load() if checkpoint else None, weights.tensors[0].device
    if state is not None:
        mover.restore(state)
        done, result.history = int(state["step"]), list(state["history"])
        if resumed:
            resumed(result.history)
    with preserve_state(weights.model, seed), double_backward(), torch.enable_grad():
        for step, batch in zip(range(1, iterations + 1), repeated(batches, iterations)):
            if step <= done:
                # Not before, as the skipped batches may have drawn. Old checkpoints have no random state.
                if step == done and state and "random" in state:
                    set_random_state(state["random"], device)
                continue
            kind, gradient, row = derivative(mover.scales, batch)
            reason = _not_finite(gradient, row)
            if reason and step == 1:
                raise ValueError(
                    f"model: in the first iteration the {reason}; check the inputs and the initial weights"
                )
            if reason:
                result.outcome, result.outcome_step, result.outcome_reason = "diverged", step, reason
                break
            mover.step(gradient, kind)
            result.history.append({"step": float(step), **row})
            if log:
                log(step, **{name: value for name, value in row.items() if isinstance(value, float)})
            if progress:
                progress(step, iterations)
            if checkpoint and checkpoint_every and step % checkpoint_every == 0 and step < iterations:
                saved = {**mover.state(), "step": step, "history": result.history}
                checkpoint.save({**saved, "random": random_state(device)})
    weights.write(mover.scales)
    result.scales = weights.by_name(mover.scales)
    return result


def repeated(batches: Iterable[Batch], count: int) -> Iterator[Batch]:
    """Yield ``count`` batches; a collection or a loader is repeated as often as needed.

    Raises:
        ValueError: an iterator, which cannot be repeated, has fewer batches; there is no batch at all; or a batch is not a sequence.
    """
    drawn = 0
    while drawn < count:
        before, source = drawn, iter(batches)
        for batch in itertools.islice(source, count - drawn):
            if not isinstance(batch, Sequence):
                raise ValueError(
                    f"batches: found a batch of type {type(batch).__name__} (allowed: (input, *rest), a tuple or list)"
                )
            drawn += 1
            yield batch
        if drawn < count and (source is batches or drawn == before):
            raise ValueError(
                f"batches: they ended after {drawn} (allowed: {count}, one an iteration; a list or a DataLoader is repeated)"
            )


def _not_finite(gradient: Tensor, row: Row) -> str:
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            return f"{name.replace('_', ' ')} is not finite"
    return "" if torch.isfinite(gradient).all() else "derivative by the factors is not finite"
