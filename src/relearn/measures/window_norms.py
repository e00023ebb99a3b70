r"""Per layer, the ratio of the norms of window keys and values to those of the compressed keys and values.

zhu2022, section 5.2.4 and figure 5.3 left. For every causal long-short attention of a network, over sequences b, positions t and
segments s, with the heads of a key concatenated,

.. math:: \frac{\mathrm{mean}_{b,t} \|k_{b,t}\|_2}{\mathrm{mean}_{b,s} \|\bar k_{b,s}\|_2}

and likewise for the values. A weighted mean of vectors is shorter than the vectors, so without DualLN the ratio is above 1. After DualLN
all vectors initially have the same norm, and the ratio is 1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.eval_mode import eval_mode


@torch.no_grad()
def norm_ratios(net: nn.Module, tokens: Tensor) -> list[dict[str, Any]]:
    """Return rows ``layer`` (from 1), ``ratio`` of the keys and ``value_ratio``, from the first layer to the last.

    There is one forward pass in evaluation mode; modes are restored.

    Args:
        net: has ``attention_layers()``; layers with ``keys_and_values`` are measured, others skipped.
        tokens: input of ``net``, with more positions than one segment.

    Raises:
        ValueError: no layer to measure, or one that compresses nothing because there are too few positions.
    """
    rows: list[dict[str, Any]] = []
    layers: list[nn.Module] = net.attention_layers()  # type: ignore[operator]
    handles = []
    for number, layer in enumerate(layers, 1):
        if not hasattr(layer, "keys_and_values"):
            continue

        def look(
            layer: Any, inputs: tuple[Tensor], named: dict[str, Tensor | None], number: int = number
        ) -> None:
            near, far = layer.keys_and_values(*inputs, **named)
            if not far.shape[1]:
                raise ValueError(
                    f"tokens: {near.shape[1]} positions (allowed: more than a segment, of a layer that compresses)"
                )
            keys, values = (_mean_norm(near, part) / _mean_norm(far, part) for part in (0, 1))
            rows.append({"layer": number, "ratio": keys, "value_ratio": values})

        handles.append(layer.register_forward_pre_hook(look, with_kwargs=True))
    try:
        if not handles:
            raise ValueError(
                "net: no layer with keys of a window and compressed ones (allowed: at least one)"
            )
        with eval_mode(net):
            net(tokens)
    finally:
        for handle in handles:
            handle.remove()
    return rows


def _mean_norm(rows: Tensor, part: int) -> float:
    """Return the mean norm in (B, t, 2, H, d) of the keys (part 0) or the values (part 1)."""
    rows = rows[:, :, part].flatten(2)
    return float(torch.linalg.vector_norm(rows.double(), dim=2).mean())
