"""The attentions that zhu2022's chapter 5 compares, by the word that stands for each in settings and records."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
"""Kinds with a layer of their own → where it is; imported when one is built."""
BESIDE: dict[str, dict[str, Any]] = {"linformer_window": {"window": 8}}
"""What a kind says of its layer beyond the layer's defaults."""
LONG_SHORT: dict[str, dict[str, int]] = {
    "window": {"window": 8, "rank": 0},
    "dynamic": {"window": 0, "rank": 32},
    "long_short": {"window": 8, "rank": 32},
    "long_short_best": {},
}
"""Kinds that are the long-short layer → its window and rank where nothing else is said."""

KINDS = (*RIVALS, *LONG_SHORT)
GLOBAL_FIRST = ("full", *LONG_SHORT, "linformer", "linformer_window", "longformer", "big_bird")
"""Kinds in which the first token can see all and be seen by all."""


def module_of(kind: str) -> str:
    """The module of a kind's layer, for its code version.

    Raises:
        ValueError: another kind.
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
    """A layer of this kind: ``layer(x, mask=mask)``, x (B, n, D) → (B, n, D), mask (B, n), True = a token.

    ==================  ==================================================  ==========================================
    kind                layer                                               own arguments (default)
    ==================  ==================================================  ==========================================
    full                softmax over all tokens
    window              sliding window alone                                window (8), and the layer's own
    dynamic             dynamic projection alone                            rank (32), and the layer's own
    long_short          both (zhu2022, equation 5.7)                        window (8), rank (32), and the layer's own
    long_short_best     both; sizes of table 5.2, which depend on the task  window, rank (to be said), and the layer's own
    linformer           learned compression                                 rank (256)
    linformer_window    the same, and a window beside it                    rank (256), window (8)
    nystromformer       landmarks                                           landmarks (128), steps (6), kernel (35)
    performer           positive random features                            features (256), eps (1e-4)
    reformer            hashing                                             rounds (2), chunk (64)
    linear              elu + 1                                             none
    big_bird            near, drawn and first blocks                        block (64), random (3), global_tokens
    longformer          band, global tokens                                 window (512), global_tokens
    sparse              near tokens and every l-th                          stride (root of max_length)
    sinkhorn            own block and a sorted one                          block (64), steps (8), temperature (0.75)
    synthesizer         weights that compare no tokens                      form (dense)
    ==================  ==================================================  ==========================================

    Each also takes ``bias`` (True).

    Args:
        kind: one of ``KINDS``.
        dim, heads, max_length: D, H, the most tokens of a sequence (the class token counts).
        dropout: of attention weights, where the layer has any.
        class_token: whether the first token is one that should see all and be seen by all. Asked of the kinds whose layer can have such
            a token; kinds outside ``GLOBAL_FIRST`` treat it as any other.
        own: arguments of the layer itself; what is not said here is in its class.

    Raises:
        ValueError: another kind, an argument that the layer does not have; ``long_short_best`` without window and rank;
            what the layers refuse.
    """
    if kind not in KINDS:
        raise ValueError(f"attention: {kind!r} (allowed: {', '.join(KINDS)})")
    if kind in LONG_SHORT:
        return _long_short(kind, dim, heads, dropout=dropout, class_token=class_token, own=own)
    if class_token and kind == "longformer":  # BigBird's first block is global already
        own = {"global_tokens": 1, **own}
    try:
        own = BESIDE.get(kind, {}) | own
        return _layer(RIVALS[kind])(dim, heads, max_length=max_length, dropout=dropout, **own)
    except TypeError as error:
        raise ValueError(f"attention_arguments: {own} (allowed for {kind!r}: {error})") from None


def _long_short(
    kind: str, dim: int, heads: int, *, dropout: float, class_token: bool, own: dict[str, Any]
) -> nn.Module:
    sizes = {**LONG_SHORT[kind], **own}
    if not {"window", "rank"} <= sizes.keys():
        raise ValueError(f"attention_arguments: {own} (allowed for {kind!r}: window and rank, both said)")
    try:
        return _layer(LAYER)(dim, heads, attention_dropout=dropout, class_token=int(class_token), **sizes)
    except TypeError as error:
        raise ValueError(f"attention_arguments: {own} (allowed for {kind!r}: {error})") from None


def _layer(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
