"""Attentions whose cost is linear, or nearly so, in the length: one a file, all called alike; see :func:`make`."""

from relearn.layers.efficient.kinds import GLOBAL_FIRST, KINDS, make, module_of

__all__ = ["GLOBAL_FIRST", "KINDS", "make", "module_of"]
