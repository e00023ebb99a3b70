"""End-to-end victims: all layers of a pre-trained network are trained on the poisoned set (zhu2022, 2.2.8.3).

The text gives Adam, a learning rate of 1e-4 and "overfit". Weight decay 5e-4, 60 epochs, ×0.1 after epochs 30 and 45, batches of 64
and frozen batch statistics (the network stays in eval mode, without dropout) are taken from the released code. Each attack gets its own
network, because all layers change and nothing can be shared between targets.

The Deep k-NN defence's public code trains the linear head alone but leaves the network in training mode, so batches are normalised by
their own statistics, and the running statistics are updated: ``head_only=True, training_mode=True``.

Strong augmentation as a defence (Borgnia et al., ICASSP 2021): mixup or CutMix of every batch, so that no poison is fitted alone. Both act
on images, and the labels are those of the mixed pixels; only a victim that trains its layers sees them. For a linear head on frozen
features mixup would be a mixture of features, which the head maps to the mixture of its logits, and CutMix has no counterpart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relearn.methods.augmentation import Mix
from relearn.methods.batch_source import pixels
from relearn.methods.fit import Fitted, fit


def fine_tune_network(
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    epochs: int = 60,
    batch_size: int = 64,
    lr: float = 1.0e-4,
    weight_decay: float = 5.0e-4,
    milestones: Sequence[int] = (30, 45),
    head_only: bool = False,
    reset_head: bool = False,
    training_mode: bool = False,
    mix: Mix | None = None,
    seed: int = 0,
    precision: str = "fp32",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[nn.Module, Fitted]:
    """Train all layers of a copy of ``network`` on (n, C, H, W) images; ``network`` itself is not changed.

    The copy is returned in eval mode.

    Args:
        images: uint8, or floats in [0, 1].
        labels: (n,) int64, as given to the victim (poisons carry the poison class).
        head_only: train ``network.head`` and no other layer.
        reset_head: start from a newly initialised head, drawn on the CPU.
        training_mode: normalise batches by their own statistics and update the running ones; dropout is active.
        mix: mixture of images and labels (:mod:`relearn.methods.mixing`), a defence.
        epochs, batch_size, lr, weight_decay, milestones, seed, precision: as in :func:`relearn.methods.fit.fit`.

    Raises:
        ValueError: as in ``fit``. Divergence is reported in the returned ``Fitted``.
    """
    tuned: Any = copy.deepcopy(network)
    if reset_head:
        device = next(tuned.head.parameters()).device
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed every GPU, too
            tuned.head.cpu().reset_parameters()
        tuned.head.to(device)
    tuned.requires_grad_(not head_only)
    tuned.head.requires_grad_(True)
    fitted = fit(
        tuned,
        (images, labels),
        loss=lambda logits, y: cross_entropy(logits.float(), y),
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        optimizer="adam",
        weight_decay=weight_decay,
        schedule="step",
        milestones=milestones,
        training_mode=training_mode,
        mix=mix,
        seed=seed,
        precision=precision,
        progress=progress,
    )
    return tuned.eval(), fitted


@torch.no_grad()
def predictions(network: nn.Module, images: Tensor, batch: int = 512) -> Tensor:
    """Predicted classes (n,) for images (n, C, H, W), uint8 or floats in [0, 1], on the CPU."""
    device = next(network.parameters()).device
    parts = [network(pixels([part], device)[0]).argmax(-1).cpu() for part in images.split(batch)]
    return torch.cat(parts)
