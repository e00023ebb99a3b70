"""Attention layers with linear or almost linear cost in the length, one per file and all with the same interface; see :func:`make`."""

from relearn.layers.efficient.kinds import GLOBAL_FIRST, KINDS, make, module_of

__all__ = ["GLOBAL_FIRST", "KINDS", "make", "module_of"]
