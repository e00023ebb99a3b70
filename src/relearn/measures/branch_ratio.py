r"""Norm of every residual branch relative to the stream it is added to, and the weights in front of the branches.

touvron2021 reports that LayerScale makes this ratio more uniform over layers. With the stream x, the branch f(x) and its weight a (1,
a number, or one number per channel), for layer l and branch b

.. math:: r_{l,b} = \frac1{BN} \sum_{i=1}^{B} \sum_{t=1}^{N} \frac{\|a \odot f(x)_{it}\|_2}{\|x_{it}\|_2}

averaged over the images i and the tokens t that the branch changes; for class attention, this is only the class token. x is the stream
before the addition, and hence before the norm of a post-norm block. DropPath is off.

Residual blocks are recognised by their attributes, anywhere in the network and also inside wrappers:

===================================  ========================================================  ==================================
blocks                               parts                                                     ``branch``
===================================  ========================================================  ==================================
of this package (ResidualBlock,      ``join1``, ``join2``, and ``joins`` for                   attention, mlp; conv1, conv2, …
LipsBlock)                           convolutions; called with (x, f(x)); weights ``alpha``
timm's CaiT, and class attention     ``gamma_1``, ``gamma_2``                                  attention, mlp; class_attention,
                                                                                               class_mlp
timm's ViT, with or without          ``drop_path1``, ``drop_path2``; weights ``gamma``         attention, mlp
LayerScale, and Swin                 of ``ls1``, ``ls2``
CSwin of this package                ``attention``, ``drop_path``                              attention, mlp
===================================  ========================================================  ==================================

``layer`` numbers the blocks of the network from 0, with those of class attention last. ``stage``: blocks in the same list
form a stage, numbered from 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from relearn.maths.eval_mode import eval_mode


class _Branch(NamedTuple):
    """One residual branch of a network and how to observe it."""

    layer: int
    stage: int
    name: str
    weight: Tensor | None
    """Weight of the branch, (D,), () or None."""
    axis: int
    """Axis of the channels."""
    watch: Callable[[Callable[[Tensor, Tensor], None]], list[Any]]
    """Registers a function that forward passes call with x and the unweighted f(x); returns the hook handles."""


@torch.no_grad()
def branch_ratios(net: nn.Module, images: Tensor) -> list[dict[str, Any]]:
    """Return rows ``layer``, ``branch``, ``ratio``: r of every residual branch, in the order of the network.

    A zero token in the stream gives an infinite ratio, or 0 if the branch is zero too. There is one forward pass in evaluation mode;
    the modes of all modules are restored.

    Args:
        net: see the table above.
        images: input of ``net``.

    Raises:
        ValueError: no residual branch was found, or the forward pass did not reach one of them.
    """
    branches = _branches(net)
    found: dict[int, float] = {}
    handles: list[Any] = []

    def keep(index: int, branch: _Branch) -> Callable[[Tensor, Tensor], None]:
        def look(x: Tensor, f: Tensor) -> None:
            found[index] = _ratio(x, f, branch.weight, branch.axis)

        return look

    try:
        for index, branch in enumerate(branches):
            handles += branch.watch(keep(index, branch))
        with eval_mode(net):
            net(images)
    finally:
        for handle in handles:
            handle.remove()
    missed = [branch for index, branch in enumerate(branches) if index not in found]
    if missed:
        raise ValueError(f"net: layer {missed[0].layer}, {missed[0].name}, not reached by the forward pass")
    return [
        {"layer": one.layer, "branch": one.name, "ratio": found[index]} for index, one in enumerate(branches)
    ]


@torch.no_grad()
def residual_weights(net: nn.Module) -> list[dict[str, Any]]:
    r"""Return rows ``layer``, ``stage``, ``branch``, ``mean``, ``std`` of the absolute values of a branch's weights, \|α\| or \|λ\|.

    The standard deviation is over the channels (divisor D; 0 for a single number). A branch without weights has no row.

    Raises:
        ValueError: no residual branch was found.
    """
    rows = []
    for one in _branches(net):
        if one.weight is not None:
            size = one.weight.detach().abs().double()
            row = {"layer": one.layer, "stage": one.stage, "branch": one.name}
            rows.append(row | {"mean": float(size.mean()), "std": float(size.std(correction=0))})
    return rows


def has_branches(net: nn.Module) -> bool:
    """Return whether the network has residual branches recognised by this module; convolutional networks have none."""
    return any(_reader(one) is not None for one in net.modules())


def _ratio(x: Tensor, f: Tensor, weight: Tensor | None, axis: int) -> float:
    wide = torch.promote_types(x.dtype, torch.float32)
    branch = f.to(wide)
    if weight is not None:
        shape = [1] * f.dim()
        if weight.dim():
            shape[axis] = -1
        branch = branch * weight.to(wide).view(shape)
    above, below = branch.norm(dim=axis), x.to(wide).norm(dim=axis)
    ratio = torch.where(above == 0, torch.zeros_like(above), above / below)
    return float(ratio.mean(dtype=torch.float64))


def _branches(net: nn.Module) -> list[_Branch]:
    blocks = [(name.rpartition(".")[0], one) for name, one in net.named_modules() if _reader(one) is not None]
    if not blocks:
        raise ValueError(f"net: no residual branch in {type(net).__name__} (allowed: networks of the table)")
    stages = list(dict.fromkeys(place for place, _ in blocks))
    found: list[_Branch] = []
    for layer, (place, block) in enumerate(blocks):
        reader: Any = _reader(block)
        for name, weight, axis, watch in reader(block):
            found.append(_Branch(layer, stages.index(place), name, weight, axis, watch))
    return found


_Found = Iterator[tuple[str, Tensor | None, int, Callable[..., list[Any]]]]


def _reader(block: nn.Module) -> Callable[[Any], _Found] | None:
    kinds: tuple[tuple[str, str, Callable[[Any], _Found]], ...] = (
        ("join1", "join2", _joins),
        ("gamma_1", "gamma_2", _gammas),
        ("drop_path1", "drop_path2", _scales),
        ("attention", "drop_path", _plain),
    )
    for first, second, reader in kinds:
        if hasattr(block, first) and hasattr(block, second):
            return reader
    return None


def _joins(block: Any) -> _Found:
    """Observe blocks of this package: a join is called with the stream and the branch."""
    convs = [(f"conv{index + 1}", join) for index, join in enumerate(getattr(block, "joins", []))]
    for name, join in [*convs, ("attention", block.join1), ("mlp", block.join2)]:

        def watch(look: Callable[[Tensor, Tensor], None], join: Any = join) -> list[Any]:
            return [join.register_forward_pre_hook(lambda _, given: look(*given))]

        yield name, join.alpha, getattr(join, "axis", -1), watch


def _gammas(block: Any) -> _Found:
    """Observe blocks of timm's CaiT; class-attention blocks are called with two arguments, patches and class token."""
    of = "class_" if len(inspect.signature(block.forward).parameters) == 2 else ""
    yield f"{of}attention", block.gamma_1, -1, _between(block.norm1, block.attn)
    yield f"{of}mlp", block.gamma_2, -1, _between(block.norm2, block.mlp)


