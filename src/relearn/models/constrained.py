r"""A whole network that keeps a stated Lipschitz bound while it is trained.

:func:`constrain` puts a constraint on each weight that the bound of :mod:`relearn.models.lipschitz_bound` depends on, for the 2-norm:

======================================================  ==========================================================  ==========
weight                                                  constraint                                                  limit
======================================================  ==========================================================  ==========
linear layers, the output maps of attention             norm at most L, or all singular values L (``bjorck``)       ``bound``
W^Q, W^K and W^V of scaled cosine attention,            the same for the map of every head, as theorem 1 of qi2023  ``bound``
W^Q and W^V of tied L2 attention                        and theorem 3.2 of kim2020 need
convolutions                                            norm at most L as a map of images of the size that they     ``bound``
                                                        see; ``bjorck`` only where windows are separate
γ of CenterNorm and LayerNorm, the factor of ``Scale``  max|γ| ≤ L                                                  ``bound``
α of residual branches                                  max|α| at most what it is now, or L if it is 0 now          see left
======================================================  ==========================================================  ==========

Shifts, biases, tables of positions and L2 attention that is divided by its own bound (``contractive="two"``) need none.
For a network without other layers the bound with every weight at its limit, :func:`stated_bound`, holds at every step of any
training, because the bound grows with each of these norms. For a LipsFormer it is theorem 2 of qi2023 (corrected: errata, Q13).
Section 4.1.3 of the paper says that α could be kept in a range for this purpose; theorem 2 needs Lip(f_i) besides. The paper
reports no training with either.

The constraints are those of :mod:`relearn.layers.norm_constraint` and :mod:`relearn.layers.orthonormal_constraint`. With
``method="upper"`` the statement is exact up to rounding. With ``method="power"`` norms are estimated from below, so it holds up
to the lag of that estimate; and for zero padding :func:`~relearn.models.lipschitz_bound.lipschitz_bound` may exceed
:func:`stated_bound`, because it bounds convolutions on a torus while the constraint sees the border.

In training mode DropPath that rescales and dropout multiply a branch (errata, K7 and Q14): the bound is that of evaluation mode.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from relearn.layers.center_norm import CenterNorm
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.l2_attention import L2Attention
from relearn.layers.lrsa import LRSA
from relearn.layers.norm_constraint import (
    ITERATIONS,
    NormConstraint,
    constrain_norm,
    weight_of,
)
from relearn.layers.orthonormal_constraint import OrthonormalConstraint, constrain_orthonormal
from relearn.layers.random_feature_gp import RandomFeatureGP
from relearn.layers.scalar import Scale
from relearn.layers.scaled_residual import ScaledResidual
from relearn.layers.weighted_residual import WeightedResidual
from relearn.maths.eval_mode import eval_mode
from relearn.maths.operator_norm import flattened_is_exact, separate_windows
from relearn.models import lipschitz_rules
from relearn.models.cross_windows import CrossShapedAttention
from relearn.models.lipschitz_bound import RULES, NetworkBound, lipschitz_bound
from relearn.models.lipschitz_timm_rules import Uncovered, uncovered

KINDS = ("spectral", "bjorck")
Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


class Held(NamedTuple):
    """A weight that is constrained: its name in the network, the constraint's class and the limit."""

    name: str
    constraint: str
    limit: float


class Constrained(NamedTuple):
    """What :func:`constrain` did: every weight that keeps its limit, and every layer that has no stated constant."""

    held: tuple[Held, ...]
    uncovered: tuple[Uncovered, ...]


