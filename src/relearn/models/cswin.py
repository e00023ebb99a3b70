"""CSWin Transformer (Dong et al., CVPR 2022): what LipsFormer-CSwin is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from relearn.models.cross_windows import CrossShapedAttention
from relearn.models.pyramid import Downsample, Grid, Pyramid
from relearn.models.timm_parts import DropPath, Mlp, trunc_normal_


class CSwinBlock(nn.Module):
    """x ← x + Attention(LN(x)), x ← x + Mlp(LN(x)), with DropPath on both branches; x is (B, H, W, D)."""

    def __init__(self, dim: int, attention: nn.Module, mlp_ratio: float, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attention = attention
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.attention(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class OverlappingStem(nn.Module):
    """A convolution of stride p with a kernel of 2p - 1, then LayerNorm; images (B, C, H, W) → (B, H/p, W/p, D).

    The published p is 4 (a 7 x 7 kernel).
    """

    def __init__(self, channels: int, dim: int, patch: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, dim, 2 * patch - 1, patch, patch // 2)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x).permute(0, 2, 3, 1))


class CSwin(Pyramid):
    """The baseline: dot products, LayerNorm before each branch, overlapping convolutions as stem and between stages.

    Linear layers start with N(0, 0.02²) cut off at ±2, biases 0; convolutions as torch starts them.

    Args:
        split: width of the stripes of every stage.
        mlp_ratio: width of the hidden layer over that of a token.
        **size: see :class:`~relearn.models.pyramid.Pyramid`.

    Raises:
        ValueError: what the parts refuse; stripes for another number of stages.
    """

    def __init__(
        self,
        *,
        split: Sequence[int] = (1, 2, 7, 7),
        mlp_ratio: float = 4.0,
        depths: Sequence[int] = (1, 2, 21, 1),
        **size: Any,
    ) -> None:
        if len(split) != len(depths):
            raise ValueError(f"split: {split} (allowed: one number for each of {len(depths)} stages)")

        def block(dim: int, heads: int, grid: Grid, stage: int, index: int, drop_path: float) -> nn.Module:
            attention = CrossShapedAttention(dim, heads, grid, split[stage], similarity="dot_product")
            return CSwinBlock(dim, attention, mlp_ratio, drop_path)

        super().__init__(
            stem=lambda channels, dim, sides, patch: OverlappingStem(channels, dim, patch),
            halving=lambda dim: Downsample(dim, nn.LayerNorm(2 * dim), kernel=3),
            block=block,
            last_norm=nn.LayerNorm,
            depths=depths,
            **size,
        )
        for module in self.modules():
            if isinstance(module, nn.Linear):
                trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