def _scales(block: Any) -> _Found:
    """Observe blocks of timm's ViT and Swin; in Swin, the windows of a branch are merged again before DropPath."""
    for name, norm, branch, scale, whole in (
        ("attention", block.norm1, block.attn, "ls1", block.drop_path1),
        ("mlp", block.norm2, block.mlp, "ls2", block.drop_path2),
    ):
        weight = getattr(getattr(block, scale, None), "gamma", None)
        yield name, weight, -1, _between(norm, branch if hasattr(block, scale) else whole)


def _plain(block: Any) -> _Found:
    yield "attention", None, -1, _between(block.norm1, block.attention)
    yield "mlp", None, -1, _between(block.norm2, block.mlp)


def _between(norm: nn.Module, branch: nn.Module) -> Callable[..., list[Any]]:
    """Observe a pre-norm branch: the stream is the input of ``norm``, and ``branch`` returns outputs for its first tokens."""

    def watch(look: Callable[[Tensor, Tensor], None]) -> list[Any]:
        stream: list[Tensor] = []
        before = norm.register_forward_pre_hook(lambda _, given: stream.append(given[0]))

        def behind(_: nn.Module, given: Any, f: Tensor) -> None:
            look(stream.pop()[:, : f.shape[1]], f)

        return [before, branch.register_forward_hook(behind)]

    return watch
