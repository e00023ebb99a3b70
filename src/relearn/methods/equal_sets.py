"""Fine-tuning sets that are equal: each is trained on once.

A filter that removes the poisons of two attacks leaves the same set of both, and a sweep over its strength often leaves the same
set at two strengths. Heads that start alike, see the same samples with the same weights, in the same order, end alike.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Arrangement(NamedTuple):
    """Distinct sets and variants in a rectangle of S sets of W variants each.

    =========  =========  ===========================================================
    field      shape      meaning
    =========  =========  ===========================================================
    ``sets``   (S,)       which of the T given sets each row takes its features from
    ``keep``   (n, S, W)  weights of the samples; an unused place keeps nothing
    ``place``  (T, V)     index, in S · W, of the place that stands for each given one
    =========  =========  ===========================================================
    """

    sets: Tensor
    keep: Tensor
    place: Tensor


def arrange(features: Tensor, keep: Tensor) -> Arrangement:
    """A rectangle that holds every distinct pair of samples and weights.

    Two variants are equal if their weights are, and the features of all samples of positive weight. A variant that keeps no sample in
    which the sets differ may stand in any row, and fills the places that the others leave. The width is the one of least cost, where
    a row costs as much as its places and one more, for its features.

    Args:
        features: (n, T, d) features of the sets.
        keep: (n, T, V) weights of the samples, 0 for a dropped one.
    """
    count, sets, variants = keep.shape
    differing = (features != features[:, :1]).any(-1).any(-1)
    rows = features[differing].transpose(0, 1).contiguous().cpu().numpy()  # (T, m, d)
    weights = keep.permute(1, 2, 0).contiguous().cpu().numpy()  # (T, V, n)
    kept = weights[..., differing.cpu().numpy()] > 0  # (T, V, m)

    found: dict[tuple[bytes, bytes], int] = {}
    first: list[tuple[int, int]] = []  # of each distinct one
    which = torch.empty(sets, variants, dtype=torch.long)
    for t in range(sets):
        for v in range(variants):
            key = (weights[t, v].tobytes(), rows[t][kept[t, v]].tobytes())
            if key not in found:
                found[key] = len(first)
                first.append((t, v))
            which[t, v] = found[key]

    own: dict[int, list[int]] = {}  # distinct ones that need the features of one set
    anywhere: list[int] = []
    for i, (t, v) in enumerate(first):
        if kept[t, v].any():
            own.setdefault(t, []).append(i)
        else:
            anywhere.append(i)
    width = min(range(1, variants + 1), key=lambda w: len(_rows(own, anywhere, w)) * (w + 1))
    table = _rows(own, anywhere, width)

    position = torch.empty(len(first), dtype=torch.long)
    packed = keep.new_zeros(count, len(table), width)
    for s, group in enumerate(table):
        for w, i in enumerate(group):
            position[i] = s * width + w
            packed[:, s, w] = keep[:, first[i][0], first[i][1]]
    return Arrangement(torch.tensor([first[group[0]][0] for group in table]), packed, position[which])


def _rows(own: dict[int, list[int]], anywhere: list[int], width: int) -> list[list[int]]:
    """Rows of at most ``width`` variants, those of one set first; what may stand anywhere fills up and follows."""
    rows = [group[i : i + width] for group in own.values() for i in range(0, len(group), width)]
    rest = list(anywhere)
    for row in rows:
        while rest and len(row) < width:
            row.append(rest.pop())
    return rows + [rest[i : i + width] for i in range(0, len(rest), width)]
