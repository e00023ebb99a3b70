"""A network of timm's registry under a Lipschitz constraint, itself a name of that registry.

    from relearn.models import constrained_network, vision

    constrained_network.register()
    net = vision.create("constrained", of="lipsformer_swin_tiny", bound=1.0, kind="spectral", method="upper", classes=10)

So a file of weights that :data:`relearn.models.vision.FILE` writes describes the constraint, too, and is loaded under it. A new
network has the weights that the network without constraint draws from the same generator, scaled where they exceed a limit.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import nn

from relearn.models import timm_names
from relearn.models.constrained import constrain

NAME = "constrained"


def constrained(
    pretrained: bool = False, *, of: str, bound: float, kind: str, method: str, **arguments: Any
) -> nn.Module:
    """The network ``of`` with every layer constrained.

    Args:
        pretrained: timm passes it to every network; there are no such weights.
        of: a name of timm's registry whose network takes ``img_size`` and ``in_chans``.
        bound, kind, method: see :func:`relearn.models.constrained.constrain`.
        **arguments: of the network.

    Raises:
        ValueError: pretrained weights, a layer without a Lipschitz constant, or what :func:`~relearn.models.constrained.constrain`
            rejects.
    """
    if pretrained:
        raise ValueError("pretrained: found True, allowed: False; there are no weights of this network")
    net: nn.Module = import_module("timm").create_model(of, **arguments)
    side = arguments.get("img_size", 224)
    found = constrain(net, bound, kind=kind, method=method, shape=(arguments.get("in_chans", 3), side, side))
    if found.uncovered:
        one = found.uncovered[0]
        raise ValueError(f"network {of}: {one.name} ({one.kind}): {one.why}; allowed: covered layers only")
    return net


def register() -> None:
    """Enter :data:`NAME` into timm's registry; a second call does nothing."""
    timm_names.register()
    registry = import_module("timm.models")
    if not registry.is_model(NAME):
        globals()["default_cfgs"] = registry.generate_default_cfgs({NAME: {"fixed_input_size": True}})
        registry.register_model(constrained)
