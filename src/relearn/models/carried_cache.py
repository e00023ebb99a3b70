r"""A language model that reads on where it stopped: its cache is part of its state, so that a training loop needs not know of it.

Segment k of a stream, :math:`x_k` of T characters a lane, is read with what the network kept of segment k - 1:

.. math:: (\mathrm{logits}_k, S_k) = f_\theta(x_k, \bar S_{k-1})

=================  ===================================================================  ===================
symbol             meaning                                                              code, shape
=================  ===================================================================  ===================
:math:`S_k`        what the layers take in, layer by layer                              (L, B, T, D)
:math:`\bar S_k`   the same without gradients, in a buffer of the module                ``memory``
=================  ===================================================================  ===================

Dai et al. 2019, "Transformer-XL", section 3.2; zhu2022 (section 5.3.2) keeps as many characters as a segment has. The buffer is in
the state dict, so a checkpoint of a training run holds it and the run resumes exactly. Under several processes a checkpoint holds
the first one's buffer alone: the others' lanes then read one segment with its context.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class CarriedCache(nn.Module):
    """``net`` with its memory: (inputs (B, T), fresh (B,) bool) → logits (B, T, V).

    Where lanes begin anew (``fresh``; all at once, as in ``relearn.data.stream_batches``) there is no cache. Only training
    writes the memory; in eval mode the module reads with what training left there.

    Args:
        net: called as ``relearn.models.long_short_lm.LongShortLM`` is, ``net(tokens, cache=...)`` → (logits, what it keeps of them);
            ``description`` says its ``layers`` and ``dim``.
        batch_size: B. length: T.
    """

    memory: Tensor

    def __init__(self, net: Any, *, batch_size: int, length: int) -> None:
        super().__init__()
        self.net = net
        like = next(net.parameters())
        shape = (net.description["layers"], batch_size, length, net.description["dim"])
        self.register_buffer("memory", torch.zeros(shape, dtype=like.dtype, device=like.device))

    def forward(self, inputs: Tensor, fresh: Tensor) -> Tensor:
        rows = len(inputs)  # fewer than B where several processes share a batch
        cache = None if bool(fresh.all()) else list(self.memory[:, :rows].unbind())
        logits: Tensor
        logits, kept = self.net(inputs, cache=cache)
        if self.training:
            with torch.no_grad():
                self.memory[:, :rows].copy_(torch.stack(kept))
        return logits
