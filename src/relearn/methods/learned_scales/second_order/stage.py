"""The current pass through a graph, and the identities of the tensors θ."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

GRADIENT, GRAPH, CURVATURE = "gradient", "graph", "curvature"


@dataclass
class Stage:
    """State shared by a forward pass and its layers.

    Attributes:
        known: ``id`` of each tensor of θ.
        now: ``gradient`` (of first order), ``graph`` (the gradient as a function) or ``curvature`` (its derivative).
    """

    known: frozenset[int]
    now: str = GRADIENT

    def ends_at(self, *tensors: Tensor | None) -> bool:
        """Whether each tensor is one of θ or needs no gradient. Its gradient may then have a graph without values, because nothing
        computes with them."""
        return all(one is None or not one.requires_grad or id(one) in self.known for one in tensors)
