"""relearn: published experiments on reliable and efficient representation learning, re-run with one command.

The main classes and functions can be imported directly::

    from relearn import DeepKNN, gradinit, freelb, LongShortAttention, L2Attention

Importing the package imports none of them: the module of a name, and torch with it, is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.layers.cosine_attention import CosineAttention as CosineAttention
    from relearn.layers.invertible_residual import InvertibleResidual as InvertibleResidual
    from relearn.layers.l2_attention import L2Attention as L2Attention
    from relearn.layers.long_short_attention import LongShortAttention as LongShortAttention
    from relearn.layers.long_short_causal import CausalLongShortAttention as CausalLongShortAttention
    from relearn.layers.multihead import AsMultiheadAttention as AsMultiheadAttention
    from relearn.methods.deep_knn import DeepKNN as DeepKNN
    from relearn.methods.fit import fit as fit
    from relearn.methods.freelb import freelb as freelb
    from relearn.methods.gradinit import gradinit as gradinit
    from relearn.models.lipschitz_bound import lipschitz_bound as lipschitz_bound

__version__ = "0.11.0"

LAZY = {
    "AsMultiheadAttention": "relearn.layers.multihead:AsMultiheadAttention",
    "CausalLongShortAttention": "relearn.layers.long_short_causal:CausalLongShortAttention",
    "CosineAttention": "relearn.layers.cosine_attention:CosineAttention",
    "DeepKNN": "relearn.methods.deep_knn:DeepKNN",
    "InvertibleResidual": "relearn.layers.invertible_residual:InvertibleResidual",
    "L2Attention": "relearn.layers.l2_attention:L2Attention",
    "LongShortAttention": "relearn.layers.long_short_attention:LongShortAttention",
    "fit": "relearn.methods.fit:fit",
    "freelb": "relearn.methods.freelb:freelb",
    "gradinit": "relearn.methods.gradinit:gradinit",
    "lipschitz_bound": "relearn.models.lipschitz_bound:lipschitz_bound",
}


def attribute(place: str, what: str) -> Any:
    """The object at ``module:attribute``; the attribute may have dots. ``what`` asks for it, in the message of an error.

    Raises:
        ValueError: no such module or attribute, or the module cannot be imported, in one line.
    """
    module, _, name = place.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except (ImportError, AttributeError) as error:
        said = str(error).partition("\n")[0]
        raise ValueError(
            f"{what}: found {place}, which cannot be loaded ({said}), allowed: module:attribute"
        ) from error


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r} (names: {', '.join(LAZY)})")
    module, _, attribute = LAZY[name].partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
