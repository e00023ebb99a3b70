r"""YOPO-m-n: m passes of the whole network as in FreeLB, each followed by n steps of δ through the first block only.

Zhang et al. 2019 (arXiv 1905.00877), as used in zhu2022, section 3.5.3. f_0 is the network up to the output of the first Transformer
block, and p is the gradient of the loss with respect to that output, kept fixed while δ is updated:

.. math::
    g = \frac1m \sum_{t=0}^{m-1} \nabla_\theta L(f_\theta(X + \delta_{t,0}), y), \qquad
    p_t = \frac{\partial L}{\partial f_0(X + \delta_{t,0})}, \qquad
    \delta_{t,s+1} = \Pi\Big(\delta_{t,s} + \alpha' \frac{h_{t,s}}{\|h_{t,s}\|_F}\Big), \quad
    h_{t,s} = \nabla_\delta \langle p_t, f_0(X + \delta_{t,s}) \rangle, \qquad \delta_{t+1,0} = \delta_{t,n}

=======  ==============================================  ====================================================
symbol   meaning                                         code
=======  ==============================================  ====================================================
m        passes of the whole network                     ``passes``
n        steps of δ for each                             ``inner``
α'       their size: α/n (table 3.4), or α (table 3.6)   ``step``: ``divided`` or ``whole``, of ``step_size``
f_0      up to the output of this block                  ``first``
=======  ==============================================  ====================================================

The step s = 0 uses the gradient of the whole backward pass, :math:`h_{t,0} = \nabla_\delta L`, at no extra cost. It is followed by n - 1
shallow passes, which stop after f_0 and compute no parameter gradients. n = 1 is FreeLB.

f_0 must be a cut: all of δ's influence on the loss must pass through its output. A block called as ``h + block(h)``, with the residual
sum outside, is not a cut, and the shallow steps would follow a wrong gradient. The graph of the first pass is therefore searched for
another path, and a block that is not a cut is rejected.

Fact and erratum (tests/methods/test_yopo.py): for a linear f_0, h does not depend on δ. As long as no step leaves the ball, YOPO-m-n is
then FreeLB with an n times larger step. With ``divided`` it equals FreeLB, so the text's remark on larger steps holds for ``whole`` only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.adversarial_base import (
    AdversarialBase,
    Field,
    frozen_running_statistics,
    require_positive_int,
)
from relearn.methods.fit import Loss, plain_gradient
from relearn.methods.fit_arguments import scalar_loss

STEPS = ("divided", "whole")
LISTS = ("blocks", "layers", "layer", "h")


@dataclass
class YOPO(AdversarialBase):
    """A gradient strategy for :func:`relearn.methods.fit.fit`.

    Args:
        inner: n, the steps of δ per whole pass.
        step: one of :data:`STEPS`.
        first: name of the module that ends f_0; by default :func:`first_block` finds it.

    Further arguments and errors: :class:`~relearn.methods.adversarial_base.AdversarialBase`.
    """

    inner: int = 2
    step: str = "divided"
    first: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive_int("inner", self.inner)
        self._searched = False  # the search for a path around the block is done once
        if self.step not in STEPS:
            raise ValueError(f"step: found {self.step!r} (allowed: {', '.join(STEPS)})")
        if self.step == "divided":
            self.ball = replace(self.ball, step_size=self.step_size / self.inner)

    def __call__(self, model: nn.Module, loss: Loss, batch: Sequence[Any]) -> Tensor:
        """Write g to the parameters; returns the mean loss of the whole passes."""
        if self.ball.is_point:
            return plain_gradient(model, loss, batch)
        masks, total = self.masks(), torch.zeros(())
        with (
            self.space.inside(model, batch) as field,
            _Shallow(first_block(model, self.first)) as shallow,
        ):
            delta = self.start(field)
            shallow.unseen = self.inner > 1 and not self._searched
            for t in range(self.passes):
                with masks.again() if t else masks.drawing(), frozen_running_statistics(model if t else None):
                    value = (
                        scalar_loss(
                            shallow.through(lambda d: loss(field.output(d), *batch[1:]), delta, field)
                        )
                        / self.passes
                    )
                    value.backward()
                self._searched = True
                total, gradient = total.to(value.device) + value.detach(), field.gradient()
                if t + 1 == self.passes:
                    break
                delta = self.ascend(field, delta, gradient)
                for _ in range(self.inner - 1):
                    with masks.again(), frozen_running_statistics(model):
                        product = shallow.product(field.output, delta)
                        (gradient,) = torch.autograd.grad(product, field.point)
                    delta = self.ascend(field, delta, gradient)
            field.finish()
        return total


class _Enough(Exception):
    """Raised to stop the shallow pass after f_0."""


class _Shallow(contextlib.AbstractContextManager["_Shallow"]):
    """Runs a network up to the first output of a block, and stores the loss's gradient with respect to that output."""

    def __init__(self, block: nn.Module) -> None:
        self.states: Tensor | None = None
        self.slope: Tensor | None = None
        self.stops = False
        self.unseen = False  # whether to search the next whole pass for a path around the block
        self.handle = block.register_forward_hook(self._seen)

    def __exit__(self, *error: object) -> None:
        self.handle.remove()

    def through(self, run: Callable[[Tensor], Tensor], delta: Tensor, field: Field) -> Tensor:
        """Run ``run(delta)`` in full; its backward pass stores p.

        Raises:
            ValueError: the block is not called, or the loss depends on δ other than through the block.
        """
        self.states = self.slope = None
        found = run(delta)
        if self.states is None:
            raise ValueError(
                "first: its module is not called in a forward pass (allowed: a module that is called)"
            )
        if self.unseen and _reaches(found, field.point, past=self.states):
            raise ValueError(
                "first: its module is no cut, the loss depends on δ past its output (allowed: a module whose output is all that "
                "the rest of the network sees, its residual sum included)"
            )
        self.unseen = False
        self.states = None  # only the hook keeps the graph
        return found

    def product(self, run: Callable[[Tensor], Any], delta: Tensor) -> Tensor:
        """⟨p, f_0⟩, from a forward pass that stops after the block."""
        self.states, self.stops = None, True
        try:
            with contextlib.suppress(_Enough):
                run(delta)
        finally:
            self.stops = False
        states, self.states = self.states, None
        assert states is not None and self.slope is not None
        return (self.slope.to(states.dtype) * states).sum(
            dtype=torch.promote_types(torch.float32, states.dtype)
        )

    def _seen(self, module: nn.Module, arguments: Any, output: Any) -> None:
        if self.states is not None:  # a later call: ALBERT runs one block many times
            return
        self.states = output if isinstance(output, Tensor) else output[0]
        if self.stops:
            raise _Enough
        self.states.register_hook(self._keep)

    def _keep(self, gradient: Tensor) -> None:
        self.slope = gradient.detach()


