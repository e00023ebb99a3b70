"""train_constrained: train a LipsFormer under a Lipschitz constraint; bound it and its unconstrained twin.

Settings: those of `train_vision`, and ``constraint``: bound (L, the limit of every layer), kind (spectral | bjorck) and method
(upper | power), see relearn.models.constrained. ``network`` is the network without the constraint.
Inputs: those of `train_vision`; free: the weights of the same training without the constraint.
Output: the files of `train_vision`. model.safetensors has the weights behind the constraint and describes it; load it after
`relearn.models.constrained_network.register()`.

The training is that of `train_vision`: the same initial weights, scaled where they exceed a limit, and the same images in the same
order. The factor α of every branch keeps the modulus of its start (qi2023, section 4.1.3, proposes this and does not do it).

Metrics: those of `train_vision`, and natural logarithms of upper bounds on the 2-norm Lipschitz constant of the map from the
normalised image to the logits in evaluation mode (form ``tight`` of relearn.models.lipschitz_bound): bound_nats of this network,
free_bound_nats of the network without constraint, and stated_bound_nats of a network with every weight at its limit, which the
constraint keeps, with method upper up to rounding. A network that is not finite has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from relearn.steps import train_vision

NEEDS_TORCH = True
PROCESSES = True


@dataclass(frozen=True, kw_only=True)
class Constraint:
    bound: float
    kind: str
    method: str


@dataclass(frozen=True, kw_only=True)
class ImagesSettings(train_vision.ImagesSettings):
    constraint: Constraint


@dataclass(frozen=True, kw_only=True)
class FolderSettings(train_vision.FolderSettings):
    constraint: Constraint


Settings = ImagesSettings | FolderSettings


class WithBounds:
    """A run that adds bounds to the metrics with which its training finishes.

    Args:
        run: the run.
        free: weights of the network without constraint.
    """

    def __init__(self, run: Any, free: Path) -> None:
        self._run, self._free = run, free

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def finish(self, metrics: Mapping[str, float], **more: Any) -> None:
        self._run.finish({**metrics, **bounds(self._run.output("model.safetensors"), self._free)}, **more)


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.models import constrained_network

    constrained_network.register()
    (free,) = inputs["free"]
    given = dict(settings.network)
    network = {
        "name": constrained_network.NAME,
        "of": given.pop("name"),
        **asdict(settings.constraint),
        **given,
    }
    train_vision.run(WithBounds(run, free), replace(settings, network=network), inputs, device, precision)


def bounds(weights: Path, free: Path) -> dict[str, float]:
    """The logarithms of the bounds of two trained networks, and of what the first keeps; nothing for one that is not finite."""
    from relearn.models import vision
    from relearn.models.constrained import settle, stated_bound

    found = {}
    for name, path in (("bound_nats", weights), ("free_bound_nats", free)):
        net = vision.FILE.load(path)
        trunk: Any = net.trunk
        settle(trunk)
        if all(bool(one.isfinite().all()) for one in net.parameters()):
            found[name] = trunk.lipschitz_bound().log
        if path is weights:
            side, channels = net.description["size"], net.description["in_channels"]
            found["stated_bound_nats"] = stated_bound(trunk, (channels, side, side)).log
    return found
