r"""Deep partition aggregation: a vote of heads that each saw one part of the set, with a certificate (Levine & Feizi, ICLR 2021).

.. math:: P_i = \{(x, y) \in S : h(x) \bmod m = i\}, \qquad
          n_c(x) = \big|\{i : f_{P_i}(\phi(x)) = c\}\big|, \qquad
          g(x) = \arg\max_c n_c(x) \text{ (the smallest of equal ones)}

.. math:: \rho(x) = \Big\lfloor \tfrac12 \Big( n_g - \max_{c \ne g} \big( n_c + [c < g] \big) \Big) \Big\rfloor

======  ====================================================  ================  ============
symbol  meaning                                               code              shape
======  ====================================================  ================  ============
h       SHA-256 of the image's bytes                          ``digest``        ()
m       number of parts                                       ``parts``         ()
φ(x)    frozen features                                       ``features``      (n, d)
f_P     linear head trained on part P alone                   ``weight``        (T, m, C, d)
n_c     votes for class c                                     ``votes``         (N, C)
g, ρ    prediction and its certificate                        ``certified``     (N,), (N,)
======  ====================================================  ================  ============

**Certificate.** A training image that is added, removed or given another label changes one part, because h depends on no other image
and not on the label. One part is one vote, which moves :math:`n_g - n_c` by at most 2. So g(x) is the same for every set that differs
from S in at most ρ(x) such images, whatever they are. An image that is *replaced* is one removed and one added: it counts twice.

This needs a head that is a function of its part. Each head starts from the same given head and takes full batches of its part, whose
images are in the order of their digests; the losses of all heads are summed, and Adam works element by element, so one optimiser
trains the whole stack. That the heads do not depend on each other holds up to the rounding of batched products.

Differs from the publication: heads on frozen features that start from the pre-trained head, instead of whole networks;
SHA-256 as the hash. A part without an image keeps the given head, as the pre-training images are trusted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from relearn.methods.fit import fit
from relearn.methods.transfer import Heads


class Ensembles(NamedTuple):
    """For each of T sets the heads of its parts: weight (T, m, C, d), bias (T, m, C); the outcome and the step of a divergence."""

    weight: Tensor
    bias: Tensor
    outcome: str
    outcome_step: int | None


def digest(image: Tensor) -> bytes:
    """SHA-256 of an image's bytes; uint8 (C, H, W)."""
    return hashlib.sha256(image.cpu().contiguous().numpy().tobytes()).digest()


def part_of(digest: bytes, parts: int) -> int:
    """The part of an image, 0 to parts - 1."""
    return int.from_bytes(digest, "big") % parts


def train(
    sets: Sequence[tuple[Sequence[bytes], Tensor, Tensor]],
    head: nn.Linear,
    *,
    parts: int,
    epochs: int = 60,
    lr: float = 0.1,
    weight_decay: float = 0.0,
    milestones: Sequence[int] = (30, 45),
    progress: Callable[[int, int], None] | None = None,
) -> Ensembles:
    """Train one head for each part of each set; parts that several sets share are trained once.

    Args:
        sets: digests, features (n, d) and labels (n,) of each set; n may differ.
        head: where every head starts; it is not changed.
        epochs, lr, weight_decay, milestones: as in :func:`relearn.methods.transfer.fine_tune`; a batch is a whole part.

    Raises:
        ValueError: ``parts`` below 1, no set, or a head without a bias.
    """
    if parts < 1:
        raise ValueError(f"parts is {parts}; allowed: an integer >= 1")
    if not sets:
        raise ValueError("sets: found none; allowed: at least one")
    if head.bias is None:
        raise ValueError("head: found no bias, allowed: a linear layer with one")
    known: dict[tuple[tuple[bytes, int], ...], int] = {}
    points: list[tuple[Tensor, Tensor]] = []
    place = torch.empty(len(sets), parts, dtype=torch.long)
    for t, (digests, features, labels) in enumerate(sets):
        members: list[list[tuple[bytes, int, int]]] = [[] for _ in range(parts)]
        for row, (name, label) in enumerate(zip(digests, labels.tolist(), strict=True)):
            members[part_of(name, parts)].append((name, label, row))
        for i, part in enumerate(members):
            part.sort()
            key = tuple((name, label) for name, label, _ in part)
            if key not in known:
                known[key] = len(points)
                rows = torch.tensor([row for _, _, row in part], dtype=torch.long, device=features.device)
                points.append((features[rows], labels.to(features.device)[rows]))
            place[t, i] = known[key]

    size, width = (
        max(2, *(len(y) for _, y in points)),
        head.in_features,
    )  # fit needs two rows, which may be empty
    x = points[0][0].new_zeros(size, len(points), width)
    y = torch.zeros(size, len(points), dtype=torch.long, device=x.device)
    real = x.new_zeros(size, len(points))
    for p, (features, labels) in enumerate(points):
        x[: len(labels), p], y[: len(labels), p], real[: len(labels), p] = features, labels, 1
    weight, bias = (one.detach().to(x.dtype) for one in (head.weight, head.bias))
    heads = Heads(weight.expand(len(points), 1, *weight.shape), bias.expand(len(points), 1, len(bias)))
    fitted = fit(
        heads,
        (x, y, real),
        loss=_loss,
        optimizer="adam",
        epochs=epochs,
        batch_size=size,
        lr=lr,
        weight_decay=weight_decay,
        schedule="step",
        milestones=milestones,
        progress=progress,
    )
    place = place.to(x.device)
    weight, bias = heads.weight.detach()[:, 0][place], heads.bias.detach()[:, 0][place]
    return Ensembles(weight, bias, fitted.outcome, fitted.outcome_step)


def _loss(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Sum over heads of the mean cross-entropy of their parts: logits (s, P, 1, C), labels and real (s, P)."""
    losses = nn.functional.cross_entropy(logits.squeeze(2).permute(1, 2, 0), labels.T, reduction="none")
    return ((losses * real.T).sum(1) / real.sum(0).clamp(min=1)).sum()


@torch.no_grad()
def votes(weight: Tensor, bias: Tensor, features: Tensor, block: int = 1024) -> Tensor:
    """Votes of one set's heads: weight (m, C, d), bias (m, C), features (N, d) → int64 (N, C), each row of sum m."""
    parts, classes, width = weight.shape
    flat, offset = weight.reshape(-1, width), bias.reshape(-1)
    found = []
    for x in features.split(block):
        chosen = (x @ flat.T + offset).reshape(len(x), parts, classes).argmax(-1)
        found.append(nn.functional.one_hot(chosen, classes).sum(1))
    return torch.cat(found)


def certified(votes: Tensor) -> tuple[Tensor, Tensor]:
    """The class g with most votes, and how many added, removed or relabelled training images cannot change it.

    Shapes: votes (N, C) → (N,), (N,) int64. With one class alone, nothing can change it: the number is the number of votes.
    """
    classes = torch.arange(votes.shape[1], device=votes.device)
    chosen = (votes * len(classes) - classes).argmax(1)  # of equal numbers the smallest class
    most = votes.gather(1, chosen[:, None])
    lead = most - votes - (classes < chosen[:, None]).long()
    lead[classes == chosen[:, None]] = 2 * int(votes.sum(1).max()) if len(votes) else 0
    return chosen, lead.min(1).values // 2
