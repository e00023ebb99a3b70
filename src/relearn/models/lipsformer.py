"""LipsFormer on the windows of Swin or on the cross-shaped windows of CSWin (Qi et al., ICLR 2023)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn

from relearn.maths.spectral_draw import spectral_normal_
from relearn.models.cross_windows import CrossShapedAttention, Similarity
from relearn.models.lips_block import LipsBlock, Norm, norm
from relearn.models.pyramid import Downsample, Grid, Pyramid
from relearn.models.shifted_windows import ShiftedWindowAttention
from relearn.models.timm_parts import PatchEmbed, PatchMerging

PAPER: dict[str, Any] = dict(tau=12.0, eps=1e-6)
RELEASED: dict[str, Any] = dict(tau=10.0, eps=1e-24, normalise_values=False, average_heads=False)
"""The released attention; 1e-24 inside the root corresponds to torch's ``normalize``, which uses a norm of at least 1e-12."""


STARTS: dict[str, Callable[[Tensor], object]] = {
    "spectral": spectral_normal_,
    "xavier": nn.init.xavier_normal_,
    "truncated": partial(nn.init.trunc_normal_, std=0.02),
}
"""Initialisations of qi2023's table 3: equation 5 (flattened kernels), its numerator, N(0, 0.02²) truncated at ±2."""


class LipsFormer(Pyramid):
    r"""LipsFormer-Swin (``windows="square"``) and LipsFormer-CSwin (``windows="cross"``).

    Qi et al. 2023, section 4.2 and appendix B. Non-overlapping convolutions embed the patches and halve the grid between stages.
    The blocks are :class:`~relearn.models.lips_block.LipsBlock`. The defaults follow the paper:

    ====================  ==================================  =====================================
    \                     here, from the paper                ``as_released`` (their code, Swin)
    ====================  ==================================  =====================================
    Q and K               over sqrt(‖·‖² + ε), ε = 1e-6       over max(‖·‖, 1e-12)
    V                     normalised as well                  unchanged
    heads                 times ν/H, ν = 1                    unchanged
    τ                     12 (table 6)                        10
    windows               shifted in every second block       never shifted
    α                     1/L, L = number of blocks           the same
    ====================  ==================================  =====================================

    The paper states neither ν nor ε. It says that it follows Swin, which shifts its windows, but does not mention shifts. Both
    variants have the same number of parameters. For L, table 6 says "residual blocks", and the released code counts whole blocks.
    Theorem 2 needs the number of branches, which is four times as large (errata, Q13); pass ``alpha`` to use it.

    The last norm is Swin's; section 4.2 does not mention one.

    Weights of linear layers and convolutions are initialised with largest singular value 1, biases with 0 (equation 5;
    :func:`~relearn.maths.spectral_draw.spectral_normal_`); position tables are initialised as in Swin.

    Args:
        windows: "square" or "cross".
        window: side of the square windows, or width of the stripes; one number, or one per stage.
        similarity: logits, only for cross-shaped windows, see
            :class:`~relearn.models.cross_windows.CrossShapedAttention`; all but "cosine" are ablations.
        tau, nu, eps: parameters of the attention; None: the value in the table.
        alpha: initial value of every α; None: 1/L.
        conv: configuration of the convolutions in table 3, A to D.
        norm_kind: "center"; "layer" and "none" are ablations.
        mlp_ratio: width of the hidden layer divided by the token width.
        as_released: see above.
        start: initialisation of the weights, one of :data:`STARTS`; all but "spectral" are ablations.
        **size: image, patch, widths, depths, heads and drop rates: see :class:`~relearn.models.pyramid.Pyramid`.

    Raises:
        ValueError: arguments that the parts reject; an unknown ``windows`` or ``start``; a wrong number of windows; ``as_released``
            with cross-shaped windows; a similarity other than "cosine" with square windows.
    """

    def __init__(
        self,
        *,
        windows: Literal["square", "cross"] = "square",
        window: int | Sequence[int] = 7,
        similarity: Similarity = "cosine",
        tau: float | None = None,
        nu: float = 1.0,
        eps: float | None = None,
        alpha: float | None = None,
        conv: str = "D",
        norm_kind: Norm = "center",
        mlp_ratio: float = 4.0,
        as_released: bool = False,
        start: str = "spectral",
        depths: Sequence[int] = (2, 2, 6, 2),
        **size: Any,
    ) -> None:
        if windows not in ("square", "cross"):
            raise ValueError(f"windows: {windows!r} (allowed: square, cross)")
        if windows == "cross" and as_released:
            raise ValueError(
                "as_released: True with cross-shaped windows (allowed: with square ones; only theirs were released)"
            )
        if windows == "square" and similarity != "cosine":
            raise ValueError(
                f"similarity: {similarity!r} in square windows (allowed: cosine; others in cross-shaped ones)"
            )
        if start not in STARTS:
            raise ValueError(f"start: {start!r} (allowed: {', '.join(STARTS)})")
        sides = [window] * len(depths) if isinstance(window, int) else list(window)
        if len(sides) != len(depths):
            raise ValueError(
                f"window: {window} (allowed: one number, or one for each of {len(depths)} stages)"
            )
        cosine = (RELEASED if as_released else PAPER) | {"nu": nu}
        cosine |= {name: value for name, value in {"tau": tau, "eps": eps}.items() if value is not None}
        weight = 1 / max(sum(depths), 1) if alpha is None else alpha
        named: Any = partial(norm, norm_kind)

        def attention(dim: int, heads: int, grid: Grid, stage: int, index: int) -> nn.Module:
            if windows == "cross":
                return CrossShapedAttention(dim, heads, grid, sides[stage], similarity=similarity, **cosine)
            shifted = index % 2 == 1 and not as_released
            return ShiftedWindowAttention(dim, heads, grid, sides[stage], shifted=shifted, **cosine)

        def block(dim: int, heads: int, grid: Grid, stage: int, index: int, drop_path: float) -> nn.Module:
            return LipsBlock(
                dim,
                attention(dim, heads, grid, stage, index),
                alpha=weight,
                conv=conv,
                norm_kind=norm_kind,
                mlp_ratio=mlp_ratio,
                drop_path=drop_path,
            )

        def halving(dim: int) -> nn.Module:
            if windows == "cross":
                return Downsample(dim, named(2 * dim), kernel=2)
            return PatchMerging(dim, norm_layer=named)

        def stem(channels: int, dim: int, sides: Grid, patch: int) -> nn.Module:
            return PatchEmbed(sides, patch, channels, dim, norm_layer=named, output_fmt="NHWC")

        super().__init__(stem=stem, halving=halving, block=block, last_norm=named, depths=depths, **size)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                STARTS[start](module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
