"""Lipschitz constants from both sides: Jacobian norms of any function, their maxima, and upper bounds for L2 attention.

=======================================================  ==============================================================
question                                                 answer
=======================================================  ==============================================================
How large is the Jacobian here?                          :func:`jacobian_norm`, :func:`jacobian`
How large does it get anywhere (lower bound)?            :func:`ascend`; L2 attention at D = 1: :func:`two_point`
How large can it get at most (tied L2 attention)?        :func:`bound_inf`, :func:`bound_two`
=======================================================  ==============================================================
"""

from relearn.maths.l2_bounds import bound_inf, bound_two, growth
from relearn.measures.lipschitz.ascent import Ascent, ascend
from relearn.measures.lipschitz.jacobian import JacobianNorm, jacobian, jacobian_norm
from relearn.measures.lipschitz.lower_bounds import Construction, clustered_norm, two_point
from relearn.measures.lipschitz.products import Products

__all__ = [
    "Ascent",
    "Construction",
    "JacobianNorm",
    "Products",
    "ascend",
    "bound_inf",
    "bound_two",
    "clustered_norm",
    "growth",
    "jacobian",
    "jacobian_norm",
    "two_point",
]
