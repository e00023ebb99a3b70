"""Forward and backward pass of causal long-short attention, compared with torch's full attention over the same context.

Window 128, segments of 16 with one vector each, relative positions and DualLN, gradients of input and weights. The baseline has
the same four maps, and attends with ``scaled_dot_product_attention`` to all preceding positions of cache and segment and the current
one. It has no relative positions, because that kernel cannot compute their gradient.

- cached: a cache as long as the segment, which requires no gradient, as in training; the baseline uses a mask.
- alone: no cache; the baseline is ``is_causal=True``, which skips the upper half.
- released, dropout: the released form, and attention dropout of 0.1, with a cache, for width 64. The baseline is our plain form;
  ``full_ratio`` is the ratio to full attention without dropout, measured in other pairs of the same run. Target: 1.1 of the plain form.

Targets for the CPU time with a cache: at most 0.33 and 0.28 of the baseline's for width 64, 2 heads and 1,024 and 2,048 positions;
0.65 and 0.45 for width 512 and 8 heads. Without a cache: at most 1 from 2,048 positions on.

Time is CPU time (``--device cuda``: wall time after a synchronisation).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from timing import compare, report
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.long_short_causal import CausalLongShortAttention

WINDOW, SEGMENT, RANK = 128, 16, 1
CASES: tuple[tuple[str, int, int, int, float | None], ...] = (
    ("cached", 64, 2, 1024, 0.33),
    ("cached", 64, 2, 2048, 0.28),
    ("cached", 512, 8, 1024, 0.65),
    ("cached", 512, 8, 2048, 0.45),
    ("alone", 64, 2, 1024, None),
    ("alone", 64, 2, 2048, 1.0),
    ("alone", 64, 2, 4096, 1.0),
    ("alone", 512, 8, 2048, 1.0),
)
"""Part, width, heads, positions, and the ratio wanted."""
FORMS: dict[str, dict[str, Any]] = {"released": {"as_released": True}, "dropout": {"dropout": 0.1}}
FORM = 1.1


class FullAttention(nn.Module):
    """The baseline: the same maps, and all positions up to the current one."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = (nn.Linear(dim, k * dim, bias=False) for k in (1, 2, 1))

    def forward(self, x: Tensor, *, cache: Tensor | None = None) -> Tensor:
        q = self.q(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
        rows = self.kv(x) if cache is None else torch.cat([self.kv(cache), self.kv(x)], 1)
        k, v = rows.unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mask = None
        if cache is not None:
            shape = (x.shape[1], k.shape[2])
            mask = torch.ones(shape, dtype=torch.bool, device=x.device).tril(cache.shape[1])
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.out(mixed.transpose(1, 2).flatten(2))


def step(
    ours: bool, part: str, dim: int, heads: int, length: int, batch: int, device: str
) -> Callable[[], None]:
    """Return a forward and backward pass of a layer."""
    torch.manual_seed(0)
    more: dict[str, Any] = dict(window=WINDOW, segment=SEGMENT, rank=RANK, **FORMS.get(part, {}))
    layer = (CausalLongShortAttention(dim, heads, **more) if ours else FullAttention(dim, heads)).to(device)
    x = torch.randn(batch, length, dim, device=device, requires_grad=True)
    cache = None if part == "alone" else torch.randn(batch, length, dim, device=device)
    ahead = torch.randn_like(x)

    def call() -> None:
        x.grad = None
        layer.zero_grad()
        layer(x, cache=cache).backward(ahead)

    return call


def clock(device: str) -> Callable[[], float]:
    if device == "cpu":
        return time.process_time

    def seconds() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="causal long-short attention against full attention: time")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--case", type=int, action="append", help="a number of CASES, then of the forms: printed, not written"
    )
    parser.add_argument(
        "--quick", action="store_true", help="an eighth of the positions: printed, not written"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    # glibc returns memory to the system until a large block has been freed once, as in any training process
    torch.empty(2**23 - 2**16)
    rows: list[dict[str, Any]] = []
    forms = [(form, *case[1:4], FORM) for form in FORMS for case in CASES[:2]]
    for number, (part, dim, heads, length, wanted) in enumerate([*CASES, *forms]):
        if arguments.case and number not in arguments.case:
            continue
        positions = length // 8 if arguments.quick else length
        size = (dim, heads, positions, arguments.batch, arguments.device)
        ours, full = step(True, part, *size), step(False, part, *size)
        reference = step(True, "cached", *size) if part in FORMS else full
        more: dict[str, Any] = dict(clock=clock(arguments.device), warm_up=2)
        timed = compare(ours, reference, arguments.pairs, **more)
        what = {"part": part, "dim": dim, "heads": heads, "positions": positions}
        rows.append({**what, **timed, "wanted_ratio": wanted})
        if part in FORMS:
            rows[-1]["full_ratio"] = compare(ours, full, arguments.pairs, **more)["ratio"]
        print(rows[-1], flush=True)
    if not (arguments.quick or arguments.case):
        name = "long_short_causal" if arguments.device == "cpu" else f"long_short_causal_{arguments.device}"
        report(
            name, rows, batch=arguments.batch, pairs=arguments.pairs, dtype="float32", device=arguments.device
        )


if __name__ == "__main__":
    main()
