r"""Batches of a character stream: lanes that continue from batch to batch.

The n characters become B lanes of :math:`m = \lfloor (n - 1) / B \rfloor` consecutive characters each;
batch k holds characters :math:`kT + 1 \dots (k+1)T` of every lane as inputs, and the next character of each as targets:

======  ==============  ============================  ==============================
symbol  meaning         code                          shape
======  ==============  ============================  ==============================
B       lanes           ``batch_size``                batches are (B, T)
T       length          ``length``
k       batch           0 .. ``batches_per_epoch``-1  :math:`\lfloor m / T \rfloor`
======  ==============  ============================  ==============================

Row b of a batch continues row b of the previous batch, so a network's memory of that batch is its context. There is no context at the
start of a lane, which a third tensor indicates. Fewer than B T characters at the ends of the lanes are never used, as in Dai et al.
2019, "Transformer-XL"; there are no random draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.uint8] | Tensor


class StreamBatches:
    """A source of batches ``((inputs, fresh), targets)`` for ``relearn.methods.fit``.

    ``inputs`` and ``targets`` are (B, T) int64, ``fresh`` (B,) bool: whether the lane starts with this batch. The stream is stored
    on the device with one byte per character.

    Raises:
        ValueError: a size below 1, or a stream shorter than one batch.
    """

    def __init__(self, ids: Ids, *, length: int, batch_size: int, device: torch.device | str = "cpu") -> None:
        for key, value in {"length": length, "batch_size": batch_size}.items():
            if value < 1:
                raise ValueError(f"{key} is {value}; allowed: 1 or more")
        self.length, self.batch_size = length, batch_size
        lane = (len(ids) - 1) // batch_size
        self.batches_per_epoch = lane // length
        if self.batches_per_epoch < 1:
            raise ValueError(
                f"length is {length}; allowed: 1 to {max(lane, 0)}, as a stream of {len(ids)} characters in "
                f"{batch_size} lanes allows"
            )
        self._ids = torch.as_tensor(ids).to(device)
        self._starts = torch.arange(batch_size, device=device)[:, None] * lane
        self._places = torch.arange(length + 1, device=device)

    def batch(self, k: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Batch k of an epoch."""
        seen = self._ids[self._starts + self._places + k * self.length].long()
        fresh = torch.full((self.batch_size,), k == 0, device=seen.device)
        return (seen[:, :-1], fresh), seen[:, 1:]

    def epoch(self, generator: torch.Generator) -> Iterator[Any]:
        """The batches of an epoch, in order; ``generator`` is not used."""
        return (self.batch(k) for k in range(self.batches_per_epoch))
