"""An attack's readings of the targets, computed once if they do not change."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from relearn.methods.crafting.networks import dropout_active, has_dropout
from relearn.methods.crafting.objective import Objective, Reading, reading

KEPT_BYTES = 2**31  # for all networks together; readings beyond this are recomputed in each iteration


class TargetSide:
    """Readings of all targets in all networks.

    Args:
        dropout: masks of the targets: "resampled" at each reading, "fixed" (drawn once, here), or "off".
    """

    def __init__(
        self,
        objective: Objective,
        networks: Sequence[nn.Module],
        targets: Tensor,
        dropout: str,
        precision: str,
        parts: Sequence[slice],
    ) -> None:
        self.objective, self.networks, self.targets = objective, networks, targets
        self.precision, self.parts = precision, parts
        self.bytes = 0
        self.resampled = [dropout == "resampled" and has_dropout(net) for net in networks]
        self.kept: list[Reading | None] = []
        for net, resampled in zip(networks, self.resampled):
            with dropout_active(net, dropout == "fixed"):
                self.kept.append(None if resampled else self._whole(net, dropout == "fixed"))

    def of(self, index: int, part: slice) -> Reading:
        """Reading of some targets in network `index`; with "resampled", dropout is in its current mode."""
        kept, net = self.kept[index], self.networks[index]
        if kept is not None:
            return [one[part] for one in kept]
        if self.resampled[index]:
            return self._read(net, part)
        with dropout_active(net, False):
            return self._read(net, part)

    def _read(self, net: nn.Module, part: slice) -> Reading:
        return reading(self.objective.part(part).read_target, net, self.targets[part], self.precision)

    def _whole(self, net: nn.Module, must_keep: bool) -> Reading | None:
        readings: list[Reading] = []
        for part in self.parts:
            readings.append(self._read(net, part))
            if len(readings) == 1:
                size = sum(one.numel() * one.element_size() for one in readings[0])
                self.bytes += size * len(self.targets) // len(self.targets[part])
                if self.bytes > KEPT_BYTES and not must_keep:
                    return None
        return [torch.cat(layer) for layer in zip(*readings)] if len(readings) > 1 else readings[0]
