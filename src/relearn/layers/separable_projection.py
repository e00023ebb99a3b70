"""The convolutional projection of CvT: a depth-wise convolution, then a linear map of every token."""

from __future__ import annotations

from torch import Tensor, nn

from relearn.layers.depthwise_conv import DepthwiseConv2d


class SeparableProjection(nn.Module):
    r"""Projection of a grid of tokens to queries, keys, values or scores, after each token is mixed with its neighbours.

    .. math:: y = \mathrm{BN}(w \star x)\, A + b

    Wu et al., "CvT: Introducing Convolutions to Vision Transformers" (2021), section 3.2. The convolution has a bias
    if there is no BN or if ``conv_bias`` asks for it. A bias before BN, as in some third-party implementations, has no effect but
    counts as a parameter.

    Shapes: x (B, H, W, D) → (B, ⌈H/s⌉, ⌈W/s⌉, M) with stride s and M = ``out``.

    Args:
        dim: width D.
        out: width M of the result.
        kernel: size of the convolution, odd.
        stride: s.
        norm: apply batch normalisation after the convolution.
        conv_bias: whether the convolution has a bias; None: only without ``norm``.
        bias: whether the linear map has a bias.

    Raises:
        ValueError: an even kernel size or a stride below 1.
    """

    def __init__(
        self,
        dim: int,
        out: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        norm: bool = True,
        conv_bias: bool | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if stride < 1:
            raise ValueError(f"stride: {stride} (allowed: at least 1)")
        self.conv: nn.Conv2d = DepthwiseConv2d(dim, kernel)
        if stride > 1:
            self.conv = nn.Conv2d(dim, dim, kernel, stride, kernel // 2, groups=dim)
        if not (not norm if conv_bias is None else conv_bias):
            self.conv.register_parameter("bias", None)
        self.norm = nn.BatchNorm2d(dim) if norm else nn.Identity()
        self.linear = nn.Linear(dim, out, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.norm(self.conv(x.permute(0, 3, 1, 2)))
        return self.linear(mixed.permute(0, 2, 3, 1))
