r"""Forecast the memory of a job's largest tensors from its parameters, before anything starts. Standard library only.

Each single key has its own bound in the schema. What several keys need together is a product, which is checked here:
:class:`Need` sums the tensors that one job holds at the same time, and :func:`refused` rejects a sum beyond
:data:`LIMIT`. A forecast is a lower bound: it counts the tensors of the formulas below and leaves out all others
(biases, norms, most activations), so that it never rejects a job that could run. The check is meant to catch typing errors;
it does not tell whether a job fits a smaller machine.

Bytes of a Transformer trained in single precision with Adam:

.. math::
    16\,(L D (3 D + 2 F) + V D) + 4\,L B N (D + F) + 4\,B H N^2 + 4\,B N V

======  ===================================================  ==============
symbol  meaning                                              code
======  ===================================================  ==============
L       layers                                               ``layers``
D, F    width of the stream, of the feed-forward             ``dim, ffn``
H       heads                                                ``heads``
N       positions of a sequence                              ``length``
B       sequences that go through the network at once        ``batch``
V       units of the vocabulary                              ``vocabulary``
======  ===================================================  ==============

The terms are: weights, gradients and two Adam moments of the layers (an attention has at least three D × D maps) and of the
embedding; the activations that each layer stores for its backward pass; the attention weights of one layer with full attention;
the logits. A fused kernel avoids the third term, and so does an attention that is not full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

LIMIT = 2 * 2**40
"""Bytes that one job may take: 2 TiB, the memory of a large node and over thirty times the largest forecast of scale paper."""
FLOAT, DOUBLE = 4, 8
TRAINED = 4 * FLOAT
"""Bytes of a weight that is trained: itself, its gradient and the two moments of Adam."""
MAPS = 3
"""Maps D × D of an attention, at the least: with queries and keys tied there are those for keys, values and outputs."""


class Tensor(NamedTuple):
    """A tensor, or several of one shape: a description, its named sizes, and bytes per number."""

    what: str
    sizes: tuple[tuple[str, int], ...]
    each: int = FLOAT

    @property
    def bytes(self) -> int:
        return math.prod(size for _, size in self.sizes) * self.each

    def __str__(self) -> str:
        factors = " x ".join(f"{name} {size}" for name, size in self.sizes)
        return f"{self.what} ({factors} x {self.each} bytes)"


class Need(NamedTuple):
    """Tensors that a job holds at once; ``path`` is the key to name in an error message, ``found`` its value."""

    path: tuple[str | int, ...]
    found: int
    tensors: tuple[Tensor, ...]

    @property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors)


def refused(needs: Iterator[Need]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the key path and one line for every need beyond the limit, naming its largest tensor."""
    for need in needs:
        if need.bytes > LIMIT:
            most = max(need.tensors, key=lambda tensor: tensor.bytes)
            yield (
                need.path,
                f"found {need.found}, allowed: at most {gib(LIMIT)} at this size, not {gib(need.bytes)}; most: {most}",
            )


def gib(size: int) -> str:
    return f"{size / 2**30:.0f} GiB"


def transformer(
    *,
    layers: int,
    dim: int,
    ffn: int,
    heads: int,
    length: int,
    batch: int,
    vocabulary: int = 0,
    full: bool = True,
    shared: bool = False,
) -> tuple[Tensor, ...]:
    """The tensors of a training step; see the module.

    Args:
        full: whether each position attends to all others.
        shared: whether all layers share their weights (ALBERT).
    """
    own = 1 if shared else layers
    stream, sequences = ("dim", dim), (("batch", batch), ("length", length))
    found = [
        Tensor(
            "weights of the layers",
            (("layers", own), stream, (f"{MAPS} dim + 2 ffn", MAPS * dim + 2 * ffn)),
            TRAINED,
        ),
        Tensor("activations", (("layers", layers), *sequences, ("dim + ffn", dim + ffn))),
    ]
    if vocabulary:
        found += [
            Tensor("embedding", (("vocabulary", vocabulary), stream), TRAINED),
            Tensor("logits", (*sequences, ("vocabulary", vocabulary))),
        ]
    return (*found, attention(batch, heads, length)) if full else tuple(found)


def attention(batch: int, heads: int, length: int, each: int = FLOAT) -> Tensor:
    """The attention weights of one layer with full attention."""
    sizes = (("batch", batch), ("heads", heads), ("length", length), ("length", length))
    return Tensor("attention weights of a layer", sizes, each)


def jacobian(length: int, dim: int) -> Tensor:
    """The Jacobian of a map from ``length`` tokens of width ``dim`` to as many, in double precision."""
    sizes = (("length", length), ("dim", dim), ("length", length), ("dim", dim))
    return Tensor("Jacobian", sizes, DOUBLE)


def first_maps(batch: int, side: int, patch: int, channels: int) -> tuple[Tensor, ...]:
    """A batch of RGB images, and the output of the first layer on their patches."""
    wide = max(1, side // patch)
    return (
        Tensor("images", (("batch", batch), ("side", side), ("side", side), ("colours", 3))),
        Tensor(
            "activations", (("batch", batch), ("patches", wide), ("patches", wide), ("channels", channels))
        ),
    )