def constrain(
    model: nn.Module,
    bound: float = 1.0,
    *,
    kind: str = "spectral",
    shape: tuple[int, ...] | None = None,
    method: str = "upper",
    iterations: int = ITERATIONS,
) -> Constrained:
    """Constrain every covered layer of a network, in place; the table of the module says how.

    Weights inside their limits do not change by ``spectral``, so a LipsFormer of its own start computes the same as before where its
    convolutions are inside. Names of parameters change (``parametrizations.weight.original``): build the optimiser afterwards.

    Args:
        model: any network.
        bound: L.
        kind: spectral, or bjorck; convolutions for which Björck's iteration is not defined then get spectral.
        shape: shape of one input without the batch. Needed if windows of a convolution overlap: one input of zeros runs through the
            network to see the sizes of images.
        method, iterations: of the norms, see :mod:`relearn.layers.norm_constraint`.

    Returns:
        ``held`` and ``uncovered``; without the latter, and only then, :func:`stated_bound` exists,
        unless it rejects the shape or a number (eps = 0 in cosine attention).

    Raises:
        ValueError: a network that is constrained or parametrized already, an unknown kind, no shape where one is needed, or a weight or
            arguments that a constraint rejects; the network is then unchanged.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: found {kind!r}, allowed: {', '.join(KINDS)}")
    if next(constraints(model), None):
        raise ValueError("model: found constraints on it, allowed: a network without; release takes them off")
    lacking = _lacking(model)
    sizes = _sizes(model, shape)
    held = []
    targets = list(_targets(model))
    orders = [(layer, list(layer._parameters)) for _, layer, _, _ in targets]
    try:
        for path, layer, name, blocks in targets:
            where = f"{path}.{name}" if path else name
            if parametrize.is_parametrized(layer, name) or name not in layer._parameters:
                raise ValueError(f"{where}: found a parametrization or a plain tensor, allowed: a parameter")
            try:
                matrix = weight_of(layer, name, 1).dim() > 1
                limit = _limit(layer, name, bound)
                if (
                    kind == "bjorck"
                    and matrix
                    and (not isinstance(layer, Convolution) or separate_windows(layer))
                ):
                    constrain_orthonormal(layer, limit, name=name, blocks=blocks)
                elif isinstance(layer, Convolution) and layer not in sizes and not flattened_is_exact(layer):
                    raise ValueError(
                        "found a convolution that forward never calls, allowed: one that sees images"
                    )
                else:
                    more: dict[str, Any] = dict(size=sizes.get(layer), method=method, iterations=iterations)
                    constrain_norm(layer, limit, name=name, blocks=blocks, **more)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
            constraint = type(layer.get_submodule(f"parametrizations.{name}.0")).__name__
            held.append(Held(where, constraint, limit))
    except BaseException:
        for layer, name, _ in list(constraints(model)):
            _take_off(layer, name, keep=False)
        for layer, order in orders:
            for name in order:
                layer._parameters[name] = layer._parameters.pop(name)
        raise
    return Constrained(tuple(held), lacking)


def stated_bound(model: nn.Module, shape: tuple[int, ...], *, form: str = "tight") -> NetworkBound:
    """The Lipschitz bound (2-norm) that a constrained network keeps: that of the same network with every weight at its limit.

    Raises:
        ValueError: a layer without a stated constant, or what :func:`~relearn.models.lipschitz_bound.lipschitz_bound` rejects.
    """
    if lacking := _lacking(model):
        first = lacking[0]
        raise ValueError(
            f"{first.name or 'network'}: {first.kind} has no stated constant: {first.why} (allowed: covered layers only; found "
            f"{len(lacking)} layers)"
        )
    alone = {(layer, name) for layer, name, _ in constraints(model) if len(_members(layer, name)) == 1}
    for path, layer, name, _ in _targets(model):
        if (layer, name) not in alone:
            found = [type(one).__name__ for one in _members(layer, name)]
            raise ValueError(
                f"{path}.{name}: found {', '.join(found) or 'no constraint on it'}, allowed: a network that constrain has seen, and "
                "nothing besides its constraint"
            )
    extreme = copy.deepcopy(model).eval()
    for layer, name, constraint in list(constraints(extreme)):
        weight = constraint.extreme(getattr(layer, name).detach())
        _take_off(layer, name)
        layer.get_parameter(name).data = weight
    return lipschitz_bound(extreme, shape, form=form)


def constraints(model: nn.Module) -> Iterator[tuple[nn.Module, str, NormConstraint | OrthonormalConstraint]]:
    """Every constrained weight: its layer, its name there and the constraint."""
    for layer in model.modules():
        for name in list(getattr(layer, "parametrizations", {})):
            for one in _members(layer, name):
                if isinstance(one, NormConstraint | OrthonormalConstraint):
                    yield layer, name, one


def _members(layer: nn.Module, name: str) -> list[nn.Module]:
    """The parametrizations of a weight."""
    plain = not parametrize.is_parametrized(layer, name)
    return [] if plain else list(layer.get_submodule(f"parametrizations.{name}").children())


def settle(model: nn.Module) -> None:
    """Let the power iteration of every constraint converge for the present weights, as before a certificate."""
    for layer, name, constraint in constraints(model):
        if isinstance(constraint, NormConstraint):
            original = layer.get_submodule(f"parametrizations.{name}").get_parameter("original")
            constraint.settle(original)


def release(model: nn.Module) -> nn.Module:
    """Take all constraints off; every layer keeps the weight that it has in evaluation mode. Returns the model."""
    for layer, name, constraint in list(constraints(model)):
        constraint.eval()  # a step of power iteration would move the weight
        _take_off(layer, name)
    return model


def _take_off(layer: nn.Module, name: str, keep: bool = True) -> None:
    """``remove_parametrizations``, which deletes an attribute of the layer's class, without harm to copies of the layer, which share it."""
    shared = type(layer)
    own = {key: value for key, value in vars(shared).items() if key not in ("__dict__", "__weakref__")}
    layer.__class__ = type(shared.__name__, shared.__bases__, own)
    parametrize.remove_parametrizations(layer, name, leave_parametrized=keep)


# which weights ----------------------------------------------------------------------------------------------------------


