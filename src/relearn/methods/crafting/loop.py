"""The crafting loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.eval_mode import frozen
from relearn.methods.acceleration import compiled
from relearn.methods.cheap_dropout import cheap_masks
from relearn.methods.crafting.arguments import check, checked, networks_of, parts_of, pixel_std_of
from relearn.methods.crafting.evaluation import evaluate, usable
from relearn.methods.crafting.folding import folded
from relearn.methods.crafting.networks import (
    OffDropout,
    dropout_active,
    random_state,
    seeded,
    set_random_state,
)
from relearn.methods.crafting.objective import Objective, OnFeatures, as_objective, reading
from relearn.methods.crafting.state import State, fingerprint
from relearn.methods.crafting.target_side import TargetSide
from relearn.methods.fit_state import Checkpoint
from relearn.methods.memory_layout import layout


@dataclass
class Crafted:
    """Result of crafting.

    Attributes:
        poisons: (T, k, C, H, W), pixels in [0, 1], inside the ball; `quantise` converts them to 8-bit images.
        bases: (T, k, C, H, W) the centres of the ball: the clean bases, unless the attack starts elsewhere.
        final_loss: (T,) the objective at the final poisons, summed over substitutes, without dropout.
        coefficients: from the same evaluation, for each substitute (T, k), or with an axis for layers (T, L, k), or None if the
            objective has none.
        watched: (V, T) the objective at the final poisons in the V watched networks, without dropout; None if none are watched.
        history: one row per iteration, measured before its step: iteration (from 1), loss_sum (over substitutes; mean over
            targets), loss_mean (loss_sum / m, the axis of figure 2.3), and watch (the loss of each watched network) when evaluated.
        outcome: "ok", or "diverged": the poisons are then those before iteration `outcome_step`.
        outcome_reason: which quantity was not finite.
    """

    poisons: Tensor
    bases: Tensor
    final_loss: Tensor
    coefficients: list[Tensor | None] = field(default_factory=list)
    watched: Tensor | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    outcome: str = "ok"
    outcome_step: int | None = None
    outcome_reason: str | None = None


def craft(
    objective: Objective | OnFeatures,
    substitutes: Iterable[nn.Module],
    bases: Tensor,
    targets: Tensor,
    *,
    eps: float = 0.1,
    lr: float = 0.04,
    iterations: int = 4000,
    dropout: bool = True,
    seed: int = 0,
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
    """Craft poisons for every target; the defaults are the published values (zhu2022, section 2.2.8).

    Args:
        objective: the attack; for one on pooled features a function (features (T, k, d), target (T, d), last
            coefficients or None) -> loss (T,), coefficients (T, k) or None is sufficient.
        substitutes: networks with the methods read by the objective (`features(images (B, C, H, W)) -> (B, d)`),
            which standardise the pixels themselves. They run in eval mode without weight gradients; their state is
            restored, but not their memory format: it is channels_last afterwards where that is faster.
        bases: clean poison images, (k, C, H, W) for all targets or (T, k, C, H, W), float32 or float64 pixels in [0, 1].
        targets: (T, C, H, W), likewise.
        eps: largest change of a pixel, on the [0, 1] scale: 8/255, not 8.
        lr: Adam's learning rate on standardised pixels; betas (0.9, 0.999), no decay.
        iterations: Adam steps.
        dropout: whether the substitutes' dropout layers are active while crafting. They must be modules: a call such as
            ``F.dropout(x, p, self.training)`` would stay off and is refused. Attention's ``dropout_p`` stays off unseen.
        seed: seed of the dropout masks. The global random state is restored.
        target_dropout: masks of the target's features: "resampled" each iteration (the text), "fixed" (drawn
            once, the published code) or "off". Without dropout the features are computed once.
        pixel_std: per channel, or one number; Adam acts on pixels / pixel_std. Default: the substitutes'
            `std` buffer, or 1 if they have none.
        precision: "fp32" (no autocast: the images' own dtype) or "bf16" (autocast around the substitutes).
        target_batch: targets per forward pass, to bound memory; default all, halved whenever an accelerator runs
            out of memory. Only the dropout masks depend on it.
        watch: (every, networks): also evaluate the loss in these networks, without dropout, at this interval and
            at the last iteration.
        progress: called as progress(finished, iterations) after each iteration.
        log: called as log(iteration, loss_sum=..., loss_mean=...) after each, with watch_0=..., watch_1=...
            when evaluated. An exception from log or progress stops the run, after saving a checkpoint if there
            is one.
        checkpoint: crafting resumes from its state if it has one; saved every `checkpoint_every` iterations and
            at the end. A resumed run gives the same bits on a CPU. A state of another attack, other networks, images or settings
            is refused; iterations, target_batch and watch may change.

    Raises:
        TypeError, ValueError: an invalid argument or saved state. A non-finite loss is not an error but
            the outcome "diverged".
    """
    objective = as_objective(objective)
    substitutes = checked(substitutes, bases, targets, objective.needs)
    every, watched = (watch[0], networks_of(watch[1], objective.needs, "watch")) if watch else (None, ())
    counts = {"iterations": iterations, "target_batch": target_batch, "checkpoint_every": checkpoint_every}
    check(eps, lr, dropout, target_dropout, precision, **counts, watch=every)
    bases, targets = bases.detach().expand(len(targets), *bases.shape[-4:]), targets.detach()
    state = State(bases.clone(), eps)
    std = pixel_std_of(substitutes, pixel_std, state.poisons)
    parts = parts_of(len(targets), target_batch, objective.at_once)
    reason = None
    if checkpoint is not None:
        settings = (float(eps), float(lr), dropout, int(seed), target_dropout, precision)
        weights = (one for net in substitutes for one in net.state_dict().values() if isinstance(one, Tensor))
        state.made_from = fingerprint(settings, objective, (std, bases, targets, *weights))

    def losses_in(networks: Sequence[nn.Module]) -> tuple[Tensor, list[Tensor | None]]:
        options: dict[str, Any] = {"precision": precision, "target_batch": target_batch}
        return evaluate(objective, networks, state.poisons, targets, **options)

    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(frozen(*substitutes, *watched))
        for i, net in enumerate(substitutes if dropout else ()):
            with seeded(seed, targets.device), dropout_active(net, True), OffDropout() as off:
                reading(objective.part(slice(0, 1)).read, net, bases[:1], precision)
            if off.seen:
                raise ValueError(
                    f"substitutes[{i}]: found a functional dropout, which stays off; allowed: nn.Dropout, or dropout=False"
                )
        stack.enter_context(seeded(seed, targets.device))
        stack.enter_context(cheap_masks(substitutes))
        for net in substitutes:
            stack.enter_context(dropout_active(net, dropout))
            if layout(net, targets.device, precision) is torch.channels_last:
                net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if objective.folds:
            stack.enter_context(folded([*substitutes, *watched], precision))
        for net in substitutes:
            stack.enter_context(compiled(net, "features"))
        masks = target_dropout if dropout else "off"
        target_side = TargetSide(objective, substitutes, targets, masks, precision, parts)
        if checkpoint is not None and (saved := checkpoint.load()) is not None:
            state.restore(saved, iterations)

        while state.iteration < iterations:
            step = state.iteration + 1
            before = random_state(targets.device), dict(state.coefficients)
            try:
                loss, gradient, reason = _gradient(
                    objective, substitutes, state, target_side, parts, precision
                )
            except torch.OutOfMemoryError:
                size = parts[0].stop - parts[0].start
                if size == 1:
                    raise
                target_batch = (size + 1) // 2
                parts = parts_of(len(targets), target_batch, objective.at_once)
                set_random_state(targets.device, before[0])
                state.coefficients = before[1]
                continue
            if reason is not None:
                break
            row: dict[str, Any] = {"iteration": step, "loss_sum": loss, "loss_mean": loss / len(substitutes)}
            if every and (step % every == 0 or step == iterations):
                row["watch"] = losses_in(watched)[0].mean(-1).tolist()
            state.step(gradient, std, lr)
            state.history.append(row)
            if checkpoint is not None and (step % checkpoint_every == 0 or step == iterations):
                checkpoint.save(state.dump())
            try:
                if log is not None:
                    log(step, **_metrics(row))
                if progress is not None:
                    progress(step, iterations)
            except BaseException:  # an interruption between two iterations loses no iteration
                if checkpoint is not None:
                    checkpoint.save(state.dump())
                raise

    losses, coefficients = losses_in(substitutes)
    result = Crafted(state.poisons, bases, losses.sum(0), coefficients)
    result.history = state.history
    if watched:
        result.watched = losses_in(watched)[0]
    if reason is not None:
        result.outcome, result.outcome_step, result.outcome_reason = "diverged", state.iteration + 1, reason
    return result


def _gradient(
    objective: Objective,
    substitutes: Sequence[nn.Module],
    state: State,
    target_side: TargetSide,
    parts: Sequence[slice],
    precision: str,
) -> tuple[float, Tensor, str | None]:
    """Loss (sum over substitutes, mean over targets), its gradient w.r.t. the poisons, and the reason if either is not finite."""
    gradient = torch.zeros_like(state.poisons)
    losses = state.poisons.new_zeros(len(state.poisons))
    for i, net in enumerate(substitutes):
        found: list[Tensor] = []
        for part in parts:
            target = target_side.of(i, part)
            poisons = state.poisons[part].detach().requires_grad_()
            read = reading(objective.read, net, poisons, precision)
            if not usable(read, target):
                what = f"the reading of substitute {i}, or its square, is not finite"
                return math.nan, gradient, what
            last = state.coefficients[i][part] if i in state.coefficients else None
            loss, coefficients = objective.part(part).loss(read, target, last)
            gradient[part] += torch.autograd.grad(loss.sum(), poisons)[0]
            losses[part] += loss.detach()
            if coefficients is not None:
                found.append(coefficients)
        if found:
            state.coefficients[i] = torch.cat(found)
    mean = float(losses.mean())
    if not math.isfinite(mean):
        bad = (~losses.isfinite()).nonzero().flatten().tolist() or range(len(losses))
        return mean, gradient, f"the loss is not finite, of target {', '.join(map(str, bad))}"
    if not torch.isfinite(gradient).all():
        return mean, gradient, "the gradient is not finite"
    return mean, gradient, None


def _metrics(row: dict[str, Any]) -> dict[str, float]:
    watched = {f"watch_{i}": value for i, value in enumerate(row.get("watch", ()))}
    return {"loss_sum": row["loss_sum"], "loss_mean": row["loss_mean"]} | watched
