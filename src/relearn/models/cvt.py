"""CvT (Wu et al., ICCV 2021) with its own attention or with long-short attention (zhu2022, section 5.3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.image_tiles import Grid
from relearn.layers.long_short_attention_2d import LongShortAttention2d
from relearn.layers.separable_projection import SeparableProjection
from relearn.models.token_stages import Embed, TokenStages


class ConvolutionalAttention(nn.Module):
    r"""Full attention whose queries, keys and values come from convolutions (Wu et al. 2021, section 3.2).

    .. math:: Y = \mathrm{softmax}(Q K^\top / \sqrt{d_k})\, V\, W^O

    with Q, K, V from :class:`~relearn.layers.separable_projection.SeparableProjection`, K and V with a stride. Class tokens pass through
    the linear maps only.

    Shapes: x (B, G + H W, D), class tokens first; the output has the same shape.

    Args:
        dim, heads: width D and number of heads.
        kernel: size of the convolutions.
        kv_stride: stride of keys and values.
        class_tokens: G.
        **projection: ``norm`` and ``conv_bias`` of the projections.
    """

    def __init__(
        self, dim: int, heads: int, *, kernel: int, kv_stride: int, class_tokens: int, **projection: Any
    ) -> None:
        super().__init__()
        self.heads, self.class_tokens = heads, class_tokens
        self.q, self.k, self.v = (
            SeparableProjection(dim, dim, kernel=kernel, stride=stride, **projection)
            for stride in (1, kv_stride, kv_stride)
        )
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        tokens, image = x[:, : self.class_tokens], x[:, self.class_tokens :].unflatten(1, grid)

        def split(layer: Any) -> Tensor:
            rows = torch.cat([layer.linear(tokens), layer(image).flatten(1, 2)], 1)
            return rows.unflatten(2, (self.heads, -1)).transpose(1, 2)

        mixed = scaled_dot_product_attention(split(self.q), split(self.k), split(self.v))
        return self.out(mixed.transpose(1, 2).flatten(2))


class CvT(TokenStages):
    """CvT: overlapping convolutional embeddings, convolutional projections, a class token in the last stage, no position embeddings.

    An embedding with stride s has a kernel of 2s - 1, at least 3: as published, 7 x 7 with stride 4, then 3 x 3 with stride 2.

    With ``attention="long_short"`` every stage uses :class:`~relearn.layers.long_short_attention_2d.LongShortAttention2d`. All
    four of its maps, including the dynamic projection, are depth-wise separable convolutions (zhu2022, section 5.2.3); keys and
    values have no stride.

    For CvT*-LS, zhu2022 states neither rank nor window, nor which maps of CvT*-LS-17 and -21S are denser. The values behind the
    registered names were **found by search, not stated**: see :mod:`relearn.measures.vision_counts`.

    Args:
        attention: "full" or "long_short".
        kernel: size of the convolutional projections, odd.
        kv_stride: stride of keys and values in full attention (2 as published; 1 in table 5.8 of zhu2022, judging by its FLOPs).
        conv_norm: use batch normalisation in the projections, as the authors of CvT do.
        conv_bias: whether the convolutions of the projections have a bias; None: only without ``conv_norm``.
        window, rank: of long-short attention; one number, or one per stage.
        dual_norm, as_released: of long-short attention.
        **size: see :class:`~relearn.models.token_stages.TokenStages`; the default is CvT-13.

    Raises:
        ValueError: arguments that the parts reject; an unknown ``attention``; a wrong number of windows or ranks.
    """

    def __init__(
        self,
        *,
        attention: Literal["full", "long_short"] = "full",
        kernel: int = 3,
        kv_stride: int = 2,
        conv_norm: bool = True,
        conv_bias: bool | None = None,
        window: int | Sequence[int] = 7,
        rank: int | Sequence[int] = 8,
        dual_norm: bool = True,
        as_released: bool = False,
        embed_dim: int = 64,
        depths: Sequence[int] = (1, 2, 10),
        num_heads: Sequence[int] = (1, 3, 6),
        **size: Any,
    ) -> None:
        if attention not in ("full", "long_short"):
            raise ValueError(f"attention: {attention!r} (allowed: full, long_short)")
        windows, ranks = (
            [one] * len(depths) if isinstance(one, int) else list(one) for one in (window, rank)
        )
        for name, numbers in {"window": windows, "rank": ranks}.items():
            if len(numbers) != len(depths):
                raise ValueError(
                    f"{name}: {numbers} (allowed: one number, or one for each of {len(depths)} stages)"
                )

        def attend(dim: int, heads: int, grid: Grid, stage: int, class_tokens: int) -> nn.Module:
            if attention == "full":
                return ConvolutionalAttention(
                    dim,
                    heads,
                    kernel=kernel,
                    kv_stride=kv_stride,
                    class_tokens=class_tokens,
                    norm=conv_norm,
                    conv_bias=conv_bias,
                )
            return LongShortAttention2d(
                dim,
                heads,
                window=windows[stage],
                rank=ranks[stage],
                conv=kernel,
                conv_norm=conv_norm,
                conv_bias=conv_bias,
                class_tokens=class_tokens,
                dual_norm=dual_norm,
                as_released=as_released,
            )

        def embed(channels: int, dim: int, stage: int, stride: int) -> nn.Module:
            wide = max(2 * stride - 1, 3)
            return Embed(channels, dim, wide, stride, wide // 2)

        super().__init__(
            embed=embed,
            attention=attend,
            class_tokens=[0] * (len(depths) - 1) + [1],
            embed_dim=embed_dim,
            depths=depths,
            num_heads=num_heads,
            **size,
        )
