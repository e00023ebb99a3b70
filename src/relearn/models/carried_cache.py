r"""Wrapper that stores a language model's cache between segments, so that the training loop need not handle it.

Segment k of a stream, :math:`x_k` with T characters per lane, is processed with the cache of segment k - 1:

.. math:: (\mathrm{logits}_k, S_k) = f_\theta(x_k, \bar S_{k-1})

=================  ===================================================================  ===================
symbol             meaning                                                              code, shape
=================  ===================================================================  ===================
:math:`S_k`        inputs of the layers                                                 (L, B, T, D)
:math:`\bar S_k`   the same, detached, in a buffer of the module                        ``memory``
=================  ===================================================================  ===================

Dai et al. 2019, "Transformer-XL", section 3.2; zhu2022 (section 5.3.2) caches as many characters as a segment has. The buffer is
part of the state dict, so a training checkpoint contains it and training resumes exactly. With several processes a checkpoint contains
only the first process's buffer; after resuming, the other processes' lanes use the first one's context for one segment.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class CarriedCache(nn.Module):
    """Wrap ``net`` with its cache: (inputs (B, T), fresh (B,) bool) → logits (B, T, V).

    Where new sequences begin (``fresh``; in all lanes at once, as in ``relearn.data.stream_batches``) no cache is used. The cache
    is written only in training mode; in eval mode the module uses the cache of the last training segment.

    Args:
        net: a network with the interface of ``relearn.models.long_short_lm.LongShortLM``: ``net(tokens, cache=...)`` → (logits, new
            cache); its ``description`` contains ``layers`` and ``dim``.
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
        rows = inputs.shape[0]  # fewer than B if several processes share a batch
        cache = None if bool(fresh.all()) else list(self.memory[:, :rows].unbind())
        logits: Tensor
        logits, kept = self.net(inputs, cache=cache)
        if self.training:
            with torch.no_grad():
                self.memory[:, :rows].copy_(torch.stack(kept))
        return logits
