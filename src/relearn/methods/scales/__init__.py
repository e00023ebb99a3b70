"""One factor for each weight tensor of any network: what GradInit and MetaInit share.

``binding``: the network at rescaled weights, without touching it, and the derivative by the factors. ``adam`` and ``sign``: what
moves the factors. ``undisturbed``: Dropout off, batch statistics, buffers and random state as they were. ``pools``: batches, cut.
``loop``: the procedure around it. ``twice``: second derivatives at their price.
"""

from relearn.methods.scales.adam import ScaleAdam
from relearn.methods.scales.binding import ScaledWeights
from relearn.methods.scales.loop import Checkpoint, Row, learn
from relearn.methods.scales.pools import halves, samples
from relearn.methods.scales.sign import ScaleSign
from relearn.methods.scales.undisturbed import double_backward, undisturbed

__all__ = [
    "Checkpoint",
    "Row",
    "ScaleAdam",
    "ScaleSign",
    "ScaledWeights",
    "double_backward",
    "halves",
    "learn",
    "samples",
    "undisturbed",
]
