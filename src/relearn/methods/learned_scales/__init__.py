"""Scale factors for the weight tensors of any network, shared by GradInit and MetaInit.

- ``binding``: the network evaluated at rescaled weights without changing it, and the derivative with respect to the factors.
- ``adam`` and ``sign``: optimisers of the factors.
- ``preserve_state``: evaluation without dropout that preserves buffers, modes and random state.
- ``pools``: splitting of batches.
- ``loop``: the optimisation loop.
- ``second_order``: efficient second derivatives.
"""

from relearn.methods.learned_scales.adam import ScaleAdam
from relearn.methods.learned_scales.binding import ScaledWeights
from relearn.methods.learned_scales.loop import Checkpoint, Row, learn, repeated
from relearn.methods.learned_scales.pools import halves, retyped, samples
from relearn.methods.learned_scales.preserve_state import (
    double_backward,
    preserve_state,
    random_state,
    set_random_state,
)
from relearn.methods.learned_scales.sign import ScaleSign

__all__ = [
    "Checkpoint",
    "Row",
    "ScaleAdam",
    "ScaleSign",
    "ScaledWeights",
    "double_backward",
    "halves",
    "learn",
    "preserve_state",
    "random_state",
    "repeated",
    "retyped",
    "samples",
    "set_random_state",
]
