"""The one training loop.

Everything that trains in this package trains here: a classifier, a stack of linear heads, later a language model. What changes
from study to study is an argument: the loss, the augmentation, the schedule and, above all, the *gradient step*.

A gradient strategy is a function ``gradient(model, loss, batch) -> loss value`` that leaves the gradient of one step in
``parameter.grad``. :func:`plain_gradient` is ordinary back-propagation; adversarial training and the like are other strategies,
never other loops.

The loop is deterministic and resumes exactly: every epoch draws its order, its augmentation and its dropout masks from generators
seeded by (seed, epoch) alone, so that nothing but parameters, optimiser moments and the epoch number has to be kept.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

Loss = Callable[..., Tensor]
Gradient = Callable[[nn.Module, Loss, Sequence[Tensor]], Tensor]
Augment = Callable[[Tensor, torch.Generator], Tensor]


class Checkpoint(Protocol):
    """Where a procedure keeps its state: a dict of tensors and plain values, written atomically."""

    def load(self) -> dict[str, Any] | None: ...

    def save(self, state: dict[str, Any]) -> None: ...


@dataclass
class Fitted:
    """How a training run ended.

    Attributes:
        outcome: ``ok`` or ``diverged`` (a loss that is not finite). Divergence is a result, not an exception.
        outcome_step: the optimisation step of the divergence, else ``None``.
        history: one dict an epoch: ``epoch``, ``loss`` (mean over samples), ``lr``.
        steps: optimisation steps taken, resumed ones included.
    """

    outcome: str = "ok"
    outcome_step: int | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    steps: int = 0


def plain_gradient(model: nn.Module, loss: Loss, batch: Sequence[Tensor]) -> Tensor:
    """Back-propagation of ``loss(model(x), *rest)`` for ``batch = (x, *rest)``."""
    value = loss(model(batch[0]), *batch[1:])
    value.backward()
    return value.detach()


def learning_rate(lr: float, schedule: str, step: int, steps: int, milestones: Sequence[int] = ()) -> float:
    r"""Learning rate of optimisation step ``step`` (0-based) of ``steps``.

    ``cosine``: :math:`\eta_t = \eta\,(1 + \cos(\pi t / T)) / 2`. ``step``: :math:`\eta_t = \eta \cdot 0.1^{|\{m : m \le t\}|}`
    with ``milestones`` in steps. ``constant``: :math:`\eta`.

    Raises:
        ValueError: for another name.
    """
    if schedule == "cosine":
        return lr * (1.0 + math.cos(math.pi * step / steps)) / 2.0
    if schedule == "step":
        return lr * 0.1 ** sum(step >= milestone for milestone in milestones)
    if schedule == "constant":
        return lr
    raise ValueError(f"schedule: found {schedule!r}, allowed are cosine, step, constant")


def crop_and_flip(padding: int, flip: bool) -> Augment:
    """Augmentation of image batches (B, C, H, W): a random crop after zero padding, then a random horizontal flip.

    Each image has its own offset and its own coin, drawn from the given generator on the CPU (so that the draw does not depend on the
    device); the work is done where the images are, without a loop.
    """

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        batch, _, height, width = images.shape
        if padding:
            offsets = torch.randint(0, 2 * padding + 1, (2, batch), generator=generator).to(images.device)
            padded = nn.functional.pad(images, (padding,) * 4)
            rows = offsets[0][:, None] + torch.arange(height, device=images.device)
            columns = offsets[1][:, None] + torch.arange(width, device=images.device)
            which = torch.arange(batch, device=images.device)[:, None, None]
            images = padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(
                0, 3, 1, 2
            )
        if flip:
            coins = torch.rand(batch, generator=generator).to(images.device) < 0.5
            images = torch.where(coins[:, None, None, None], images.flip(3), images)
        return images

    return augment


def fit(
    model: nn.Module,
    data: Sequence[Tensor],
    *,
    loss: Loss,
    epochs: int,
    batch_size: int,
    lr: float,
    optimizer: str = "sgd",
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    schedule: str = "cosine",
    milestones: Sequence[int] = (),
    augment: Augment | None = None,
    gradient: Gradient = plain_gradient,
    training_mode: bool = True,
    seed: int = 0,
    precision: str = "fp32",
    log: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    checkpoint_every: int = 1,
) -> Fitted:
    """Train ``model`` in place on tensors that are already where they are needed.

    Args:
        model: called with the first tensor of a batch; floating point, its parameters' device decides.
        data: tensors of the same first dimension; the first is the input. ``uint8`` inputs are images and become floats in [0, 1].
        loss: ``loss(output, *rest)`` → scalar, a mean over the batch.
        epochs, batch_size: a last batch of a single sample is left out (batch normalisation cannot use it).
        lr, schedule, milestones: see :func:`learning_rate`; ``milestones`` are counted in epochs here.
        optimizer: ``sgd`` (with ``momentum``) or ``adam`` (betas 0.9, 0.999); ``weight_decay`` is the L2 term of the gradient.
        augment: applied to float inputs, see :func:`crop_and_flip`.
        gradient: the strategy that makes one step's gradient.
        training_mode: ``False`` keeps the model in eval mode (frozen batch statistics, no dropout).
        seed: of the order, the augmentation and the dropout masks.
        precision: ``fp32``, or ``bf16`` for autocast (and channels_last for image inputs).
        log: called once an epoch as ``log(step, loss=…, lr=…)``.
        progress: called once a step as ``progress(done, all)``.
        checkpoint: resumed from when it holds a state; saved every ``checkpoint_every`` epochs.

    Raises:
        ValueError: unknown optimizer, schedule or precision; tensors of unequal length; fewer than 2 samples.
    """
    count = len(data[0])
    if any(len(tensor) != count for tensor in data):
        raise ValueError(f"data: tensors of unequal length {[len(tensor) for tensor in data]}")
    if count < 2:
        raise ValueError(f"data: {count} samples, at least 2 are needed")
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision: found {precision!r}, allowed are fp32, bf16")
    per_epoch = count // batch_size + (count % batch_size > 1)
    steps = epochs * per_epoch
    learning_rate(lr, schedule, 0, max(steps, 1))
    stepper = _optimizer(model, optimizer, lr, momentum, weight_decay)
    fitted, first_epoch = Fitted(), 0
    state = checkpoint.load() if checkpoint else None
    if state is not None:
        first_epoch = _restore(state, model, stepper, fitted)

    device = next(model.parameters()).device
    if data[0].dim() == 4 and precision == "bf16":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.train(training_mode)
    for epoch in range(first_epoch, epochs):
        # Seeded by (seed, epoch): a resumed run draws what the uninterrupted one would have drawn.
        epoch_seed = zlib.crc32(f"{seed}/{epoch}".encode())
        generator = torch.Generator().manual_seed(epoch_seed)
        torch.manual_seed(epoch_seed)
        values, sizes, rate = [], [], lr
        for batch in _batches(data, batch_size, generator, augment, precision):
            rate = learning_rate(lr, schedule, fitted.steps, steps, [m * per_epoch for m in milestones])
            for group in stepper.param_groups:
                group["lr"] = rate
            stepper.zero_grad(set_to_none=True)
            with _autocast(device, precision):
                value = gradient(model, loss, batch)
            stepper.step()
            values.append(value)
            sizes.append(len(batch[0]))
            fitted.steps += 1
            if progress:
                progress(fitted.steps, steps)
        losses = torch.stack(values).double().cpu()  # the one host synchronisation of an epoch
        if not losses.isfinite().all():
            first = int((~losses.isfinite()).nonzero()[0])
            fitted.outcome, fitted.outcome_step = "diverged", fitted.steps - len(values) + first + 1
            break
        mean = float((losses * torch.tensor(sizes)).sum() / sum(sizes))
        fitted.history.append({"epoch": epoch + 1.0, "loss": mean, "lr": rate})
        if log:
            log(fitted.steps, loss=mean, lr=rate)
        if checkpoint and (epoch + 1) % checkpoint_every == 0 and epoch + 1 < epochs:
            checkpoint.save(_state(model, stepper, fitted, epoch + 1))
    model.eval()
    return fitted


def _batches(
    data: Sequence[Tensor],
    batch_size: int,
    generator: torch.Generator,
    augment: Augment | None,
    precision: str,
) -> Iterator[list[Tensor]]:
    order = torch.randperm(len(data[0]), generator=generator).to(data[0].device)
    for rows in order.split(batch_size):
        if len(rows) < 2:
            continue
        batch = [tensor[rows] for tensor in data]
        if batch[0].dtype == torch.uint8:
            batch[0] = batch[0].float() / 255.0
        if augment:
            batch[0] = augment(batch[0], generator)
        if batch[0].dim() == 4 and precision == "bf16":
            batch[0] = batch[0].to(memory_format=torch.channels_last)
        yield batch


def _optimizer(
    model: nn.Module, name: str, lr: float, momentum: float, decay: float
) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay)
    if name == "adam":
        return torch.optim.Adam(parameters, lr=lr, weight_decay=decay)
    raise ValueError(f"optimizer: found {name!r}, allowed are sgd, adam")


def _autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _state(model: nn.Module, stepper: torch.optim.Optimizer, fitted: Fitted, epoch: int) -> dict[str, Any]:
    state: dict[str, Any] = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for index, moments in stepper.state_dict()["state"].items():
        for name, value in moments.items():
            if value is not None:
                state[f"optimizer/{index}/{name}"] = torch.as_tensor(value)
    return {**state, "epoch": epoch, "steps": fitted.steps, "history": fitted.history}


def _restore(state: dict[str, Any], model: nn.Module, stepper: torch.optim.Optimizer, fitted: Fitted) -> int:
    model.load_state_dict({k.removeprefix("model/"): v for k, v in state.items() if k.startswith("model/")})
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in state.items():
        if key.startswith("optimizer/"):
            _, index, name = key.split("/")
            moments.setdefault(int(index), {})[name] = value
    stepper.load_state_dict({"state": moments, "param_groups": stepper.state_dict()["param_groups"]})
    fitted.steps, fitted.history = int(state["steps"]), list(state["history"])
    return int(state["epoch"])
