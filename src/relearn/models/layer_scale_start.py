"""Initial value of LayerScale's weights. Uses the standard library only, so that a plan can import it."""

from __future__ import annotations


def layer_scale_start(depth: int) -> float:
    """Return CaiT's initial λ for a network of ``depth`` blocks: 0.1 up to 18, 1e-5 up to 24, 1e-6 beyond.

    This is the rule stated by the authors; their released XXS36 uses 1e-5 with 36 blocks.
    """
    return 0.1 if depth <= 18 else 1e-5 if depth <= 24 else 1e-6