def _reaches(value: Tensor, leaf: Tensor, past: Tensor) -> bool:
    """Whether the graph of ``value`` leads to ``leaf`` without passing through the function that produced ``past``."""
    seen = {past.grad_fn}
    waiting = [value.grad_fn]
    while waiting:
        function = waiting.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        if getattr(function, "variable", None) is leaf:
            return True
        waiting += [before for before, _ in function.next_functions]
    return False


def first_block(model: nn.Module, name: str | None = None) -> nn.Module:
    """The module called ``name`` if given. Otherwise the first module of the first list of modules (``nn.ModuleList``, or an
    ``nn.Sequential`` with a name in :data:`LISTS`), which contains the blocks in Transformers of transformers and timm.

    Raises:
        ValueError: there is no such module.
    """
    if name is not None:
        named = dict(model.named_modules())
        if name not in named:
            raise ValueError(
                f"first: found {name!r}, which {type(model).__name__} does not have (allowed: its modules' names)"
            )
        return named[name]
    for path, part in model.named_modules():
        listed = isinstance(part, nn.Sequential) and path.rpartition(".")[2] in LISTS
        if (isinstance(part, nn.ModuleList) or listed) and len(part):
            return next(iter(part))
    allowed = "the name of the module that ends the first block"
    raise ValueError(f"first: {type(model).__name__} has no list of blocks (allowed: {allowed})")
