"""The current pass through a graph, and the identities of the tensors θ."""

from __future__ import annotations

from dataclasses import dataclass

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
