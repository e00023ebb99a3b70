"""Adapter that lets any self-attention of this package replace `torch.nn.MultiheadAttention`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relearn.layers.self_attention import SelfAttention


class AsMultiheadAttention(nn.Module):
    """Wrap a self-attention in the call signature, mask conventions and return value of ``torch.nn.MultiheadAttention``.

    In a torch Transformer::

        encoder = nn.TransformerEncoderLayer(512, 8, batch_first=True)
        encoder.self_attn = AsMultiheadAttention(L2Attention(512, 8), batch_first=True)

    Differences: query, key and value must be the same tensor; numeric masks may contain only 0 and -inf; a row that
    sees nothing raises an error, whereas torch returns NaN; the returned weights are those before dropout. In a contractive
    layer each token must see itself; for a padded batch, pass the padding as an ``attn_mask`` with a visible diagonal.

    Args:
        layer: the self-attention; its parameters have the prefix ``layer.``.
        batch_first: whether tokens are (B, N, D); otherwise (N, B, D), torch's default. One sequence is (N, D) in both cases.
    """

    # nn.TransformerEncoder(Layer) inspects these attributes; without in_proj_bias it does not take its fused path, which
    # would bypass `forward`.
    in_proj_bias = None
    _qkv_same_embed_dim = True

    def __init__(self, layer: SelfAttention, *, batch_first: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.batch_first = batch_first
        self.embed_dim, self.num_heads = layer.dim, layer.heads
        self.head_dim = layer.dim // layer.heads

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
        """Return the output, shaped like query, and the weights: (B, N, N), (B, H, N, N) if not averaged, None if not needed.

        Args:
            query, key, value: the same tensor object.
            key_padding_mask: (B, N) or (N,), True or -inf = hidden from all.
            attn_mask: (N, N) or (B * H, N, N), True or -inf = hidden.
            is_causal: hide later tokens, whether or not ``attn_mask`` hides them too.

        Raises:
            ValueError: key or value is another tensor; a mask has a wrong shape, other numbers, or a row that sees
                nothing.
        """
        if key is not query or value is not query:
            raise ValueError(
                "key, value: another tensor than query (allowed: the same one, this is self-attention)"
            )
        swap = query.dim() == 3 and not self.batch_first
        x = query.transpose(0, 1) if swap else query
        mask = self._seen(x, key_padding_mask, attn_mask)
        y = self.layer(x, mask=mask, causal=is_causal)
        weights = None
        if need_weights:
            weights = self.layer.probabilities(x, mask=mask, causal=is_causal)
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if query.dim() == 3 else weights[0]
        return (y.transpose(0, 1) if swap else y), weights

    def _seen(self, x: Tensor, padding: Tensor | None, attn_mask: Tensor | None) -> Tensor | None:
        """Combine both masks into one for the layer: True = visible, four axes."""
        batch, length = (1, *x.shape[:1]) if x.dim() == 2 else x.shape[:2]
        seen = None
        if padding is not None:
            wanted = ((length,),) if x.dim() == 2 else ((batch, length),)
            seen = _visible("key_padding_mask", padding, wanted).view(batch, 1, 1, length)
        if attn_mask is not None:
            whole = (batch * self.num_heads, length, length)
            visible = _visible("attn_mask", attn_mask, ((length, length), whole))
            visible = visible.view(
                -1 if visible.dim() == 2 else batch,
                1 if visible.dim() == 2 else self.num_heads,
                length,
                length,
            )
            seen = visible if seen is None else seen & visible
        return seen


def _visible(name: str, mask: Tensor, shapes: tuple[tuple[int, ...], ...]) -> Tensor:
    """Convert a torch mask (boolean with True = hidden, or numeric with -inf = hidden) to True = visible."""
    if tuple(mask.shape) not in shapes:
        raise ValueError(f"{name}: shape {tuple(mask.shape)} (allowed: {' or '.join(map(str, shapes))})")
    if mask.dtype == torch.bool:
        return ~mask
    hidden = mask == -torch.inf
    if not (hidden | (mask == 0)).all():
        raise ValueError(f"{name}: numbers other than 0 and -inf (allowed: those two, or a boolean mask)")
    return ~hidden
