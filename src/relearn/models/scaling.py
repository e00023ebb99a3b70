"""Scale published channel and block counts by a factor; factor 1 changes nothing."""

from __future__ import annotations

LEAST_CHANNELS = 4
"""Minimum width of a scaled layer; narrower ReLU layers die, and their batch statistics are meaningless."""


def scaled(channels: int, width: float) -> int:
    """Return ``channels · width``, rounded half up, at least :data:`LEAST_CHANNELS` (or ``channels``, if less)."""
    return max(min(channels, LEAST_CHANNELS), int(channels * width + 0.5))


def repeats(blocks: int, depth: float) -> int:
    """Return ``blocks · depth``, rounded half up, at least 1."""
    return max(1, int(blocks * depth + 0.5))
