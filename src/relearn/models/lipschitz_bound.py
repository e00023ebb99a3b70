"""An upper bound on the Lipschitz constant of a whole network, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from relearn.maths.operator_norm import changing

FORMS = ("printed", "corrected", "tight")
NORMS = ("two", "inf")


class Part(NamedTuple):
    """A factor of the bound: L for a layer, or 1 + |α| L for a residual branch.

    ``name``: path of the module; ``kind``: its class; ``constant``: L; ``weight``: the largest \\|α\\|, None outside of branches.
    """

    name: str
    kind: str
    constant: float
    weight: float | None

    @property
    def log(self) -> float:
        """The natural logarithm of the factor."""
        if self.weight is not None:
            return math.log1p(self.weight * self.constant)
        return math.log(self.constant) if self.constant else -math.inf


@dataclass(frozen=True)
class NetworkBound:
    r"""The result of :func:`lipschitz_bound`.

    Attributes:
        p, form: the arguments of :func:`lipschitz_bound`.
        parts: the factors, in order.

    The bound is the product of the factors, except for "printed" with residual branches:

    .. math:: e^{\max_i L_i}
    """

    p: str
    form: str
    parts: tuple[Part, ...]

    @property
    def log(self) -> float:
        """The natural logarithm of the bound; finite even if the bound itself overflows a float."""
        branches = [part.constant for part in self.parts if part.weight is not None]
        if self.form == "printed" and branches:
            return max(branches)
        return math.fsum(part.log for part in self.parts)

    @property
    def value(self) -> float:
        """The bound; infinity if it overflows a float."""
        return exponential(self.log)


@dataclass(frozen=True)
class At:
    """Known facts about a layer's input: its shape without the batch, and a bound on the 2-norm of each token (last axis)."""

    shape: tuple[int, ...]
    radius: float = math.inf


@dataclass
class Walk:
    """A traversal of a network that collects the factors; the rules call its methods."""

    p: str
    form: str
    path: str = ""
    parts: list[Part] = field(default_factory=list)

    def add(self, module: nn.Module, constant: Any) -> None:
        """Add a layer with this Lipschitz constant (outside of residual branches)."""
        self.parts.append(Part(self.path, type(module).__name__, float(constant), None))

    def visit(self, module: nn.Module, name: str, at: At) -> At:
        """Visit a part of the current module; return what is known about the part's output."""
        with self._inside(name):
            return _rule(self, module)(self, module, at)

    def branch(self, names: str, parts: list[tuple[nn.Module, str]], at: At, weight: Any) -> None:
        """Add a residual connection around these parts, applied in order, with ``weight`` = max |α|."""
        inner = Walk(self.p, self.form, self.path)
        shape, end = at.shape, at
        for module, name in parts:
            end = inner.visit(module, name, end)
        if end.shape != shape:
            raise ValueError(
                f"{self.path or 'network'}: a branch from {shape} to {end.shape} (allowed: the same shape)"
            )
        constant = product(inner.parts)
        kind = type(parts[-1][0]).__name__
        name = f"{self.path}.{names}" if self.path else names
        self.parts.append(Part(name, kind, constant, abs(float(weight))))

    def refuse(self, module: nn.Module, why: str) -> ValueError:
        """Return an error that names the current module and the reason why it is not covered."""
        return ValueError(f"{self.path or 'network'}: {type(module).__name__} is not covered: {why}")

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        before = self.path
        self.path = f"{before}.{name}" if before and name else before or name
        try:
            yield
        finally:
            self.path = before


Rule = Callable[[Walk, Any, At], At]
RULES: dict[type[nn.Module], Rule] = {}
REFUSED: list[tuple[tuple[type[nn.Module], ...], Callable[[Any], bool], str]] = []
"""Classes with a rule, a test of a module's options, and why those that meet it have no bound; ``{0}`` is the module."""
KNOWN = ("relearn", "torch", "timm", "torchvision")
HARMLESS = (
    *("__init__", "__repr__", "__dict__", "__weakref__", "__annotate__", "extra_repr", "train"),
    *("reset_parameters", "_load_from_state_dict", "_save_to_state_dict"),
)
"""Methods that a subclass may replace and keep its parent's bound."""
One = TypeVar("One", bound=Rule)


def lipschitz_rule(*kinds: type[nn.Module]) -> Callable[[One], One]:
    """Register a rule for modules of these classes, e.g. for a block of your own.

    A rule is called with the walk, the module and what is known about its input. It calls ``walk.add`` for each constant, ``walk.visit``
    for each part and ``walk.branch`` for each residual branch, and returns what is known about the output::

        @lipschitz_rule(MyBlock)
        def my_block(walk, block, at):
            walk.branch("f", [(block.norm, "norm"), (block.f, "f")], at, weight=block.alpha.detach().abs().max())
            return At(at.shape)
    """

    def enter(rule: One) -> One:
        for kind in kinds:
            RULES[kind] = rule
        return rule

    return enter


