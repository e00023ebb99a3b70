"""Residual schemes compared by touvron2021: how the branches of a vision Transformer are scaled and normalised."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import nn

from relearn.layers.scalar import Shift
from relearn.layers.scaled_residual import ScaledResidual
from relearn.layers.weighted_residual import WeightedResidual
from relearn.models.layer_scale_start import layer_scale_start

EPS = 1e-6
"""ε of every LayerNorm, as in DeiT and CaiT."""


class Scheme(NamedTuple):
    """One row of the table in :class:`~relearn.models.residual_vit.ResidualViT`."""

    norm: Literal["before", "behind", "none"]
    weight: Literal["none", "number", "channel"]
    start: float | None
    """Where a number starts; that of LayerScale: :func:`~relearn.models.layer_scale_start.layer_scale_start`."""
    epsilon: bool
    """Whether another initial value may be given."""


SCHEMES: dict[str, Scheme] = {
    "pre_norm": Scheme("before", "none", None, False),
    "post_norm": Scheme("behind", "none", None, False),
    "layer_scale": Scheme("before", "channel", None, True),
    "rezero": Scheme("none", "number", 0.0, True),
    "skip_init": Scheme("none", "number", 0.0, False),
    "fixup": Scheme("none", "number", 1.0, False),
    "t_fixup": Scheme("none", "none", None, False),
}


class Joint:
    """The layers that a residual scheme adds around the branches of a network with ``depth`` blocks.

    Args:
        residual: a key of :data:`SCHEMES`.
        dim: width D.
        depth: number of blocks.
        epsilon: initial value of the weights, for schemes that allow a choice; None: the value in :data:`SCHEMES`.
        norm: whether LayerNorm precedes the branches; None: as in :data:`SCHEMES`. True is allowed only for schemes without norms.

    Raises:
        ValueError: an unknown scheme, an epsilon or a norm for a scheme that allows no choice, or a negative epsilon.
    """

    def __init__(
        self, residual: str, dim: int, depth: int, *, epsilon: float | None = None, norm: bool | None = None
    ) -> None:
        if residual not in SCHEMES:
            raise ValueError(f"residual: {residual!r} (allowed: {', '.join(SCHEMES)})")
        scheme = SCHEMES[residual]
        if epsilon is not None and not scheme.epsilon:
            takes = ", ".join(name for name, one in SCHEMES.items() if one.epsilon)
            raise ValueError(
                f"epsilon: {epsilon} with residual {residual!r} (allowed: None; {takes} take one)"
            )
        if epsilon is not None and not 0 <= epsilon < float("inf"):
            raise ValueError(f"epsilon: {epsilon} (allowed: 0 or a positive number)")
        if norm is False and scheme.norm != "none":
            raise ValueError(f"norm: False with residual {residual!r} (allowed: None, True)")
        self.residual, self.dim, self.weight = residual, dim, scheme.weight
        self.norm = "before" if norm and scheme.norm == "none" else scheme.norm
        self.start = scheme.start if epsilon is None else float(epsilon)
        given = epsilon if self.weight == "channel" else None
        self.channel_start = layer_scale_start(depth) if given is None else float(given)
        """Initial value of LayerScale, in the body if it is the scheme, and in layers of class attention."""

    def join(self, drop_path: float) -> nn.Module:
        """Return a module (x, f(x)) → the stream after the branch; its weights are ``alpha``, of shape (D,) or (), or None."""
        if self.weight == "channel":
            return WeightedResidual(self.dim, self.channel_start, drop_path=drop_path)
        return ScaledResidual(self.start, drop_path=drop_path)

    def layer_norm(self) -> nn.Module:
        """Return the layer before a branch, or after the sum: LayerNorm or the identity, plus Fixup's first shift."""
        parts: list[nn.Module] = [] if self.norm == "none" else [nn.LayerNorm(self.dim, eps=EPS)]
        if self.residual == "fixup":
            parts.append(Shift())
        return parts[0] if len(parts) == 1 else nn.Sequential(*parts) if parts else nn.Identity()

    def shift(self, attention: nn.Module, mlp: nn.Module) -> None:
        """Insert Fixup's other shifts: before the last map of both branches and before the activation.

        timm's parts have a slot for a norm before their last map, which is the identity by default.
        """
        if self.residual == "fixup":
            attention.norm, mlp.norm = Shift(), Shift()
            mlp.act = nn.Sequential(Shift(), mlp.act)  # type: ignore[arg-type]
