"""The training loop of this package.

All models are trained here: classifiers, translators, language models, stacks of linear heads. Studies differ in the arguments: the
loss, the augmentation, the schedule and, above all, the *gradient strategy*.

A gradient strategy is a function ``gradient(model, loss, batch) -> loss value`` that writes the gradient of one step to
``parameter.grad``. :func:`plain_gradient` is ordinary back-propagation; adversarial training is another strategy, not another loop. A
strategy with state has ``state_dict()`` and ``load_state_dict(state)``: the loop resets it with ``{}`` and saves its state in the
checkpoint.

The loop is deterministic and resumes exactly. Every epoch draws its sample order, augmentation and dropout masks from generators seeded
by (seed, epoch) alone. A checkpoint between epochs stores the parameters, the optimiser's moments and the epoch number. Within an epoch
it also stores the generators' states and the number of batches seen; on resuming, those batches are generated again and skipped.

A call has no side effect other than the trained model: torch's global generators return to their state before the call, every
module to its mode (training or evaluation), and every parameter to its ``grad``.

Under ``torchrun`` every process makes the same call with ``processes=relearn.methods.parallel`` and processes its share of every batch.
"""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods import fit_state
from relearn.methods.acceleration import compiled
from relearn.methods.augmentation import Augment, Mix, crop_and_flip
from relearn.methods.batch_source import Batch, Resident, Source, outputs, pixels, rows, share
from relearn.methods.cheap_dropout import cheap_masks
from relearn.methods.ema import EMA
from relearn.methods.fit_arguments import at_least_one, check_kinds, length_of, scalar_loss
from relearn.methods.fit_state import Checkpoint
from relearn.methods.loss_meter import LossMeter
from relearn.methods.memory_layout import layout
from relearn.methods.optimisers import OPTIMISERS, make_optimiser
from relearn.methods.processes import Processes, several
from relearn.methods.schedules import learning_rate

__all__ = ["Checkpoint", "Fitted", "Source", "crop_and_flip", "fit", "learning_rate", "plain_gradient"]

Loss = Callable[..., Tensor]
Gradient = Callable[[nn.Module, Loss, Sequence[Any]], Tensor]


@dataclass
class Fitted:
    """Result of a training run.

    Attributes:
        outcome: ``ok`` or ``diverged`` (a loss that is not finite, or above ``diverged_above``). Divergence is a result, not an
            exception.
        outcome_step: the optimisation step of the divergence (1 is the first), else ``None``.
        history: one dict per row (an epoch, or ``history_steps`` steps): ``epoch`` (epochs done, a fraction within one), ``step``
            (steps done), ``loss`` (mean over the samples since the last row), ``lr`` (of the last step), ``gradient_norm`` (mean over
            steps, before clipping; with ``clip_norm`` only), and the results of ``evaluate``.
        steps: optimisation steps taken, including those before a resume. Divergence is detected some steps late, but
            ``outcome_step`` is exact.
        average: with the setting ``average``, the averaged weights as a state dict for the same network; meaningless after a divergence.
    """

    outcome: str = "ok"
    outcome_step: int | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    steps: int = 0
    average: dict[str, Tensor] | None = field(default=None, repr=False, compare=False)


def plain_gradient(model: nn.Module, loss: Loss, batch: Sequence[Any]) -> Tensor:
    """Back-propagate ``loss(model(x), *rest)`` for ``batch = (x, *rest)``; a tuple ``x`` is unpacked."""
    value = scalar_loss(loss(outputs(model, batch[0]), *batch[1:]))
    value.backward()
    return value.detach()


