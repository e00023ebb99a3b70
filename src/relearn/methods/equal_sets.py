"""Find equal fine-tuning sets, so that each is trained on once.

A filter that removes the poisons of two attacks leaves the same set in both cases, and a sweep over its strength often leaves the same
set at two strengths. Linear heads with equal initial values, samples, weights and sample order end up equal.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Arrangement(NamedTuple):
    """The distinct sets and variants, packed into a rectangle of S rows (sets) of W variants each.

    =========  =========  ===========================================================
    field      shape      meaning
    =========  =========  ===========================================================
    ``sets``   (S,)       index (0..T-1) of the given set whose features each row uses
    ``keep``   (n, S, W)  weights of the samples; all 0 in an unused cell
    ``place``  (T, V)     index, in S · W, of the cell that represents each given variant
    =========  =========  ===========================================================
    """

    sets: Tensor
    keep: Tensor
    place: Tensor


def arrange(features: Tensor, keep: Tensor) -> Arrangement:
    """Pack every distinct pair of samples and weights into a rectangle.

    Two variants are equal if they have equal weights and equal features for all samples of positive weight. A variant with zero weight on
    all samples in which the sets differ may be placed in any row, and fills cells left over by the others. The width minimises the cost
    S · (W + 1): a row costs one per cell, plus one for its features.

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
    first: list[tuple[int, int]] = []  # (set, variant) of each distinct pair
    which = torch.empty(sets, variants, dtype=torch.long)
    for t in range(sets):
        for v in range(variants):
            key = (weights[t, v].tobytes(), rows[t][kept[t, v]].tobytes())
            if key not in found:
                found[key] = len(first)
                first.append((t, v))
            which[t, v] = found[key]

    own: dict[int, list[int]] = {}  # distinct variants that need the features of one set
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
    """Rows of at most ``width`` variants: first those tied to one set, filled up with variants that fit anywhere; the rest follow."""
    rows = [group[i : i + width] for group in own.values() for i in range(0, len(group), width)]
    rest = list(anywhere)
    for row in rows:
        while rest and len(row) < width:
            row.append(rest.pop())
    return rows + [rest[i : i + width] for i in range(0, len(rest), width)]
