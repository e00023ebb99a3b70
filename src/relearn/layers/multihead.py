"""Adapter that lets dot-product, L2 and cross-attention replace `torch.nn.MultiheadAttention`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relearn.layers.cross_attention import CrossAttention
from relearn.layers.self_attention import SelfAttention


class AsMultiheadAttention(nn.Module):
    """Wrap an attention in the call signature, mask conventions and return value of ``torch.nn.MultiheadAttention``.

    In a torch Transformer::

        encoder = nn.TransformerEncoderLayer(512, 8, batch_first=True)
        encoder.self_attn = AsMultiheadAttention(L2Attention(512, 8), batch_first=True)

    Replace it before ``nn.TransformerEncoder`` is built from the layer: with padding masks, that one decides then whether to
    call it.

    Masks have torch's meaning: True = hidden. (In a direct call of the wrapped layer True = visible, as in torch's
    ``scaled_dot_product_attention``.)

    In a contractive layer every token must see itself, so each padded token is made visible to itself. No other token sees it,
    no output of a real token changes, and the layer keeps its constant.

    Differences: a self-attention needs the same tensor as query, key and value
    (:class:`~relearn.layers.cross_attention.CrossAttention` takes others, with ``kdim`` and ``vdim``); numeric masks may contain
    only 0 and -inf, because a bias of the logits would void the bounds; a row that sees nothing raises an error, whereas
    torch returns NaN; the returned weights are those before dropout.

    Args:
        layer: the attention; its parameters have the prefix ``layer.``.
        batch_first: whether tokens are (B, N, D); otherwise (N, B, D), torch's default. One sequence is (N, D) in both cases.

    Raises:
        TypeError: another layer, whose masks have other shapes, such as long-short attention.
    """

    # nn.TransformerEncoder(Layer) inspects these attributes; without in_proj_bias it does not take its fused path, which
    # would bypass `forward`.
    in_proj_bias = None

    def __init__(self, layer: SelfAttention | CrossAttention, *, batch_first: bool = False) -> None:
        super().__init__()
        if not isinstance(layer, (SelfAttention, CrossAttention)):
            allowed = "DotProductAttention, L2Attention, LRSA, CrossAttention"
            raise TypeError(f"layer: found {type(layer).__name__} (allowed: {allowed})")
        self.layer = layer
        self.batch_first = batch_first
        self.embed_dim, self.num_heads = layer.dim, layer.heads
        self.head_dim = layer.dim // layer.heads
        self.kdim, self.vdim = getattr(layer, "kdim", layer.dim), getattr(layer, "vdim", layer.dim)
        self._qkv_same_embed_dim = self.kdim == self.vdim == layer.dim

    @property
    def dropout(self) -> float:
        """The layer's probability of dropping an attention weight, in training mode."""
        return self.layer.dropout

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, shaped like query, and the weights: (B, T, S), (B, H, T, S) if not averaged, None if not needed.

        Args:
            query: T tokens.
            key, value: S tokens; for a self-attention the same tensor object as query.
            key_padding_mask: (B, S) or (S,), True or -inf = hidden from all.
            attn_mask: (T, S) or (B * H, T, S), True or -inf = hidden.
            is_causal: hide later tokens, whether or not ``attn_mask`` hides them too.

        Raises:
            ValueError: the layer is a self-attention, and key or value is not the same tensor as query; a mask has a wrong shape, other
                numbers, or a row that sees nothing.
        """
        cross = isinstance(self.layer, CrossAttention)
        if not cross and (key is not query or value is not query):
            raise ValueError(
                "key, value: another tensor than query (allowed: the same one, this is self-attention; others in a CrossAttention)"
            )
        swap = query.dim() == 3 and not self.batch_first
        single = query.dim() == 2
        x, keys, values = (
            one[None] if single else one.transpose(0, 1) if swap else one for one in (query, key, value)
        )
        mask = self._seen(x, keys, key_padding_mask, attn_mask, single)
        weights = None
        if isinstance(self.layer, CrossAttention):
            if is_causal:
                late = torch.ones(x.shape[1], keys.shape[1], dtype=torch.bool, device=x.device).triu(1)
                mask = ~late if mask is None else mask & ~late
            y = self.layer(x, keys, values, mask=mask)
            if need_weights:
                weights = self.layer.probabilities(x, keys, mask=mask)
        else:
            y = self.layer(x, mask=mask, causal=is_causal)
            if need_weights:
                weights = self.layer.probabilities(x, mask=mask, causal=is_causal)
        if weights is not None:
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights[0] if single else weights
        return (y[0] if single else y.transpose(0, 1) if swap else y), weights

    def _seen(
        self, x: Tensor, keys: Tensor, padding: Tensor | None, attn_mask: Tensor | None, single: bool
    ) -> Tensor | None:
        """Combine both masks into one for the layer: True = visible, four axes."""
        batch, rows, columns = x.shape[0], x.shape[1], keys.shape[1]
        seen = own = None
        if padding is not None:
            wanted = (columns,) if single else (batch, columns)
            real = _visible("key_padding_mask", padding, (wanted,)).view(batch, 1, 1, columns)
            seen = real
            if isinstance(self.layer, SelfAttention) and self.layer.must_see_itself:
                own = ~real & torch.eye(columns, dtype=torch.bool, device=x.device)
        if attn_mask is not None:
            whole = (batch * self.num_heads, rows, columns)
            visible = _visible("attn_mask", attn_mask, ((rows, columns), whole))
            visible = visible.view(
                -1 if visible.dim() == 2 else batch,
                1 if visible.dim() == 2 else self.num_heads,
                rows,
                columns,
            )
            seen = visible if seen is None else seen & visible
        return seen if seen is None or own is None else seen | own


def _visible(name: str, mask: Tensor, shapes: tuple[tuple[int, ...], ...]) -> Tensor:
    """Convert a torch mask (boolean with True = hidden, or numeric with -inf = hidden) to True = visible."""
    if not any(tuple(mask.shape) == shape for shape in shapes):
        raise ValueError(f"{name}: shape {tuple(mask.shape)} (allowed: {' or '.join(map(str, shapes))})")
    if mask.dtype == torch.bool:
        return ~mask
    hidden = mask == -torch.inf
    other = ~(hidden | (mask == 0))
    if torch.compiler.is_compiling():
        torch._assert_async(~other.any(), f"{name}: {NUMBERS}")
    elif not other.is_meta and other.any():
        raise ValueError(f"{name}: {NUMBERS}")
    return ~hidden


NUMBERS = "numbers other than 0 and -inf (allowed: those two, or a boolean mask)"
