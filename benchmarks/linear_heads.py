"""Fine-tuning of a stack of linear heads: one step of all heads of a defence's sweep, forward and backward.

Baselines in the same run: the same step with the classes last in memory, as `torch.nn.functional.linear` lays logits out, and the
floor, which is the two batched matrix products that no layout can avoid.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from timing import compare, report
from torch import Tensor
from torch.nn.functional import cross_entropy

from relearn.methods.transfer import Heads, weighted_loss

BATCH, SETS, VARIANTS, CLASSES = (
    250,
    21,
    8,
    10,
)  # scale mini: 20 targets and a control, 7 strengths and no filter


def classes_last(heads: Heads, x: Tensor, labels: Tensor, keep: Tensor) -> Tensor:
    """The loss of :func:`weighted_loss`, with logits (B, T, V, C) that are contiguous."""
    weight = heads.weight.flatten(1, 2).transpose(1, 2)
    logits = torch.baddbmm(heads.bias.flatten(1)[:, None], x.transpose(0, 1), weight).transpose(0, 1)
    target = labels[:, None].expand(-1, SETS * VARIANTS).flatten()
    losses = cross_entropy(logits.reshape(-1, CLASSES), target, reduction="none").reshape(keep.shape) * keep
    return (losses.sum(0) / keep.sum(0).clamp(min=1.0)).sum()


def main() -> None:
    parser = argparse.ArgumentParser(description="a step of a stack of linear heads: CPU time")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for width in (128, 512, 2048):
        heads = Heads(
            torch.randn(SETS, VARIANTS, CLASSES, width) / width**0.5, torch.zeros(SETS, VARIANTS, CLASSES)
        )
        x, labels = torch.randn(BATCH, SETS, width).relu(), torch.randint(0, CLASSES, (BATCH,))
        keep = (torch.rand(BATCH, SETS, VARIANTS) > 0.05).float()
        by_set, errors = x.permute(1, 2, 0).contiguous(), torch.randn(SETS, VARIANTS * CLASSES, BATCH)

        def ours(heads: Heads = heads, x: Tensor = x, labels: Tensor = labels, keep: Tensor = keep) -> None:
            heads.zero_grad()
            weighted_loss(heads(x), labels, keep).backward()

        def last(heads: Heads = heads, x: Tensor = x, labels: Tensor = labels, keep: Tensor = keep) -> None:
            heads.zero_grad()
            classes_last(heads, x, labels, keep).backward()

        def floor(heads: Heads = heads, by_set: Tensor = by_set, errors: Tensor = errors) -> None:
            torch.bmm(heads.weight.detach().flatten(1, 2), by_set)
            torch.bmm(errors, by_set.transpose(1, 2))

        torch.testing.assert_close(
            weighted_loss(heads(x), labels, keep), classes_last(heads, x, labels, keep)
        )
        for name, reference in (("classes last", last), ("two matrix products", floor)):
            rows.append({"width": width, "reference": name, **compare(ours, reference, arguments.pairs)})
    report("linear_heads", rows, batch=BATCH, sets=SETS, variants=VARIANTS, classes=CLASSES)


if __name__ == "__main__":
    main()
