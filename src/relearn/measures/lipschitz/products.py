r"""The Jacobian of any function at one point as a linear map that is never stored: :math:`v \mapsto Jv` and :math:`u \mapsto J^\top u`.

==============  ===============================================  ====================================================
``mode``        :math:`Jv`                                       :math:`J^\top u`
==============  ===============================================  ====================================================
``reverse``     derivative of :math:`u \mapsto J^\top u` along   one backward pass through a stored graph
                v: a backward pass through the backward pass
``forward``     ``torch.func.jvp``                               one forward and one backward pass
``difference``  :math:`(f(x+hv) - f(x-hv)) / 2h`                 one forward and one backward pass
==============  ===============================================  ====================================================

``reverse`` evaluates the function once, so a pair of products costs two backward passes, about as much as one forward and one
backward pass, and stores two graphs. ``forward`` stores nothing between calls. ``difference`` needs only a first derivative, which fused
kernels provide, and therefore the least memory, that of one forward and backward pass; its error is of order :math:`\epsilon^{2/3}` (1e-10
in float64, 1e-5 in float32). ``auto`` is ``reverse``, or ``forward`` if the function is not twice differentiable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from relearn.maths.log_determinant import require_graph

MODES = ("auto", "reverse", "forward", "difference")


class Products:
    """Products with the Jacobian of ``f`` at ``x``.

    Parameters of a module are constants and get no gradient. A function that draws random numbers (dropout in training mode) has
    no Jacobian, and products in different modes would be inconsistent; put a module into eval mode first.

    Attributes:
        output: f(x), detached.
        mode: the mode in use; ``auto`` decides at the first ``push``.

    Raises:
        ValueError: ``x`` is not floating point, f does not return a tensor, an unknown mode, no derivative in that mode, or
            ``torch.inference_mode`` where a graph is needed.
    """

    def __init__(self, f: Callable[[Tensor], Tensor], x: Tensor, mode: str = "auto") -> None:
        if mode not in MODES:
            raise ValueError(f"mode: {mode!r} (allowed: {', '.join(MODES)})")
        if not x.is_floating_point():
            raise ValueError(f"x: dtype {x.dtype} (allowed: floating point)")
        self.f, self.mode = f, mode
        self._graph: tuple[Tensor, Tensor] | None = None
        self._twice: tuple[Tensor | None, Tensor] | None = None
        self.x = x.detach()
        if mode in ("auto", "reverse"):
            self._graph = self._record()
            self.output = self._graph[1].detach()
        else:
            with torch.no_grad():
                self.output = _tensor(f(self.x))

    def push(self, v: Tensor) -> Tensor:
        """Return J v, with the shape of f(x), for v with the shape of x."""
        if self.mode == "forward":
            return torch.func.jvp(self.f, (self.x,), (v,))[1].detach()
        if self.mode == "difference":
            return self._difference(v)
        if self._twice is None:
            return self._first_product(v)
        pulled, weights = self._twice
        if pulled is None or not pulled.requires_grad:
            return torch.zeros_like(self.output)
        return torch.autograd.grad(pulled, weights, v, retain_graph=True)[0]

    def pull(self, u: Tensor) -> Tensor:
        """Return Jᵀ u, with the shape of x, for u with the shape of f(x)."""
        x, y = self._graph or self._record()
        return _grad(y, x, u, keep=self._graph is not None)

    def rows(self, block: int) -> Iterator[Tensor]:
        """Yield the rows of J in order, ``block`` at a time: (at most ``block``, x.numel())."""
        x, y = self._graph or self._record()
        count = y.numel()
        for first in range(0, count, block):
            size = min(block, count - first)
            basis = y.new_zeros(size, count)
            basis[torch.arange(size), torch.arange(first, first + size)] = 1.0
            yield pulled_rows(y, x, basis.view(size, *y.shape)).reshape(size, -1)

    def _record(self) -> tuple[Tensor, Tensor]:
        require_graph()
        with torch.enable_grad():
            x = self.x.clone().requires_grad_()
            return x, _tensor(self.f(x))

    def _first_product(self, v: Tensor) -> Tensor:
        """Compute the first product: build the graph of u ↦ Jᵀu, and fall back to forward mode if that is impossible."""
        assert self._graph is not None
        x, y = self._graph
        weights = torch.zeros_like(y, requires_grad=True)
        try:
            pulled = None
            if y.requires_grad:
                (pulled,) = torch.autograd.grad(y, x, weights, create_graph=True, allow_unused=True)
            self._twice = pulled, weights
            product = self.push(v)
            self._check(v, product)
        except RuntimeError as error:
            if self.mode == "reverse":
                raise ValueError(
                    f"mode: 'reverse', but f has no second derivative ({_first(error)})"
                ) from error
            self.mode, self._graph, self._twice = "forward", None, None
            try:
                return self.push(v)
            except RuntimeError as other:
                raise ValueError(
                    f"f has neither a second derivative ({_first(error)}) nor a forward mode ({_first(other)}); "
                    "allowed: one of them, or mode = 'difference'"
                ) from other
        self.mode = "reverse"
        return product

    def _check(self, v: Tensor, product: Tensor) -> None:
        """Check u·(Jv) = (Jᵀu)·v for a random u; torch silently omits parts of f that are only once differentiable."""
        u = torch.randn(product.shape, generator=torch.Generator().manual_seed(0)).to(product)
        pulled = self.pull(u)
        size = u.norm() * product.norm() + pulled.norm() * v.norm()
        if ((u * product).sum() - (pulled * v).sum()).abs() > torch.finfo(v.dtype).eps ** 0.5 * size:
            raise RuntimeError("a part of f is only once differentiable")

    def _difference(self, v: Tensor) -> Tensor:
        largest = v.abs().max()
        if largest == 0:
            return torch.zeros_like(self.output)
        h = torch.finfo(self.x.dtype).eps ** (1 / 3) * self.x.abs().max().clamp_min(1.0) / largest
        with torch.no_grad():
            return (self.f(self.x + h * v) - self.f(self.x - h * v)) / (2 * h)


def _tensor(y: object) -> Tensor:
    if not isinstance(y, Tensor):
        raise ValueError(f"f returns {type(y).__name__}; allowed: one tensor")
    return y


def pulled_rows(y: Tensor, x: Tensor, us: Tensor) -> Tensor:
    """Return Jᵀu of each u, (k, *x.shape), for ``us`` (k, *y.shape), in one backward pass if possible. Keeps the graph."""
    if len(us) > 1:
        try:
            return _grad(y, x, us, keep=True, batched=True)
        except RuntimeError:  # some function's backward pass has no batching rule
            pass
    return torch.stack([_grad(y, x, u, keep=True) for u in us])


def _grad(y: Tensor, x: Tensor, u: Tensor, *, keep: bool, batched: bool = False) -> Tensor:
    found = None
    if y.requires_grad:
        (found,) = torch.autograd.grad(
            y, x, u, retain_graph=keep, allow_unused=True, is_grads_batched=batched
        )
    return x.new_zeros(*u.shape[: u.dim() - y.dim()], *x.shape) if found is None else found


def _first(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
