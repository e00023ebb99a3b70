"""The attention layers compared in chapter 5 of zhu2022, by the names used in settings and records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relearn import attribute

if TYPE_CHECKING:
    from torch import nn

LAYER = "relearn.layers.long_short_attention:LongShortAttention"
RIVALS = {
    "full": "relearn.layers.efficient.full:FullAttention",
    "linformer": "relearn.layers.efficient.linformer:LinformerAttention",
    "linformer_window": "relearn.layers.efficient.linformer:LinformerAttention",
    "nystromformer": "relearn.layers.efficient.nystromformer:NystromformerAttention",
    "performer": "relearn.layers.efficient.performer:PerformerAttention",
    "reformer": "relearn.layers.efficient.reformer:ReformerAttention",
    "linear": "relearn.layers.efficient.linear:LinearAttention",
    "big_bird": "relearn.layers.efficient.big_bird:BigBirdAttention",
    "longformer": "relearn.layers.efficient.longformer:LongformerAttention",
    "sparse": "relearn.layers.efficient.sparse:SparseAttention",
    "sinkhorn": "relearn.layers.efficient.sinkhorn:SinkhornAttention",
    "synthesizer": "relearn.layers.efficient.synthesizer:SynthesizerAttention",
}
"""Kind → ``module:class`` of its layer; the module is imported only when a layer is built."""
LAYER_DEFAULTS: dict[str, dict[str, Any]] = {"linformer_window": {"window": 8}}
"""Arguments that a kind passes to its layer in place of the layer's defaults."""
LONG_SHORT: dict[str, dict[str, int]] = {
    "window": {"window": 8, "rank": 0},
    "dynamic": {"window": 0, "rank": 32},
    "long_short": {"window": 8, "rank": 32},
    "long_short_best": {},
}
"""Variants of the long-short layer → their default window and rank."""

KINDS = (*RIVALS, *LONG_SHORT)
GLOBAL_FIRST = ("full", *LONG_SHORT, "linformer", "linformer_window", "longformer", "big_bird")
"""Kinds in which the first token can attend to all tokens and be attended to by all."""


def module_of(kind: str) -> str:
    """Return the module of a kind's layer, which is needed for its code version.

    Raises:
        ValueError: an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"attention: {kind!r} (allowed: {', '.join(KINDS)})")
    return RIVALS.get(kind, LAYER).partition(":")[0]


def make(
    kind: str,
    dim: int,
    heads: int,
    *,
    max_length: int,
    dropout: float = 0.0,
    class_token: bool = False,
    **own: Any,
) -> nn.Module:
    """Build a layer of this kind: ``layer(x, mask=mask)`` maps x (B, n, D) to (B, n, D); mask (B, n), True = token.

    ==================  ==================================================  ==========================================
    kind                layer                                               own arguments (default)
    ==================  ==================================================  ==========================================
    full                softmax over all tokens
    window              sliding window only                                 window (8), and those of the layer
    dynamic             dynamic projection only                             rank (32), and those of the layer
    long_short          both (zhu2022, equation 5.7)                        window (8), rank (32), and those of the layer
    long_short_best     both, with the task's sizes of table 5.2            window, rank (required), and those of the layer
    linformer           learned compression                                 rank (256)
    linformer_window    linformer with a sliding window                     rank (256), window (8)
    nystromformer       landmarks                                           landmarks (128), steps (6), kernel (35)
    performer           positive random features                            features (256), eps (1e-4)
    reformer            hashing                                             rounds (2), chunk (64)
    linear              elu + 1                                             none
    big_bird            neighbouring, random and first blocks               block (64), random (3), global_tokens
    longformer          sliding window, global tokens                       window (512), global_tokens
    sparse              neighbouring tokens and every l-th                  stride (root of max_length)
    sinkhorn            own block and a sorted block                        block (64), steps (8), temperature (0.75)
    synthesizer         weights that do not compare tokens                  form (dense)
    ==================  ==================================================  ==========================================

    Each also takes ``bias`` (True).

    Args:
        kind: one of ``KINDS``.
        dim, heads, max_length: D, H, and the maximum number of tokens, including a class token.
        dropout: probability of dropping an attention weight, in layers that have such weights.
        class_token: whether the first token should see all tokens and be seen by all. Kinds outside ``GLOBAL_FIRST`` cannot do
            this and treat it like any other token.
        own: arguments of the layer itself; omitted ones take the defaults of its class.

    Raises:
        ValueError: an unknown kind, an argument that the layer does not have, ``long_short_best`` without window and rank,
            or arguments that the layer rejects.
    """
    if kind not in KINDS:
        raise ValueError(f"attention: {kind!r} (allowed: {', '.join(KINDS)})")
    if kind in LONG_SHORT:
        return _long_short(kind, dim, heads, dropout=dropout, class_token=class_token, own=own)
    if class_token and kind == "longformer":  # BigBird's first block is global already
        own = {"global_tokens": 1, **own}
    try:
        own = LAYER_DEFAULTS.get(kind, {}) | own
        return attribute(RIVALS[kind], f"attention {kind!r}")(
            dim, heads, max_length=max_length, dropout=dropout, **own
        )
    except TypeError as error:
        raise ValueError(f"attention_arguments: {own} (allowed for {kind!r}: {error})") from None


def _long_short(
    kind: str, dim: int, heads: int, *, dropout: float, class_token: bool, own: dict[str, Any]
) -> nn.Module:
    sizes = {**LONG_SHORT[kind], **own}
    if not {"window", "rank"} <= sizes.keys():
        raise ValueError(f"attention_arguments: {own} (allowed for {kind!r}: both window and rank)")
    try:
        return attribute(LAYER, f"attention {kind!r}")(
            dim, heads, attention_dropout=dropout, class_token=int(class_token), **sizes
        )
    except TypeError as error:
        raise ValueError(f"attention_arguments: {own} (allowed for {kind!r}: {error})") from None
