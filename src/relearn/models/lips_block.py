"""The LipsFormer block: convolutions, attention and feed-forward, each with a weighted residual connection."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from relearn.layers.center_norm import CenterNorm
from relearn.layers.depthwise_conv import DepthwiseConv2d
from relearn.layers.gelu_linear import GeluLinear, GeluPointwiseConv2d
from relearn.layers.weighted_residual import WeightedResidual

Norm = Literal["center", "layer", "none"]
CONVOLUTIONS: dict[str, tuple[bool, ...]] = {"A": (), "B": (False,), "C": (True,), "D": (True, False)}
"""Configuration of qi2023's table 3 → its convolution branches, and whether a branch has a 1 x 1 convolution."""


def norm(
    kind: Norm, dim: int, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> nn.Module:
    """Build CenterNorm, LayerNorm or the identity over the last axis; ``device`` and ``dtype`` are passed by timm's parts."""
    if kind not in get_args(Norm):
        raise ValueError(f"norm: {kind!r} (allowed: {', '.join(get_args(Norm))})")
    if kind == "none":
        return nn.Identity()
    return (CenterNorm(dim) if kind == "center" else nn.LayerNorm(dim)).to(device, dtype)


def convolutions(dim: int, pointwise: bool) -> nn.Sequential:
    """A depth-wise 7 x 7 convolution and GELU, optionally followed by a 1 x 1 convolution and GELU."""
    if not pointwise:
        return nn.Sequential(DepthwiseConv2d(dim, 7), nn.GELU())
    # The second convolution includes the GELU between the two; the identity preserves the released code's parameter indices.
    return nn.Sequential(DepthwiseConv2d(dim, 7), nn.Identity(), GeluPointwiseConv2d(dim), nn.GELU())


class FeedForward(nn.Module):
    """Linear, GELU, linear: timm's ``Mlp`` with the same parameter names, but without dropout and with less memory for backward."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = GeluLinear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x))


class LipsBlock(nn.Module):
    r"""One block of LipsFormer (qi2023, section 4.2.1, figure 1 and table 1).

    .. math::
        x \leftarrow x + \alpha_c \odot f_c(x) \;\text{for each convolution branch}, \qquad
        x \leftarrow \mathrm{CN}(x + \alpha_a \odot \mathrm{Attention}(x)), \qquad
        x \leftarrow \mathrm{CN}(x + \alpha_m \odot \mathrm{Mlp}(x))

    with DropPath on every branch. The paper states "two depth-wise and one point-wise convolutions" (section 5.3, its
    configuration D), but neither their order nor what is between them. The two branches (7 x 7, GELU, 1 x 1, GELU) and (7 x 7,
    GELU) are those of the released code. Only with these branches do the parameter counts of LipsFormer-Swin-B and
    LipsFormer-CSwin-S round to the printed ones (docs of :mod:`relearn.measures.model_counts`).

    Shapes: x (B, H, W, D); the output has the same shape.

    Args:
        dim: width D.
        attention: a module (B, H, W, D) → (B, H, W, D).
        alpha: initial value of every α.
        conv: configuration of the convolutions, one of :data:`CONVOLUTIONS`.
        norm_kind: "center"; "layer" and "none" are ablations.
        mlp_ratio: width of the hidden layer divided by D.
        drop_path: drop probability, the same for every branch.
    """

    def __init__(
        self,
        dim: int,
        attention: nn.Module,
        *,
        alpha: float,
        conv: str = "D",
        norm_kind: Norm = "center",
        mlp_ratio: float = 4.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        if conv not in CONVOLUTIONS:
            raise ValueError(f"conv: {conv!r} (allowed: {', '.join(CONVOLUTIONS)})")
        branches = CONVOLUTIONS[conv]
        self.convs = nn.ModuleList(convolutions(dim, pointwise) for pointwise in branches)
        self.joins = nn.ModuleList(
            WeightedResidual(dim, alpha, drop_path=drop_path, axis=1) for _ in branches
        )
        self.attention = attention
        self.join1 = WeightedResidual(dim, alpha, drop_path=drop_path)
        self.norm1 = norm(norm_kind, dim)
        self.mlp = FeedForward(dim, int(dim * mlp_ratio))
        self.join2 = WeightedResidual(dim, alpha, drop_path=drop_path)
        self.norm2 = norm(norm_kind, dim)

    def forward(self, x: Tensor) -> Tensor:
        image = x.permute(0, 3, 1, 2)
        for conv, join in zip(self.convs, self.joins):
            image = join(image, conv(image))
        x = image.permute(0, 2, 3, 1).contiguous()
        x = self.norm1(self.join1(x, self.attention(x)))
        return self.norm2(self.join2(x, self.mlp(x)))