def fit(
    model: nn.Module,
    data: Sequence[Tensor] | Source,
    *,
    loss: Loss,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    lr: float,
    optimizer: str = "sgd",
    momentum: float = 0.9,
    nesterov: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1.0e-8,
    weight_decay: float = 0.0,
    decay: str = "all",
    lr_scale: Mapping[str, float] | None = None,
    schedule: str = "cosine",
    schedule_steps: int | None = None,
    warmup_steps: int = 0,
    milestones: Sequence[float] = (),
    clip_norm: float | None = None,
    augment: Augment | None = None,
    mix: Mix | None = None,
    gradient: Gradient = plain_gradient,
    training_mode: bool = True,
    seed: int = 0,
    precision: str = "fp32",
    terms: Callable[..., Tensor | float] | None = None,
    diverged_above: float | None = None,
    check_every: int = 100,
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
    evaluate_every: int = 1,
    average: float | None = None,
    evaluate_average: Callable[[nn.Module], Mapping[str, float]] | None = None,
    history_steps: int | None = None,
    log: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    checkpoint_every: int = 1,
    checkpoint_steps: int | None = None,
    processes: Processes | None = None,
) -> Fitted:
    """Train ``model`` in place.

    Args:
        model: called with the first item of a batch (see :mod:`relearn.methods.batch_source`); training runs on its parameters' device.
        data: tensors of the same first dimension, the first of which is the input, preferably already on that device; or a ``Source`` of
            batches. ``uint8`` inputs are treated as images and converted to floats in [0, 1] on the device.
        loss: ``loss(output, *rest)`` → scalar, a mean over the batch.
        epochs, steps: length of training; the shorter one if both are given, at least one is required.
        batch_size: for tensors only; a last batch of a single sample is dropped (batch normalisation cannot use it).
        optimizer, lr, momentum, nesterov, betas, eps, weight_decay, decay, lr_scale: see :func:`relearn.methods.optimisers.make_optimiser`.
        schedule, warmup_steps: learning-rate schedule per step, see :func:`learning_rate`.
        schedule_steps: length of the schedule; by default all ``epochs``, even if ``steps`` ends earlier, else ``steps``.
        milestones: milestones of the ``step`` schedule, in epochs.
        clip_norm: maximum L2 norm of the whole gradient; ``inf`` only records the norm.
        augment, mix: applied to the float input, and then to the batch; see :mod:`relearn.methods.augmentation`.
        gradient: the gradient strategy.
        training_mode: ``False`` keeps the model in eval mode (frozen batch statistics, no dropout).
        seed: seed of the order, the augmentation and the dropout masks.
        precision: ``fp32``, or ``bf16`` for autocast. Images may be channels_last (:mod:`relearn.methods.memory_layout`).
        terms: ``terms(*rest)`` → number of terms in the mean of ``loss`` (tokens, for example); by default the number of rows. It weights
            the history's mean, and the processes' shares in data parallel training.
        diverged_above: a loss above this value counts as a divergence.
        check_every: steps between checks for divergence; each check synchronises with the device.
        evaluate: ``evaluate(model)`` in eval mode, every ``evaluate_every`` rows of the history and at the end; its results are added to
            the row. It may draw random numbers without affecting training.
        average: decay of an exponential moving average of the weights, see :mod:`relearn.methods.ema`; it does not affect training.
        evaluate_average: like ``evaluate``, with the averaged weights in ``model``; its results are added to the row as ``ema_…``.
        history_steps: steps per row of the history; by default one row per epoch.
        log: called for every row as ``log(step, loss=…, lr=…, …)``.
        progress: called once per step as ``progress(done, all)``. If it raises an exception, training stops; with a checkpoint and a
            single process, the state is saved first.
        checkpoint: training resumes from its state if it has one; saved every ``checkpoint_every`` epochs, and every
            ``checkpoint_steps`` steps.
        processes: :mod:`relearn.methods.parallel` for data parallel training, None for one process.

    In data parallel training only the first process logs, reports progress and saves; all processes evaluate.

    Raises:
        ValueError: an unknown or impossible setting; tensors of unequal length; fewer than 2 samples; no parameter to train.
        TypeError: data or an optimiser of an unsupported type, such as a ``DataLoader``.
    """
    check_kinds(data, optimizer, OPTIMISERS)
    if isinstance(data, Source):
        if batch_size is not None:
            raise ValueError(
                f"batch_size: found {batch_size}, but the source makes the batches (allowed: none)"
            )
        source = data
    else:
        if batch_size is None:
            raise ValueError("batch_size: missing (required for tensors)")
        source = Resident(data, batch_size)
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision: found {precision!r}, allowed are fp32, bf16")
    at_least_one(
        check_every=check_every,
        evaluate_every=evaluate_every,
        history_steps=history_steps,
        checkpoint_every=checkpoint_every,
        checkpoint_steps=checkpoint_steps,
        schedule_steps=schedule_steps,
    )
    if clip_norm is not None and not clip_norm > 0:
        raise ValueError(f"clip_norm: found {clip_norm}, allowed is more than 0, or none at all")
    if evaluate_average and average is None:
        raise ValueError("evaluate_average: there is no average to evaluate; set its decay (average)")
    per_epoch = source.batches_per_epoch
    planned = None if epochs is None else epochs * per_epoch
    length = length_of(planned, steps)
    horizon = schedule_steps or planned or length
    milestone_steps = [milestone * per_epoch for milestone in milestones]
    learning_rate(lr, schedule, 0, max(horizon, 1), (), warmup_steps)
    stepper = make_optimiser(
        model,
        optimizer,
        lr=lr,
        momentum=momentum,
        nesterov=nesterov,
        betas=betas,
        eps=eps,
        weight_decay=weight_decay,
        decay=decay,
        lr_scale=lr_scale,
    )
    trained = [parameter for group in stepper.param_groups for parameter in group["params"]]
    device = trained[0].device
    rank, size, parallel = several(processes)
    if isinstance(source, Resident) and source.smallest < size:
        raise ValueError(
            f"batch_size: the last batch has {source.smallest} rows for {size} processes; choose another batch size"
        )

    fitted, epoch, done, rate = Fitted(), 0, 0, lr
    meter = LossMeter(diverged_above, parallel.add_up if parallel else None)
    resumed: dict[str, Tensor] | None = None
    state = checkpoint.load() if checkpoint and rank == 0 else None
    if parallel:
        state = parallel.from_first(state)
        parallel.same_start(model)
    fit_state.restore_strategy(gradient, (state or {}).get("strategy", {}), rank, size)
    if state is not None:
        fit_state.restore(state, model, stepper)
        fitted.steps, fitted.history = int(state["steps"]), list(state["history"])
        epoch, done = int(state["epoch"]), int(state.get("done", 0))
        meter.restore(state.get("ledger", meter.state()))
        rate = float(state.get("rate", lr))
        if done:
            # If the number of processes has changed, only the loop's own generator is restored; the others start anew.
            random = state["random"]
            resumed = random.get(str(rank), {"draws": random["0"]["draws"]})

    def close(position: float, last: bool) -> None:
        """Append a row to the history."""
        row = {"epoch": float(position), "step": float(fitted.steps), **meter.row(), "lr": rate}
        if last or (len(fitted.history) + 1) % evaluate_every == 0:
            if evaluate:
                row.update(_evaluated(model, evaluate, training_mode, device))
            if evaluate_average and mean:
                with mean.inside():
                    found = _evaluated(model, evaluate_average, training_mode, device)
                row.update({f"ema_{key}": value for key, value in found.items()})
        fitted.history.append(row)
        if log and rank == 0:
            log(fitted.steps, **{key: value for key, value in row.items() if key not in ("epoch", "step")})

    def save() -> None:
        assert checkpoint is not None
        random = {str(rank): fit_state.random_state(device, draws)} if done else {}
        strategy = {str(rank): fit_state.strategy_state(gradient)}
        if parallel:
            random, strategy = parallel.merged(random), parallel.merged(strategy)
        if rank == 0:
            kept = {"epoch": epoch, "done": done, "steps": fitted.steps, "history": fitted.history}
            kept |= {"rate": rate, "ledger": meter.state(), "random": random, "strategy": strategy}
            kept |= mean.capture() if mean else {}
            checkpoint.save({**fit_state.capture(model, stepper), **kept})

    def over() -> bool:
        return (steps is not None and fitted.steps >= steps) or (epochs is not None and epoch >= epochs)

    def ends_row() -> bool:  # the last row is closed behind the loop
        return history_steps is not None and fitted.steps % history_steps == 0 and fitted.steps != length

    def diverged() -> bool:
        late = meter.settle()
        if late is not None:
            fitted.outcome, fitted.outcome_step = "diverged", fitted.steps - late
        return late is not None

    with contextlib.ExitStack() as stack:
        stack.enter_context(fit_state.as_before(model))
        form = layout(model, device, precision)
        if form is torch.channels_last and any(parameter.dim() == 4 for parameter in trained):
            model.to(memory_format=form)  # type: ignore[call-overload]
        mean = None if average is None else EMA(model, average)
        if mean and state is not None:
            mean.restore(state)
        if parallel:
            stack.enter_context(parallel.synchronised(model, device))
        stack.enter_context(cheap_masks([model]))
        stack.enter_context(compiled(model))
        model.train(training_mode)
        while not over() and fitted.outcome == "ok":
            # Seeded by (seed, epoch), so a resumed run draws the same numbers as an uninterrupted one.
            epoch_seed = zlib.crc32(f"{seed}/{epoch}".encode())
            generator = torch.Generator().manual_seed(epoch_seed)
            # A source may draw ahead of the loop, so the loop has its own generator.
            draws = generator
            if source is data:
                draws = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{epoch}/loop".encode()))
            torch.manual_seed(zlib.crc32(f"{seed}/{epoch}/{rank}".encode()) if rank else epoch_seed)
            batches = itertools.islice(source.epoch(generator), done, None)
            for index, batch in enumerate(batches):
                if index == 0 and resumed is not None:
                    fit_state.set_random_state(resumed, device, draws)
                    resumed = None
                rate = learning_rate(lr, schedule, fitted.steps, horizon, milestone_steps, warmup_steps)
                for group in stepper.param_groups:
                    group["lr"] = rate * group["lr_scale"]
                batch = _prepared(batch, device, form, augment, mix, draws)
                weight = terms(*batch[1:]) if terms else rows(batch)
                objective = loss
                if parallel:
                    batch = share(batch, rank, size)
                    objective = parallel.weighted(loss, terms(*batch[1:]) if terms else rows(batch), weight)
                stepper.zero_grad(set_to_none=True)
                with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                    value = gradient(model, objective, batch)
                if parallel:
                    parallel.add_gradients(trained)
                norm = None if clip_norm is None else nn.utils.clip_grad_norm_(trained, clip_norm)
                stepper.step()
                meter.add(value, weight, norm)
                fitted.steps += 1
                done += 1
                if mean:
                    mean.update(fitted.steps)
                if progress and rank == 0:
                    try:
                        progress(fitted.steps, length)
                    except BaseException:  # no step is lost if interrupted between two steps
                        if checkpoint and not parallel and not diverged():
                            if ends_row() and not over():
                                close(epoch + done / per_epoch, False)
                            save()
                        raise
                if fitted.steps % check_every == 0 and diverged():
                    break
                if steps is not None and fitted.steps >= steps:
                    break
                if ends_row():
                    if diverged():
                        break
                    close(epoch + done / per_epoch, False)
                if checkpoint and checkpoint_steps and fitted.steps % checkpoint_steps == 0:
                    if diverged():
                        break
                    save()
            else:
                if not done:
                    raise ValueError(f"data: epoch {epoch + 1} has no batch (required: at least one)")
                epoch, done, resumed = epoch + 1, 0, None
                if diverged():
                    break
                if meter and (over() or not history_steps):
                    close(epoch, over())
                if checkpoint and epoch % checkpoint_every == 0 and not over():
                    save()
        if fitted.outcome == "ok" and meter and not diverged():
            close(epoch + done / per_epoch, True)
        if mean:
            fitted.average = mean.state_dict(model)
    return fitted


def _prepared(
    batch: Batch,
    device: torch.device,
    form: torch.memory_format,
    augment: Augment | None,
    mix: Mix | None,
    generator: torch.Generator,
) -> list[Any]:
    """The batch on the device, as floats, augmented and mixed."""
    ready = pixels(batch, device)
    if augment:
        ready[0] = augment(ready[0], generator)
    if mix:
        ready = mix(ready, generator)
    if isinstance(ready[0], Tensor) and ready[0].dim() == 4:
        ready[0] = ready[0].to(memory_format=form)
    return ready


def _evaluated(
    model: nn.Module,
    evaluate: Callable[[nn.Module], Mapping[str, float]],
    training_mode: bool,
    device: torch.device,
) -> dict[str, float]:
    model.eval()
    with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        found = dict(evaluate(model))
    model.train(training_mode)
    return found
