"""Forward and backward pass of L2 attention, compared with torch's fused dot-product attention: time and memory.

Baseline: fused `DotProductAttention` of the same width and heads: four maps around torch's scaled_dot_product_attention. It is
itself compared with `torch.nn.MultiheadAttention` (rows `torch_mha`), to show that the baseline is not slow.

- layer: the whole module, with gradients of the input and of all weights. Target for l2 and l2_tied: 1.25 of the time, 1.5 of the
  memory.
- core: from queries, keys and values to their mixture, compared with scaled_dot_product_attention alone, with the same time target.
  There is no memory target, because the copies that carry the extra column are compared with a kernel that stores nothing else.
- torch_mha, contractive: no bound.

Time is CPU time on a CPU, and synchronised wall time on a GPU. Memory on a CPU is the peak
resident memory during a step, in a separate process, minus that before the layer and its input were created; on a GPU it is the
allocator's peak. It includes weights, gradients, activations and a kernel's scratch space.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import peak
import torch
from timing import compare, report
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.attention_kinds import attention
from relearn.layers.self_attention import with_bias

DIM, HEADS = 512, 8
# Batches of 1 to 4, so that even the shortest length takes a measurable time.
SIZES = {256: 4, 512: 2, 1024: 1, 2048: 1}
LAYERS: dict[str, bool] = {
    "l2": True,
    "l2_tied": True,
    "contractive": False,
    "torch_mha": False,
}
CORES: dict[str, bool] = {"l2": True, "l2_tied": True}
TIME, MEMORY = 1.25, 1.5


class TorchAttention(nn.Module):
    """torch's own module with our call signature."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(dim, heads, bias=False, batch_first=True)

    def forward(self, x: Tensor, *, causal: bool) -> Tensor:
        # The hint requires the mask as well; without returned weights, only the hint reaches the kernel.
        hidden = (
            nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device) if causal else None
        )
        return self.inner(x, x, x, need_weights=False, attn_mask=hidden, is_causal=causal)[0]


def layer_step(
    kind: str, size: tuple[int, int], causal: bool, width: tuple[int, int], device: str
) -> Callable[[], None]:
    """Return a forward and backward pass of a whole layer; ``size`` is (batch, length), ``width`` (D, H)."""
    torch.manual_seed(0)
    layer = TorchAttention(*width) if kind == "torch_mha" else attention(kind, *width)
    layer.to(device)
    x = torch.randn(*size, width[0], device=device, requires_grad=True)
    ahead = torch.randn(*size, width[0], device=device)

    def step() -> None:
        x.grad = None
        layer.zero_grad()
        layer(x, causal=causal).backward(ahead)

    return step


def core_step(
    kind: str, size: tuple[int, int], causal: bool, width: tuple[int, int], device: str
) -> Callable[[], None]:
    """Return a forward and backward pass from queries, keys and values (queries and keys share a tensor if tied)."""
    torch.manual_seed(0)
    head = (size[1], width[1], width[0] // width[1])
    made = [torch.randn(size[0], *head, device=device).transpose(1, 2) for _ in range(4)]
    ahead = made.pop()
    q, k, v = (one.requires_grad_() for one in made)
    if kind == "l2_tied":
        k = q
    leaves = (q, v) if k is q else (q, k, v)
    beta = head[2] ** -0.5

    def step() -> None:
        if kind == "dp":
            mixed = scaled_dot_product_attention(q, k, v, is_causal=causal, scale=beta)
        else:
            bias = (k * k).sum(-1).unsqueeze(-2) / -2
            wide = with_bias(q, k, bias, v)
            mixed = scaled_dot_product_attention(*wide, is_causal=causal, scale=2 * beta)[..., : head[2]]
        torch.autograd.grad(mixed, leaves, ahead)

    return step


STEPS = {"layer": layer_step, "core": core_step}


def measure_memory(
    part: str, kind: str, length: int, batch: int, causal: bool, width: tuple[int, int]
) -> None:
    """In a separate process: print the bytes that a step needs, including the layer."""
    peak.tell_step(
        lambda: STEPS[part](kind, (1, 8), causal, width, "cpu"),
        lambda: STEPS[part](kind, (batch, length), causal, width, "cpu"),
    )


def memory(
    part: str,
    kind: str,
    length: int,
    batch: int,
    causal: bool,
    width: tuple[int, int],
    threads: int,
    device: str,
) -> int:
    if device != "cpu":
        return peak.on_gpu(lambda: STEPS[part](kind, (batch, length), causal, width, device))
    what = json.dumps([part, kind, length, batch, causal, width])
    return peak.in_process(__file__, "--memory", what, "--threads", str(threads))


def gpu_clock() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def measure(
    sizes: dict[int, int],
    masks: Sequence[bool],
    width: tuple[int, int],
    pairs: int,
    threads: int,
    device: str,
) -> list[dict[str, Any]]:
    """Return one row for each part, kind, length and mask."""
    rows: list[dict[str, Any]] = []
    clock = time.process_time if device == "cpu" else gpu_clock
    for length, batch in sizes.items():
        for causal in masks:
            for part, kinds in (("layer", LAYERS), ("core", CORES)):
                reference = STEPS[part]("dp", (batch, length), causal, width, device)
                reference_bytes = memory(part, "dp", length, batch, causal, width, threads, device)
                for kind, bounded in kinds.items():
                    ours = STEPS[part](kind, (batch, length), causal, width, device)
                    timed = compare(ours, reference, pairs, clock=clock)
                    used = memory(part, kind, length, batch, causal, width, threads, device)
                    rows.append(
                        {
                            "device": device,
                            "part": part,
                            "kind": kind,
                            "length": length,
                            "batch": batch,
                            "causal": causal,
                            **timed,
                            "wanted_ratio": TIME if bounded else None,
                            "memory_ratio": used / reference_bytes,
                            "wanted_memory": MEMORY if bounded and part == "layer" else None,
                            "ours_bytes": used,
                            "reference_bytes": reference_bytes,
                        }
                    )
                    print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description="L2 attention against fused dot-product attention: time, memory"
    )
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: printed, not written")
    arguments = peak.parsed(parser, measure_memory)
    width = (32, 4) if arguments.quick else (DIM, HEADS)
    sizes, masks = ({16: 2}, [True]) if arguments.quick else (SIZES, [False, True])
    rows = measure(sizes, masks, width, arguments.pairs, arguments.threads, "cpu")
    if torch.cuda.is_available():
        rows += measure(sizes, masks, width, arguments.pairs, arguments.threads, "cuda")
    else:
        rows.append({"device": "cuda", "skipped": "no such device here"})
    if not arguments.quick:
        report("l2_attention", rows, dim=width[0], heads=width[1], pairs=arguments.pairs, dtype="float32")


if __name__ == "__main__":
    main()
