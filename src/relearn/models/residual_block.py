"""One block of a vision Transformer under any residual scheme."""

from __future__ import annotations

from torch import Tensor, nn

from relearn.models.residual_schemes import Joint


class ResidualBlock(nn.Module):
    r"""Attention, then feed-forward, each joined to the stream.

    .. math:: x \leftarrow x + a \odot f(\eta(x)) \quad\text{(before)}, \qquad
              x \leftarrow \eta(x + f(x)) \quad\text{(behind)}, \qquad
              x \leftarrow x + a\, f(x) \quad\text{(none)}

    η is LayerNorm and a what the scheme has. ``join1`` and ``join2`` are called with the stream and the branch, in this
    order, at every residual of the block; names of parameters are those of timm's ``Block`` but for ``join*.alpha``,
    timm's ``ls*.gamma``.

    Shapes: x (B, N, D), the output alike.

    Args:
        attention, mlp: the branches; timm's, or an attention of this package.
        joint: the scheme.
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
