"""Vision Longformer (Zhang et al., ICCV 2021), also with long-short attention (ViL-LS; zhu2022, section 5.3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import nn

from relearn.layers.image_tiles import Grid
from relearn.layers.long_short_attention_2d import LongShortAttention2d
from relearn.models.token_stages import Embed, TokenStages


class ViL(TokenStages):
    """Four stages: the first ones use windowed attention with class tokens, the others full attention; position tables are learned.

    Embeddings are non-overlapping convolutions with LayerNorm. Every stage but the last has its own class tokens, and the input of the
    head is the mean over the last grid. All attention is :class:`~relearn.layers.long_short_attention_2d.LongShortAttention2d`:

    ==============  ==================================================  =======================================================
    stage           ``attention="local"`` (ViL)                         ``attention="long_short"`` (ViL-LS)
    ==============  ==================================================  =======================================================
    i < ``local``   f by f segments plus one segment on each side       f by f segments plus half a segment on each side, r
                    (3f by 3f), tables also for class tokens            summaries, DualLN, tables for the window only
    others          all tokens, tables also for class tokens            the same as on the left
    ==============  ==================================================  =======================================================

    The released settings of both have f = 7, r = 8, one class token, position tables in every stage, and full attention from the
    third stage on. zhu2022 states only the rank, which agrees. There are two differences from the released code of ViL-LS: here class
    tokens attend to keys and values unless ``as_released``, and no two relative positions share a table entry.

    Args:
        attention: "local" or "long_short".
        window: f.
        rank: r of long-short attention.
        local: number of stages with windows.
        class_tokens: number of class tokens of every stage but the last.
        dual_norm, as_released: options of long-short attention.
        **size: see :class:`~relearn.models.token_stages.TokenStages`; the default is ViL-Medium.

    Raises:
        ValueError: arguments that the parts reject; an unknown ``attention``.
    """

    def __init__(
        self,
        *,
        attention: Literal["local", "long_short"] = "local",
        window: int = 7,
        rank: int = 8,
        local: int = 2,
        class_tokens: int = 1,
        dual_norm: bool = True,
        as_released: bool = False,
        global_pool: Literal["token", "avg"] = "avg",
        embed_dim: int = 96,
        ratios: Sequence[int] | None = None,
        depths: Sequence[int] = (1, 4, 16, 1),
        num_heads: Sequence[int] = (3, 3, 6, 12),
        **size: Any,
    ) -> None:
        if attention not in ("local", "long_short"):
            raise ValueError(f"attention: {attention!r} (allowed: local, long_short)")

        def attend(dim: int, heads: int, grid: Grid, stage: int, count: int) -> nn.Module:
            tables: dict[str, Any] = dict(relative_bias=True, class_tokens=count)
            if stage < local and attention == "long_short":
                norms: dict[str, Any] = dict(dual_norm=dual_norm, as_released=as_released)
                return LongShortAttention2d(dim, heads, window=window, rank=rank, **tables, **norms)
            side, reach = (window, window) if stage < local else (max(grid), 0)
            return LongShortAttention2d(
                dim, heads, window=side, reach=reach, rank=0, dual_norm=False, class_bias=count > 0, **tables
            )

        def embed(channels: int, dim: int, stage: int, stride: int) -> nn.Module:
            return Embed(channels, dim, stride, stride, 0)

        doubled = [2**stage for stage in range(len(depths))]
        super().__init__(
            embed=embed,
            attention=attend,
            class_tokens=[class_tokens] * (len(depths) - 1) + [0],
            global_pool=global_pool,
            embed_dim=embed_dim,
            ratios=doubled if ratios is None else ratios,
            depths=depths,
            num_heads=num_heads,
            **size,
        )
