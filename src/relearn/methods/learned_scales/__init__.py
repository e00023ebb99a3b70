"""One factor for each weight tensor of any network: what GradInit and MetaInit share.

``binding``: the network at rescaled weights, without touching it, and the derivative by the factors. ``adam`` and ``sign``: what
moves the factors. ``preserve_state``: Dropout off, batch statistics, buffers and random state as they were. ``pools``: batches, cut.
``loop``: the procedure around it. ``twice``: second derivatives at their price.
"""

from relearn.methods.learned_scales.adam import ScaleAdam
from relearn.methods.learned_scales.binding import ScaledWeights
from relearn.methods.learned_scales.loop import Checkpoint, Row, learn
from relearn.methods.learned_scales.pools import halves, samples
from relearn.methods.learned_scales.preserve_state import double_backward, preserve_state
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
    "samples",
]
