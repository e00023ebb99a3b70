r"""An invertible residual block x + c f(x), where c f is a contraction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from relearn.layers.l2_attention import L2Attention
from relearn.maths import fixed_point, log_determinant

Constant = float | Callable[[Tensor], "Tensor | float"]
# J is contractive in a norm exactly if its transpose is contractive in the dual norm.
DUAL = {"inf": "one", "two": "two", "one": "inf"}
ROUNDINGS = 64  # default tolerance of an inverse, in machine epsilons
MARGIN = 2  # updates beyond the number that exact arithmetic needs
SMALL = 256  # up to this many entries per sample, the log-determinant is exact by default
FREE = 100  # maximum number of updates if no rate is known


class InvertibleResidual(nn.Module):
    r"""Compute y = x + c f(x), and recover x from y by iterating x <- y - c f(x).

    ============  =======================================================  ======================================
    symbol        meaning                                                  code
    ============  =======================================================  ======================================
    f             the branch, any module that preserves the shape          ``branch``
    L             a Lipschitz constant of f in ``norm``                    ``lipschitz``
    :math:`\rho`  rate, :math:`|c| L`; guaranteed invertible if below 1    :meth:`rate`
    ============  =======================================================  ======================================

    For L2 attention, L is the bound of kim2020, theorem 3.2 (or ``scale``, if the layer divides by that bound itself). The guarantee
    is only as good as L: the bound printed there for p = 2 is wrong (erratum K1). A layer normalisation or feed-forward branch needs
    a constant of its own.

    Source: kim2020, sections 4.1 and 4.2; Behrmann et al. 2019. Both iterate a fixed number of times; here the number follows
    from the rate, and a result that misses the tolerance raises an error.

    Pass the same masks to forward and inverse. If a mask hides a token from itself, theorem 3.2's constant does not hold (erratum K6).
    In training mode with dropout the branch is a different map at every call and cannot be inverted; call ``eval()`` first.

    Args:
        branch: f. Additional keyword arguments of forward and inverse are passed to it.
        c: factor of the branch.
        lipschitz: L, or a function of the block's input that returns it (a bound may depend on the length or on the current
            weights). Default: ``scale`` of a contractive L2 attention, otherwise ``branch.lipschitz_bound(length, p=norm)`` with
            length = ``x.shape[-2]``, if the branch has that method.
        norm: ``inf``, ``two`` or ``one``: the norm of a whole sample in which L holds.
        batched: whether the first axis of x counts samples, which f does not mix.

    Raises:
        ValueError: c is not finite, L is negative, or the norm is unknown; on construction if L is a number with :math:`\rho \ge 1`.
    """

    def __init__(
        self,
        branch: nn.Module,
        *,
        c: float = 1.0,
        lipschitz: Constant | None = None,
        norm: str = "inf",
        batched: bool = True,
    ) -> None:
        super().__init__()
        if norm not in fixed_point.NORMS:
            raise ValueError(f"norm: {norm!r} (allowed: {', '.join(fixed_point.NORMS)})")
        if lipschitz is not None and not callable(lipschitz):
            fixed_point.require_contraction(abs(c) * float(lipschitz))
        self.branch = branch
        self.c = float(c)
        self.lipschitz = lipschitz
        self.norm = norm
        self.batched = batched

    def forward(self, x: Tensor, **more: Any) -> Tensor:
        """Return x + c f(x), with the shape of x."""
        return x + self.c * self.branch(x, **more)

    def rate(self, x: Tensor) -> float:
        """Return ρ = |c| L for inputs shaped like x, even if it is not below 1.

        Raises:
            ValueError: ``lipschitz`` is None and the branch has no method ``lipschitz_bound``.
        """
        constant: Any = self.lipschitz
        if callable(constant):
            constant = constant(x)
        elif constant is None:
            constant = self._constant_of_branch(x)
        return abs(self.c) * float(constant.detach() if isinstance(constant, Tensor) else constant)

    def _constant_of_branch(self, x: Tensor) -> Any:
        if isinstance(self.branch, L2Attention) and self.branch.contractive:
            if self.branch.contractive != self.norm:
                raise ValueError(
                    f"norm: {self.norm!r} (allowed: {self.branch.contractive!r}, in which the branch is contractive, "
                    "or state lipschitz)"
                )
            return self.branch.scale
        bound = getattr(self.branch, "lipschitz_bound", None)
        if bound is None:
            raise ValueError(
                f"lipschitz: None, and {type(self.branch).__name__} states no lipschitz_bound "
                "(allowed: a constant, a function of the input, or a branch that has the method)"
            )
        with torch.no_grad():
            return bound(x.shape[-2], p=self.norm)

    def inverse(
        self,
        y: Tensor,
        *,
        tolerance: float | None = None,
        iterations: int | None = None,
        guaranteed: bool = True,
        **more: Any,
    ) -> Tensor:
        r"""Return the x with x + c f(x) = y up to ``tolerance``; once differentiable in y and in the branch's parameters.

        The gradient is that of the inverse function, not of the iteration: :math:`\bar y = u` and
        :math:`\bar\theta = -c\,(\partial f/\partial\theta)^\top u`, where :math:`(I + c J_f^\top) u = \bar x` is solved by the same
        kind of iteration at the same rate. It needs the memory of two evaluations of f.

        Args:
            tolerance: maximum error of every sample in ``norm``; maximum residual if ``guaranteed`` is False. Default:
                64 machine epsilons of y's dtype times :math:`1 + \|y\| + \|x - y\|`, divided by :math:`1 - \rho`.
            iterations: maximum number of updates. Default: what the rate requires plus a margin for rounding; 100 without a guarantee.
            guaranteed: refuse to start if :math:`\rho \ge 1`. If False, the iteration is tried whatever the rate.

        Raises:
            ValueError: ``guaranteed`` without a constant or with :math:`\rho \ge 1`; y is not finite; the tolerance is not met.
        """
        rate = fixed_point.require_contraction(self.rate(y)) if guaranteed else None
        if tolerance is not None and not tolerance > 0:
            raise ValueError(f"tolerance: {tolerance} (allowed: positive)")
        if self.batched and y.shape[:1] == (0,):  # no sample, as forward accepts it
            return y.clone()
        largest = self._size(y)
        rounding = 0.0
        if tolerance is None:
            rounding = ROUNDINGS * torch.finfo(y.dtype).eps
            needed = rounding * (1 + largest)
        else:
            needed = tolerance if rate is None else tolerance * (1 - rate)

        def f(x: Tensor) -> Tensor:
            value: Tensor = self.branch(x, **more)
            return value

        x = self._solve(f, y, needed, iterations, rate, self.norm, rounding)
        if not torch.is_grad_enabled():
            return x
        joined = y - self.c * f(
            x
        )  # one more update, which carries the graph to y and to the branch's parameters
        if joined.requires_grad:
            with torch.enable_grad():
                point = x.requires_grad_()
                value = f(point)

            def adjoint(gradient: Tensor | None) -> Tensor | None:
                if gradient is None:  # torch passes None for a zero gradient
                    return None
                if not bool(gradient.isfinite().all()):
                    return gradient
                part = needed / (1 + largest) * self._size(gradient, DUAL[self.norm])
                return self._solve(
                    lambda u: torch.autograd.grad(value, point, u, retain_graph=True)[0],
                    gradient,
                    part,
                    iterations,
                    rate,
                    DUAL[self.norm],
                    rounding,
                )

            joined.register_hook(adjoint)
        return joined

    def log_det(
        self,
        x: Tensor,
        *,
        method: str = "auto",
        draws: int = 16,
        keep: float | None = None,
        always: int = 4,
        generator: torch.Generator | None = None,
        guaranteed: bool = True,
        **more: Any,
    ) -> log_determinant.LogDeterminant:
        r"""Return :math:`\ln |\det(I + c J_f(x))|` of every sample, the change of log-density in a residual flow.

        ============  ============================================  ================================================
        ``method``    value                                         products with the Jacobian
        ============  ============================================  ================================================
        exact         from the Jacobian                             n, the number of entries per sample
        estimate      unbiased, with its estimated variance         about (``always`` + q/(1 - q)) ``draws``
        auto          exact up to n = 256, otherwise estimate
        ============  ============================================  ================================================

        Under ``torch.no_grad`` only first derivatives of f are used. With gradients enabled the value is differentiable, and f
        has to be twice differentiable (attention: ``fused = False``).

        Args:
            draws, always: see :func:`relearn.maths.log_determinant.estimate`.
            keep: q; None: the rate (at least 0.1), for which the variance is finite.
            generator: CPU generator of the draws; None: torch's global one.
            guaranteed: refuse a rate of 1 or more, at which the series may diverge. If False, ``keep`` has to be given for an estimate.
            more: keyword arguments of the branch.

        Raises:
            ValueError: an unknown method, no guarantee, numbers out of range, a determinant that is not positive.
        """
        if method not in ("auto", "exact", "estimate"):
            raise ValueError(f"method: {method!r} (allowed: auto, exact, estimate)")
        rate = fixed_point.require_contraction(self.rate(x)) if guaranteed else None
        if not self.batched:
            x = x[None]
        if not len(x):
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: at least one sample)")

        def f(z: Tensor) -> Tensor:
            value: Tensor = self.branch(z if self.batched else z[0], **more)
            return value if self.batched else value[None]

        if method == "exact" or (method == "auto" and x[0].numel() <= SMALL):
            return log_determinant.exact(f, x, self.c)
        if keep is None:
            if rate is None:
                raise ValueError(
                    "keep: None without a guarantee (allowed: above the square of c Lip(f), below 1)"
                )
            keep = max(rate, 0.1)
        return log_determinant.estimate(
            f, x, self.c, draws=draws, keep=keep, always=always, generator=generator
        )

    def _solve(
        self,
        f: Callable[[Tensor], Tensor],
        y: Tensor,
        needed: float,
        iterations: int | None,
        rate: float | None,
        norm: str,
        rounding: float,
    ) -> Tensor:
        """Solve x = y - c f(x) to a residual of ``needed`` + ``rounding`` · ‖x - y‖ or less."""
        how: dict[str, Any] = {"c": self.c, "norm": norm, "batched": self.batched}
        if iterations is None:
            iterations = FREE
            if rate is not None:
                first = fixed_point.solve(f, y, iterations=0, **how).residuals
                iterations = MARGIN
                if needed > 0:
                    iterations += fixed_point.updates_for(rate, needed / (1 - rate), float(first.max()))
        found = fixed_point.solve(f, y, iterations=iterations, tolerance=needed, **how)
        residual = float(found.residuals[-1].max())
        # the rounding of c f(x) = y - x remains, however small y is
        reach = min(self._size(found.x - y, norm), float(found.residuals[0].max()) / (1 - (rate or 0.0)))
        allowed = needed + rounding * reach
        if not (bool(found.converged.all()) or residual <= allowed < math.inf):
            raise ValueError(
                f"inverse: residual {residual:.3g} after {iterations} iterations (allowed: "
                f"{allowed:.3g}; the branch contracts less than stated, or the tolerance is below its rounding)"
            )
        return found.x

    def _size(self, x: Tensor, norm: str | None = None) -> float:
        return (
            float(fixed_point.sizes(x.detach(), norm or self.norm, self.batched).max()) if x.numel() else 0.0
        )