@torch.no_grad()
def lipschitz_bound(
    network: nn.Module, shape: tuple[int, ...], *, p: str = "two", form: str = "tight"
) -> NetworkBound:
    r"""Upper bound on the Lipschitz constant of a network, for its current weights, in evaluation mode.

    The norm is that of a whole sample, p = two or p = inf, for inputs and outputs. The factors of the layers are multiplied; a residual
    connection x + α f(x) contributes 1 + max|α| Lip(f) (qi2023, theorem 2, corrected: errata, Q11 and Q13).

    ==========  ==================================================================================================
    ``form``    what is multiplied
    ==========  ==================================================================================================
    printed     the papers' formulas; with residual branches, theorem 2's e^κ, κ = max Lip(f_i). NOT always a bound
    corrected   the corrected formulas, all factors
    tight       our tighter formulas (docs/errata.md), all factors
    ==========  ==================================================================================================

    Layers with a single formula use it in every form.

    Covered: linear layers and convolutions (:mod:`~relearn.maths.conv_bounds`), CenterNorm, LayerNorm, batch normalisation,
    activations, tied L2 attention, cosine attention in any windows (with relative tables, shifts and LePE), LRSA directly after a
    LayerNorm (p = two), the Gaussian-process head, invertible and other residual blocks of this package, whole LipsFormers and
    LRFormers, and ``nn.Sequential`` of these. :func:`lipschitz_rule` adds others. Modules without a Lipschitz constant, such as
    dot-product attention, are rejected by name, and so are subclasses of covered layers with a ``forward`` of their own, those
    outside of :data:`KNOWN` packages that replace another method not :data:`HARMLESS`, and what ``altered`` names.

    :func:`relearn.measures.lipschitz.jacobian_norm` at any input gives a lower bound for the same network.

    Args:
        network: a module.
        shape: shape of one sample, without the batch: (C, H, W) for images, (N, D) for tokens.
        p, form: see above.

    Raises:
        ValueError: an unknown p or form, a part that is not covered, weights that are not finite, or a stochastic part in training mode.
    """
    for name, word, allowed in (("p", p, NORMS), ("form", form, FORMS)):
        if word not in allowed:
            raise ValueError(f"{name}: {word!r} (allowed: {', '.join(allowed)})")
    if why := changing(network):
        raise ValueError(why)
    for name, module in network.named_modules():
        if "parametrizations" not in name.split(".") and (why := altered(module)):
            raise ValueError(f"{name or 'network'}: {type(module).__name__} is not covered: {why}")
    for name, one in (*network.named_parameters(), *network.named_buffers()):
        if not torch.isfinite(one).all() or (name.endswith("running_var") and (one < 0).any()):
            raise ValueError(f"{name}: NaN, infinity or a variance below 0 (allowed: finite numbers)")
    import_module("relearn.models.lipschitz_timm_rules")  # registers all rules, which import this module

    walk = Walk(p, form)
    walk.visit(network, "", At(tuple(shape)))
    return NetworkBound(p, form, tuple(walk.parts))


def _rule(walk: Walk, module: nn.Module) -> Rule:
    kind, own = ruled_kind(module)
    if kind is None:
        raise walk.refuse(module, "no rule for it (allowed: see lipschitz_bound; lipschitz_rule adds one)")
    if own:
        raise walk.refuse(
            module, f"its {own} differs from {kind.__name__}'s (allowed: lipschitz_rule adds its own)"
        )
    if why := refused(kind, module):
        raise walk.refuse(module, why)
    return RULES[kind]


def ruled_kind(module: nn.Module) -> tuple[type[nn.Module] | None, str]:
    """The class with the rule of a module, or None; and the module's own method that may compute something else, or "".

    A reparametrised module counts as one of the class before. Classes of this package inherit the rule of their parent.
    """
    written: Any = type(module).__mro__[int(is_parametrized(module))]
    kind = next((one for one in written.__mro__ if one in RULES), None)
    if kind is None or written.__module__.startswith("relearn."):
        return kind, ""
    if written.forward is not kind.forward:
        return kind, "forward"
    for name in dir(kind):  # methods and properties, which forward may use
        owner = next(one for one in written.__mro__ if name in vars(one))
        if owner in kind.__mro__ or owner.__module__.partition(".")[0] in KNOWN or name in HARMLESS:
            continue
        if callable(vars(owner)[name]) or hasattr(vars(owner)[name], "__get__"):
            return kind, name
    return kind, ""


def refused(kind: type[nn.Module], module: nn.Module) -> str:
    """Why the options of a module with this class's rule have no bound; empty if they have one."""
    found = (why for kinds, test, why in REFUSED if kind in kinds and test(module))
    return next(found, "").format(module)


def altered(module: nn.Module) -> str:
    """Why a module may compute something else than its class with the weights that it shows; empty if it does not."""
    own = vars(module)
    if "forward" in own:
        return "a forward of this object's own (allowed: its class's)"
    for name in ("weight", "bias"):
        if isinstance(own.get(name), torch.Tensor):  # renewed by the next call only
            return (
                f"a plain tensor as {name}, as pruning makes it (allowed: a parameter or a parametrization)"
            )
    if module._forward_hooks or module._forward_pre_hooks:
        return "forward hooks (allowed: none)"
    return ""


def product(parts: Iterable[Part]) -> float:
    """The product of the factors; infinity if it overflows a float."""
    return exponential(math.fsum(part.log for part in parts))


def exponential(log: float) -> float:
    """e to this power; infinity if it overflows a float."""
    try:
        return math.exp(log)
    except OverflowError:
        return math.inf


def without_radius(at: At, *shape: int) -> At:
    """Return what is known after a layer that may change token norms arbitrarily: only the shape."""
    return replace(at, shape=shape or at.shape, radius=math.inf)


def check_channels(walk: Walk, at: At, channels: int, axes: int) -> None:
    """ValueError if images have another number of channels or axes."""
    if len(at.shape) != axes + 1 or at.shape[0] != channels:
        raise ValueError(
            f"{walk.path}: input of shape {at.shape} (allowed: {channels} channels, {axes} axes more)"
        )


def sides(
    walk: Walk, at: At, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> list[int]:
    """Sides of the images after windows of this size; ValueError if no window fits."""
    found = [(n + 2 * q - k) // s + 1 for n, q, k, s in zip(at.shape[1:], padding, kernel, stride)]
    if min(found) < 1:
        raise ValueError(f"{walk.path}: images of {at.shape[1:]} (allowed: not below the kernel, {kernel})")
    return found