HEADS: dict[type[nn.Module], Callable[[Any], dict[str, int]]] = {
    CosineAttention: lambda one: {"qkv": 3 * one.heads},
    CrossShapedAttention: lambda one: {"qkv": 3 * one.heads},
    L2Attention: lambda one: {"q": one.heads, "v": one.heads},
}
"""Attention → the parts whose heads have a limit each, and the number of equal blocks of their rows."""
NAMES: dict[str, tuple[type[nn.Module], ...]] = {
    "weight": (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, CenterNorm, nn.LayerNorm),
    "alpha": (WeightedResidual, ScaledResidual),
    "scale": (Scale,),
}
"""Name of a weight → the layers whose weight of this name has a limit."""


def _targets(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, int]]:
    """Path, layer, name and number of blocks of every weight that a constraint can hold."""
    blocks: dict[nn.Module, int] = {}
    skipped: set[nn.Module] = set()
    for path, module in model.named_modules():
        ruled = any(kind in RULES for kind in type(module).__mro__)
        own = isinstance(module, L2Attention) and module.contractive == "two"
        if own or (ruled and (_loose_constant(module) or _no_constant(module))):
            skipped.update(module.modules())
        for kind, heads in HEADS.items():
            if isinstance(module, kind):
                blocks |= {module.get_submodule(part): count for part, count in heads(module).items()}
        for name, kinds in NAMES.items():
            if isinstance(module, kinds) and module not in skipped and getattr(module, name) is not None:
                yield path, module, name, blocks.get(module, 1)


def _limit(layer: nn.Module, name: str, bound: float) -> float:
    if name != "alpha":
        return bound
    return float(layer.get_parameter("alpha").detach().abs().max()) or bound


def _no_constant(module: nn.Module) -> bool:
    kind = next(one for one in type(module).__mro__ if one in RULES)
    return RULES[kind] is lipschitz_rules._no_constant


def _lacking(model: nn.Module) -> tuple[Uncovered, ...]:
    """Layers without a rule or a constant, and those whose constant depends on what no constraint holds."""
    found = uncovered(model)
    named = {one.name for one in found}
    for name, module in model.named_modules():
        why = _loose_constant(module)
        if why and name not in named:
            found.append(Uncovered(name, type(module).__name__, why))
    return tuple(found)


def _loose_constant(module: nn.Module) -> str:
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return "its constant depends on the statistics of the data"
    if isinstance(module, LRSA):
        return "its bound depends on the length of its inputs"
    if isinstance(module, RandomFeatureGP):
        return "no constraint for it"
    if isinstance(module, CosineAttention) and not module.normalise_values:
        return "without normalised values there is no constant"
    if isinstance(module, CrossShapedAttention) and module.similarity != "cosine":
        return f"similarity {module.similarity!r} has no constant"
    if isinstance(module, L2Attention) and not (module.tied and module.value_map):
        return "untied: no Lipschitz constant (kim2020, lemma F.1)"
    if isinstance(module, L2Attention) and module.contractive == "inf":
        return "divided by the bound of another norm"
    return ""


def _sizes(model: nn.Module, shape: tuple[int, ...] | None) -> dict[nn.Module, tuple[int, ...]]:
    """The size of the images that each convolution with meeting windows sees.

    Raises:
        ValueError: no shape, one that forward does not take, or a convolution that sees several sizes.
    """
    wide = {
        module: name
        for name, module in model.named_modules()
        if isinstance(module, Convolution) and not (separate_windows(module) and module.groups == 1)
    }
    if not wide:
        return {}
    if shape is None:
        raise ValueError(
            f"shape: found none, allowed: the shape of one input, for the windows of {next(iter(wide.values()))} meet"
        )
    seen: dict[nn.Module, tuple[int, ...]] = {}

    def note(layer: Any, given: tuple[Tensor, ...]) -> None:
        size = tuple(given[0].shape[-len(layer.kernel_size) :])
        if seen.setdefault(layer, size) != size:
            raise ValueError(
                f"{wide[layer]}: found images of {seen[layer]} and of {size}, allowed: one size for a convolution"
            )

    at = ""

    def enter(layer: nn.Module, given: Any) -> None:
        nonlocal at
        at = names[layer]

    names = {module: name or type(module).__name__ for name, module in model.named_modules()}
    hooks = [layer.register_forward_pre_hook(note) for layer in wide]
    hooks += [layer.register_forward_pre_hook(enter) for layer in names]
    like = next(model.parameters())
    try:
        with torch.no_grad(), eval_mode(model):
            model(like.new_zeros(1, *shape))
    except (RuntimeError, TypeError, IndexError) as error:
        said = str(error).partition("\n")[0]
        raise ValueError(
            f"{at}: found an error at one input of zeros, {like.dtype} {tuple(shape)}, allowed: a network of images of the stated shape "
            f"({said})"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return seen
