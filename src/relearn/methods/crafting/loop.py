"""The loop itself, and the evaluation of finished poisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from relearn.methods.crafting.arguments import check, parts_of, pixel_std_of
from relearn.methods.crafting.networks import dropout_active, features_of, frozen, has_dropout, seeded
from relearn.methods.crafting.state import State


class Objective(Protocol):
    """An attack: features (T, k, d), target (T, d), last coefficients → loss (T,), coefficients (T, k)."""

    def __call__(
        self, features: Tensor, target: Tensor, coefficients: Tensor | None
    ) -> tuple[Tensor, Tensor | None]: ...


class Checkpoint(Protocol):
    """Where a run keeps its state, a dict of tensors and ints: `load` gives what was saved last, or None."""

    def load(self) -> dict[str, Any] | None: ...

    def save(self, state: dict[str, Any]) -> None: ...


@dataclass
class Crafted:
    """What crafting made.

    Attributes:
        poisons: (T, k, C, H, W), pixels in [0, 1], inside the ball; `quantise` makes 8-bit images of them.
        final_loss: (T,) the objective at the final poisons, summed over substitutes, Dropout off.
        coefficients: (m, T, k) of the same evaluation; None where the objective has none.
        history: a row per iteration, measured before its step: iteration (from 1), loss_sum (over
            substitutes; mean over targets), loss_mean (loss_sum / m, the axis of figure 2.3), and watch (a
            loss for each watched network) where watched.
        outcome: "ok", or "diverged": the poisons are then those of before iteration `outcome_step`.
        outcome_reason: what was not finite, and where.
    """

    poisons: Tensor
    final_loss: Tensor
    coefficients: Tensor | None
    history: list[dict[str, Any]] = field(default_factory=list)
    outcome: str = "ok"
    outcome_step: int | None = None
    outcome_reason: str | None = None


def craft(
    objective: Objective,
    substitutes: Sequence[nn.Module],
    bases: Tensor,
    targets: Tensor,
    *,
    eps: float,
    lr: float,
    iterations: int,
    dropout: bool,
    seed: int,
    target_dropout: str = "resampled",
    pixel_std: float | Sequence[float] | Tensor | None = None,
    precision: str = "fp32",
    target_batch: int | None = None,
    watch: tuple[int, Sequence[nn.Module]] | None = None,
    progress: Callable[[int, int], None] | None = None,
    log: Callable[..., None] | None = None,
    checkpoint: Checkpoint | None = None,
    checkpoint_every: int = 100,
) -> Crafted:
    """Craft poisons for every target.

    Args:
        objective: the attack's objective.
        substitutes: networks with `features(images (B, C, H, W)) -> (B, d)`, which standardise the pixels
            themselves. They run in evaluation mode and get no weight gradients; their state is put back.
        bases: clean poison images, (k, C, H, W) for all targets or (T, k, C, H, W), pixels in [0, 1].
        targets: (T, C, H, W), pixels in [0, 1].
        eps: largest change of a pixel, on the [0, 1] scale.
        lr: Adam's learning rate on standardised pixels; betas (0.9, 0.999), no decay.
        iterations: Adam steps.
        dropout: whether the substitutes' own Dropout layers stay on while crafting.
        seed: of the Dropout masks. The global random state is left as it was.
        target_dropout: masks of the target's features: "resampled" each iteration (the text), "fixed" (drawn
            once, the published code) or "off". Without dropout they are computed once in any case.
        pixel_std: per channel, or one number; Adam moves pixels / pixel_std. Default: the substitutes' own
            `std` buffer, 1 where they have none.
        precision: "fp32" (no autocast: the images' own dtype) or "bf16" (autocast around the substitutes).
        target_batch: targets per forward pass, to bound memory; default all. Changes only the Dropout masks.
        watch: (every, networks): the loss in these networks too, Dropout off, so often and at the last
            iteration.
        progress: called as progress(finished, iterations) after each iteration.
        log: called as log(iteration, loss_sum=..., loss_mean=...) after each, with watch_0=..., watch_1=...
            where watched. What it or progress raises stops the run, after saving a checkpoint if there is
            one.
        checkpoint: resumed from where it holds a state; saved every `checkpoint_every` iterations and at the
            end. A resumed run gives the same bits on a CPU.

    Raises:
        TypeError, ValueError: an argument that does not fit, or a saved state that does not. A loss that is
            not finite is no error but the outcome "diverged".
    """
    check(substitutes, bases, targets, eps, lr, iterations, target_dropout, precision, target_batch)
    state = State(bases.expand(len(targets), *bases.shape[-4:]).clone(), eps)
    std = pixel_std_of(substitutes, pixel_std, state.poisons)
    watched = list(watch[1]) if watch else []
    reason = None

    with ExitStack() as stack:
        stack.enter_context(frozen([*substitutes, *watched]))
        stack.enter_context(seeded(seed, targets.device))
        for net in substitutes:
            stack.enter_context(dropout_active(net, dropout))
        kept: list[Tensor | None] = [None] * len(substitutes)  # target features that do not change
        for i, net in enumerate(substitutes):
            if not (dropout and target_dropout == "resampled" and has_dropout(net)):
                with dropout_active(net, dropout and target_dropout == "fixed"):
                    kept[i] = _target_features(net, targets, precision, target_batch)
        if checkpoint is not None and (saved := checkpoint.load()) is not None:
            state.restore(saved, iterations)

        while state.iteration < iterations:
            step = state.iteration + 1
            loss, gradient, reason = _gradient(
                objective, substitutes, state, targets, kept, precision, target_batch
            )
            if reason is not None:
                break
            row: dict[str, Any] = {"iteration": step, "loss_sum": loss, "loss_mean": loss / len(substitutes)}
            if watch and (step % watch[0] == 0 or step == iterations):
                seen, _ = evaluate(
                    objective, watched, state.poisons, targets, precision=precision, target_batch=target_batch
                )
                row["watch"] = seen.mean(-1).tolist()
            state.step(gradient, std, lr)
            state.history.append(row)
            if checkpoint is not None and (step % checkpoint_every == 0 or step == iterations):
                checkpoint.save(state.dump())
            try:
                if log is not None:
                    log(step, **_metrics(row))
                if progress is not None:
                    progress(step, iterations)
            except BaseException:  # an interruption between two iterations loses none of them
                if checkpoint is not None:
                    checkpoint.save(state.dump())
                raise

    losses, coefficients = evaluate(
        objective, substitutes, state.poisons, targets, precision=precision, target_batch=target_batch
    )
    result = Crafted(state.poisons, losses.sum(0), coefficients, state.history)
    if reason is not None:
        result.outcome, result.outcome_step, result.outcome_reason = "diverged", state.iteration + 1, reason
    return result


@torch.no_grad()
def evaluate(
    objective: Objective,
    networks: Sequence[nn.Module],
    poisons: Tensor,
    targets: Tensor,
    *,
    precision: str = "fp32",
    target_batch: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The objective at poisons (T, k, C, H, W) in each of m networks, Dropout off.

    Returns:
        losses (m, T), NaN where features are not finite (or their squares), and coefficients (m, T, k),
        None where there are none.
    """
    losses = poisons.new_full((len(networks), len(targets)), math.nan)
    coefficients: Tensor | None = None
    with frozen(networks):
        for i, net in enumerate(networks):
            for part in parts_of(len(targets), target_batch):
                features = _poison_features(net, poisons[part], precision)
                target = features_of(net, targets[part], precision)
                if not _usable(features, target):
                    continue
                losses[i, part], c = objective(features, target, None)
                if c is not None:
                    if coefficients is None:
                        coefficients = c.new_full((*losses.shape, c.shape[-1]), math.nan)
                    coefficients[i, part] = c
    return losses, coefficients


def _gradient(
    objective: Objective,
    substitutes: Sequence[nn.Module],
    state: State,
    targets: Tensor,
    kept: Sequence[Tensor | None],
    precision: str,
    target_batch: int | None,
) -> tuple[float, Tensor, str | None]:
    """Loss (sum over substitutes, mean over targets), its gradient for the poisons, what was not finite."""
    gradient = torch.zeros_like(state.poisons)
    total = state.poisons.new_zeros(())
    for i, (net, target_features) in enumerate(zip(substitutes, kept)):
        found: list[Tensor] = []
        for part in parts_of(len(targets), target_batch):
            if target_features is None:
                target = features_of(net, targets[part], precision)
            else:
                target = target_features[part]
            poisons = state.poisons[part].detach().requires_grad_()
            features = _poison_features(net, poisons, precision)
            if not _usable(features, target):
                return (
                    math.nan,
                    gradient,
                    f"features of substitute {i} are not finite, or their squares are not",
                )
            last = state.coefficients[i][part] if i in state.coefficients else None
            loss, coefficients = objective(features, target, last)
            gradient[part] += torch.autograd.grad(loss.sum(), poisons)[0]
            total = total + loss.detach().sum()
            if coefficients is not None:
                found.append(coefficients)
        if found:
            state.coefficients[i] = torch.cat(found)
    mean = float(total) / len(targets)
    if not math.isfinite(mean):
        return mean, gradient, "the loss is not finite"
    if not torch.isfinite(gradient).all():
        return mean, gradient, "the gradient is not finite"
    return mean, gradient, None


def _metrics(row: dict[str, Any]) -> dict[str, float]:
    watched = {f"watch_{i}": value for i, value in enumerate(row.get("watch", ()))}
    return {"loss_sum": row["loss_sum"], "loss_mean": row["loss_mean"]} | watched


def _usable(features: Tensor, target: Tensor) -> bool:
    """Whether squares can be summed: one number shows NaN, infinity and overflow in any feature."""
    with torch.no_grad():
        return math.isfinite(features.square().sum() + target.square().sum())


def _poison_features(net: nn.Module, poisons: Tensor, precision: str) -> Tensor:
    return features_of(net, poisons.flatten(0, 1), precision).unflatten(0, poisons.shape[:2])


def _target_features(net: nn.Module, targets: Tensor, precision: str, target_batch: int | None) -> Tensor:
    parts = parts_of(len(targets), target_batch)
    return torch.cat([features_of(net, targets[part], precision) for part in parts])
