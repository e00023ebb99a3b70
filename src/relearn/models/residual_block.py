"""One block of a vision Transformer with any residual scheme."""

from __future__ import annotations

from torch import Tensor, nn

from relearn.models.residual_schemes import Joint


class ResidualBlock(nn.Module):
    r"""Attention, then feed-forward, each added to the stream by the residual scheme.

    .. math:: x \leftarrow x + a \odot f(\eta(x)) \quad\text{(before)}, \qquad
              x \leftarrow \eta(x + f(x)) \quad\text{(after)}, \qquad
              x \leftarrow x + a\, f(x) \quad\text{(none)}

    η is LayerNorm, and a is the weight of the scheme. ``join1`` and ``join2`` are called as (stream, branch output), in this order, at
    every residual connection of the block. Parameter names are those of timm's ``Block``, except that timm's ``ls*.gamma`` is called
    ``join*.alpha``.

    Shapes: x (B, N, D); the output has the same shape.

    Args:
        attention, mlp: the branches, from timm or from this package.
        joint: the residual scheme.
        drop_path: probability of dropping a branch.
    """

    def __init__(self, attention: nn.Module, mlp: nn.Module, joint: Joint, drop_path: float) -> None:
        super().__init__()
        joint.shift(attention, mlp)
        self.behind = joint.norm == "behind"
        self.norm1 = joint.layer_norm()
        self.attn = attention
        self.join1 = joint.join(drop_path)
        self.norm2 = joint.layer_norm()
        self.mlp = mlp
        self.join2 = joint.join(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        if self.behind:
            x = self.norm1(self.join1(x, self.attn(x)))
            return self.norm2(self.join2(x, self.mlp(x)))
        x = self.join1(x, self.attn(self.norm1(x)))
        return self.join2(x, self.mlp(self.norm2(x)))
