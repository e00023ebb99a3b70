"""Transfer learning of many victims at once: frozen features and one linear head per attack.

In the transfer setting (zhu2022, 2.2.8) the victim keeps its pre-trained network fixed and trains only the linear classifier, with Adam
at 0.1, until it overfits the fine-tuning set. T attacks on one victim are T such trainings on sets that differ in a few samples. Adam
works element by element, so one optimiser for a stack of T × V heads and the sum of their losses is *equivalent* to T × V separate
trainings (tested in tests/methods/test_transfer.py), at the cost of one batched matrix product per step.

Sets that are equal after filtering are trained on once (:mod:`relearn.methods.equal_sets`).

Samples dropped by a defence have weight zero. All heads see the samples in the same order. A head's loss on a batch is the mean over
the samples kept for that head; if the batch has none, it contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from relearn.methods.equal_sets import arrange
from relearn.methods.fit import fit


class Heads(nn.Module):
    r"""Stack of linear classifiers: logits :math:`z_{b,t,v} = W_{t,v} x_{b,t} + w_{t,v}`.

    =========  ============================  ==========  =================
    symbol     meaning                       code        shape
    =========  ============================  ==========  =================
    x          features of sample b, set t   ``x``       (B, T, d)
    W, w       head v of set t               ``weight``  (T, V, C, d), ``bias`` (T, V, C)
    z          logits                        returned    (B, T, V, C)
    =========  ============================  ==========  =================
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.bias = nn.Parameter(bias.clone())

    def forward(self, x: Tensor) -> Tensor:
        sets, variants, classes, width = self.weight.shape
        flat = self.weight.reshape(sets, variants * classes, width)
        # The samples of a class are contiguous in memory; with this layout a softmax over ten classes is five times as fast.
        logits = torch.baddbmm(self.bias.reshape(sets, -1, 1), flat, x.permute(1, 2, 0))
        return logits.reshape(sets, variants, classes, len(x)).permute(3, 0, 1, 2)


def poisoned_sets(clean: Tensor, poisons: Tensor, positions: Tensor) -> Tensor:
    """Fine-tuning sets in which poisons replace their bases.

    Shapes: clean (n, d) features of the clean set, poisons (T, k, d), positions (k,) of the bases in the clean set → (T, n, d).
    """
    sets = clean.expand(len(poisons), *clean.shape).clone()
    sets[:, positions.to(clean.device)] = poisons
    return sets


def weighted_loss(logits: Tensor, labels: Tensor, keep: Tensor) -> Tensor:
    """Sum over heads of the mean cross-entropy over the kept samples of the batch.

    Shapes: logits (B, T, V, C), labels (B,), keep (B, T, V) of zeros and ones.
    """
    by_head = logits.permute(1, 2, 3, 0).flatten(0, 1)  # (T V, C, B), the memory layout of Heads.forward
    weights = keep.flatten(1).T  # (T V, B)
    losses = nn.functional.cross_entropy(by_head, labels.expand(weights.shape), reduction="none") * weights
    return (losses.sum(1) / weights.sum(1).clamp(min=1.0)).sum()


@torch.no_grad()
def fitted(heads: Heads, features: Tensor, labels: Tensor, block: int = 256) -> Tensor:
    """Whether each head assigns each point of its own set to the point's label.

    Shapes: features (n, T, d), labels (n,) → bool (n, T, V); computed for ``block`` points at a time.
    """
    parts = zip(features.split(block), labels.split(block), strict=True)
    return torch.cat([heads(x).argmax(-1) == y[:, None, None] for x, y in parts])


def fine_tune(
    features: Tensor,
    labels: Tensor,
    keep: Tensor,
    head: nn.Linear,
    *,
    epochs: int = 60,
    batch_size: int = 64,
    lr: float = 0.1,
    weight_decay: float = 0.0,
    milestones: tuple[int, ...] = (30, 45),
    reset_head: bool = False,
    seed: int = 0,
    log: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Heads, str, int | None]:
    """Fine-tune one linear head for each of T fine-tuning sets and V filtered variants of each.

    The published setting: Adam 0.1, 60 epochs, ×0.1 after epochs 30 and 45, batches of 64 (the last three from the released code;
    the text says only "overfit"), starting from the pre-trained head.

    Args:
        features: (n, T, d) penultimate features of every fine-tuning set.
        labels: (n,) labels as given to the victim.
        keep: (n, T, V) weights of the samples: 1 for those that a variant keeps, 0 for the others.
        head: the pre-trained linear layer; it is not changed.
        reset_head: start from a newly initialised linear layer instead.

    Returns:
        The heads, the outcome (``ok`` or ``diverged``) and the step of a divergence.

    Raises:
        ValueError: shapes that do not match, or a head without a bias.
    """
    count, sets, width = features.shape
    if labels.shape != (count,) or keep.shape[:2] != (count, sets) or keep.dim() != 3:
        found = f"features {tuple(features.shape)}, labels {tuple(labels.shape)}, keep {tuple(keep.shape)}"
        raise ValueError(f"{found}: allowed are (n, T, d), (n,), (n, T, V)")
    classes, variants = head.out_features, keep.shape[2]
    distinct = arrange(features, keep.to(features.dtype))
    if reset_head:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed every GPU, too
            head = nn.Linear(width, classes).to(features.device)
    if head.bias is None:
        raise ValueError("head: found no bias, allowed: a linear layer with one")
    shape = distinct.keep.shape[1:]
    weight = head.weight.detach().to(features.dtype).expand(*shape, classes, width)
    bias = head.bias.detach().to(features.dtype).expand(*shape, classes)
    heads = Heads(weight, bias)
    fitted = fit(
        heads,
        (features[:, distinct.sets.to(features.device)], labels, distinct.keep),
        loss=weighted_loss,
        optimizer="adam",
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        weight_decay=weight_decay,
        schedule="step",
        milestones=milestones,
        seed=seed,
        log=log,
        progress=progress,
    )
    place = distinct.place.flatten().to(features.device)
    weight = heads.weight.detach().flatten(0, 1)[place].unflatten(0, (sets, variants))
    bias = heads.bias.detach().flatten(0, 1)[place].unflatten(0, (sets, variants))
    return Heads(weight, bias).eval(), fitted.outcome, fitted.outcome_step
