"""One extra epoch before training: the simplest baseline for a learned initialisation.

zhu2022, table 4.4, rows "+1 epoch": "first train the network for one epoch with a constant learning rate equal to the starting learning
rate", or "with a linear warmup learning rate". The trained weights are kept, the optimiser's state is discarded, and training then
starts from the beginning.

The steps are those of :func:`relearn.methods.fit.fit`. With ``warmup`` the learning rate rises linearly to ``lr`` over all ``steps``.

Differs from the text: following the contract of the initialisations (methods/initialised.py), the running statistics of batch
normalisation are restored. With momentum 0.1, the first hundred training steps replace them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.fit import Checkpoint, fit
from relearn.methods.initialised import Initialised
from relearn.methods.learned_scales import repeated

SCHEDULES = ("constant", "warmup")


def extra_epoch(
    model: nn.Module,
    loss: Callable[..., Tensor],
    batches: Iterable[Sequence[Any]],
    *,
    lr: float = 0.1,
    schedule: str = "constant",
    steps: int = 390,
    optimizer: str = "sgd",
    momentum: float = 0.9,
    betas: tuple[float, float] = (0.9, 0.999),
    weight_decay: float = 1e-4,
    decay: str = "all",
    clip_norm: float | None = None,
    seed: int = 0,
    precision: str = "fp32",
    log: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    checkpoint_every: int = 0,
) -> Initialised:
    """Train ``model`` in place for ``steps`` steps, one batch each.

    Args:
        model, loss, batches: see :mod:`relearn.methods.initialised`; dropout is on, as in training.
        schedule: ``constant``, or ``warmup`` from 0 to ``lr``.
        steps: steps of one epoch (390 batches of 128 on CIFAR-10).
        optimizer, lr, momentum, betas, weight_decay, decay, clip_norm, precision: as in :func:`relearn.methods.fit.fit`.
        seed: seed of the dropout masks.
        log, progress, checkpoint: as in ``fit``; saved every ``checkpoint_every`` steps (0: never).

    Returns:
        ``scales`` is empty. ``history`` has one row with ``step``, ``loss`` (mean) and ``lr``. A non-finite loss gives the
        outcome ``diverged``.

    Raises:
        ValueError: a setting is out of range, or there are too few batches.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule: found {schedule!r}, allowed are {', '.join(SCHEDULES)}")
    if steps < 1:
        raise ValueError(f"steps: found {steps}, allowed: at least 1")
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        fitted = fit(
            model,
            _Once(batches, steps),
            loss=loss,
            steps=steps,
            lr=lr,
            optimizer=optimizer,
            momentum=momentum,
            betas=betas,
            weight_decay=weight_decay,
            decay=decay,
            schedule="constant",
            warmup_steps=steps if schedule == "warmup" else 0,
            clip_norm=clip_norm,
            seed=seed,
            precision=precision,
            log=log,
            progress=progress,
            checkpoint=checkpoint,
            checkpoint_steps=checkpoint_every or None,
        )
    finally:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
    rows: list[dict[str, float | str]] = [
        {"step": float(fitted.steps), "kind": "training", **row} for row in fitted.history
    ]
    diverged = fitted.outcome != "ok"
    reason = f"{fitted.outcome} in the extra epoch" if diverged else None
    return Initialised(
        history=rows, outcome=fitted.outcome, outcome_step=fitted.outcome_step, outcome_reason=reason
    )


class _Once:
    """A source of one epoch that yields an iterator's batches in their order."""

    def __init__(self, batches: Iterable[Sequence[Any]], steps: int) -> None:
        self.batches, self.batches_per_epoch = batches, steps

    def epoch(self, generator: torch.Generator) -> Iterator[Sequence[Any]]:
        return repeated(self.batches, self.batches_per_epoch)
