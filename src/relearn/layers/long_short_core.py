"""Long-short attention of all heads from queries, keys, values and the scores of the projection."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout

from relearn.layers.dynamic_projection import layer_norm_heads, project_dynamically
from relearn.layers.on_device import wide
from relearn.layers.window_mix import WindowMix, mix_windows


class Form(NamedTuple):
    """Heads, window, rank, number of class tokens, ε of the norms, and whether class keys count as compressed ones."""

    heads: int
    window: int
    rank: int
    classes: int
    eps: float
    class_is_long: bool


class Norms(NamedTuple):
    """Weights and biases of the local and the global LayerNorm, or None."""

    local_weight: Tensor | None
    local_bias: Tensor | None
    global_weight: Tensor | None
    global_bias: Tensor | None


def heads_first(rows: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Split rows (B, n, 3D) into copies: scaled queries (B, H, n, d), and keys and values (2, B, H, n, d)."""
    width = rows.shape[2] // 3
    queries, pairs = wide(rows).split([width, 2 * width], 2)
    queries = queries.unflatten(2, (heads, -1)).transpose(1, 2).contiguous() * (width // heads) ** -0.5
    return queries, pairs.unflatten(2, (2, heads, -1)).permute(2, 0, 3, 1, 4).contiguous()


def attend(
    queries: Tensor,
    raw: Tensor,
    scores: Tensor | None,
    mask: Tensor | None,
    norms: Norms,
    form: Form,
    *,
    attention_dropout: float = 0.0,
    fused: bool = True,
) -> Tensor:
    r"""Mix the values for class token and tokens, (B, H, c + n, d); a class token that counts as long gets no mixture.

    Args:
        queries: scaled, (B, H, c + n, d).
        raw: keys and values, (2, B, H, c + n, d).
        scores: scores of the dynamic projection, (B, n, H r), or None.
        mask: (B, c + n), True = real; None: all are real.
        norms: parameters of the LayerNorms of keys and values.
        form: see :class:`Form`.
        attention_dropout: probability of dropping a weight; disables ``fused``.
        fused: use :class:`~relearn.layers.window_mix.WindowMix`.
    """
    pairs, long = prepare_keys_values(raw, scores, mask, norms, form, fused=fused)
    c = 0 if form.class_is_long else form.classes
    if c:
        long = torch.cat([pairs[..., :c, :], long], 3)
    skipped = form.classes
    given = (
        queries[:, :, skipped:],
        pairs[..., skipped:, :],
        long,
        None if mask is None else mask[:, skipped:],
        form.window,
    )
    found = (
        WindowMix.apply(*given) if fused and not attention_dropout else mix_windows(*given, attention_dropout)
    )
    if not c:
        return found
    first = attend_one_query(queries[:, :, :c], pairs[0], pairs[1], mask, attention_dropout)
    return torch.cat([first, found], 2)


def attend_one_query(
    q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, attention_dropout: float
) -> Tensor:
    """Full attention of a single query, (B, H, 1, d)."""
    logits = q @ keys.mT
    if mask is not None:
        logits = logits.masked_fill(~mask[:, None, None], -torch.inf)
    return dropout(logits.softmax(-1), attention_dropout) @ values


def prepare_keys_values(
    raw: Tensor, scores: Tensor | None, mask: Tensor | None, norms: Norms, form: Form, *, fused: bool = True
) -> tuple[Tensor, Tensor]:
    r"""Normalise keys and values, (2, B, H, c + n, d), and compress them, (2, B, H, r, d).

    .. math:: \hat K = \mathrm{LN}_L(K), \quad \bar K = \mathrm{LN}_G(P^\top \hat K), \quad \text{values alike}

    Zhu (2022), equation 5.7 and the line below it. A class token that counts as long comes first among the compressed
    ones and is normalised by LN_G only. ``raw`` holds keys and values, (2, B, H, c + n, d).
    """
    c = form.classes
    norms = Norms(*(None if one is None else wide(one) for one in norms))
    pairs = layer_norm_heads(raw, norms.local_weight, norms.local_bias, form.eps)
    long = raw[..., : c if form.class_is_long else 0, :]
    if scores is not None:
        compressed = project_dynamically(
            scores, pairs[..., c:, :], None if mask is None else mask[:, c:], fused=fused
        )
        long = torch.cat([long, compressed], 3) if long.numel() else compressed
    return pairs, layer_norm_heads(long, norms.global_weight, norms.global_bias, form.eps)
