"""CSWin Transformer (Dong et al., CVPR 2022), the baseline of LipsFormer-CSwin."""

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
    """A convolution with stride p and kernel 2p - 1, then LayerNorm; images (B, C, H, W) → (B, H/p, W/p, D).

    The published p is 4 (a 7 x 7 kernel).
    """

    def __init__(self, channels: int, dim: int, patch: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, dim, 2 * patch - 1, patch, patch // 2)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x).permute(0, 2, 3, 1))


class CSwin(Pyramid):
    """The baseline: dot products, LayerNorm before each branch, overlapping convolutions in the stem and between stages.

    Linear layers are initialised with N(0, 0.02²) truncated at ±2, biases with 0; convolutions have torch's initialisation.

    Args:
        split: width of the stripes, per stage.
        mlp_ratio: width of the hidden layer divided by the token width.
        **size: see :class:`~relearn.models.pyramid.Pyramid`.

    Raises:
        ValueError: arguments that the parts reject; a wrong number of stripe widths.
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
