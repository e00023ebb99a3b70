"""One factor for each weight tensor of any network: what GradInit and MetaInit share.

``binding``: the network at rescaled weights, without touching it, and the derivative by the factors. ``adam``: what moves the factors.
``undisturbed``: Dropout off, batch statistics, buffers and random state as they were. ``pools``: batches, cut.
"""

from relearn.methods.scales.adam import ScaleAdam
from relearn.methods.scales.binding import ScaledWeights
from relearn.methods.scales.pools import halves, samples
from relearn.methods.scales.undisturbed import double_backward, undisturbed

__all__ = ["ScaleAdam", "ScaledWeights", "double_backward", "halves", "samples", "undisturbed"]
