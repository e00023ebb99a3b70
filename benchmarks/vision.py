"""LipsFormer compared with timm's Swin: a training step, its memory, construction, and window attention.

- network: forward and backward pass of LipsFormer-Swin-T, in the paper's and in the released form, compared with timm's
  ``swin_tiny_patch4_window7_224``: batch 4 at 224 x 224, gradients of all weights. The networks have different numbers of
  products, so the ratio of the times is divided by that of the multiply-adds (``ratio_equal_flops``). Target: 1.25. The memory
  ratio is not divided; its target is 1.25 too.
- construction: LipsFormer-Swin-T with spectral initialisation compared with Xavier initialisation, and with timm's Swin.
  Target: 1.5.
- attention: cosine attention in windows of 7 x 7, as in the four stages of that step, without a mask and with that of
  shifted windows, compared with timm's ``WindowAttention``: forward and backward, gradients of input, weights and position table.
  Target: 1.15 for each, and for the sum over the twelve blocks of the network (row ``network``).

Time is CPU time. Memory is the peak resident memory during a step, in a separate process, minus
that before the network was created; it includes weights, gradients, activations and scratch space.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import peak
import torch
from timing import compare, report
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import relearn.models.timm_names  # noqa: F401  timm is imported after it, with our names registered
from relearn.layers.cosine_attention import CosineAttention
from relearn.measures.model_counts import multiply_adds
from relearn.models.shifted_windows import ShiftedWindowAttention

OURS, REFERENCE = "lipsformer_swin_tiny", "swin_tiny_patch4_window7_224"
FORMS: dict[str, dict[str, Any]] = {"paper": {}, "released": {"as_released": True}}
STAGES = ((96, 3, 56, 2), (192, 6, 28, 2), (384, 12, 14, 6), (768, 24, 7, 2))
"""Width, heads, side of the grid and number of blocks of every stage."""
WINDOW = 7
TIME, MEMORY, CONSTRUCTION, ATTENTION = 1.25, 1.25, 1.5, 1.15


def build(name: str, form: str = "paper", size: int = 224) -> nn.Module:
    import timm

    more = FORMS[form] if name == OURS else {}
    return timm.create_model(name, img_size=size, **more)


def network_step(name: str, form: str, batch: int, size: int) -> Callable[[], None]:
    """Return forward pass, loss and backward pass of a network in training mode."""
    torch.manual_seed(0)
    net = build(name, form, size).train()
    images, labels = torch.randn(batch, 3, size, size), torch.randint(1000, (batch,))

    def step() -> None:
        net.zero_grad()
        cross_entropy(net(images), labels).backward()

    return step


def products(name: str, form: str, size: int) -> int:
    with torch.device("meta"):
        return multiply_adds(build(name, form, size), torch.empty(1, 3, size, size))


def measure_memory(name: str, form: str, batch: int, size: int) -> None:
    """In a separate process: print the bytes that a step needs, including the network."""
    peak.tell_step(lambda: network_step(name, form, 1, size), lambda: network_step(name, form, batch, size))


def memory(name: str, form: str, batch: int, size: int) -> int:
    return peak.in_process(__file__, "--memory", json.dumps([name, form, batch, size]))


def networks(batch: int, size: int, pairs: int) -> list[dict[str, Any]]:
    rows = []
    reference = network_step(REFERENCE, "", batch, size)
    reference_bytes = memory(REFERENCE, "", batch, size)
    for form in FORMS:
        timed = compare(network_step(OURS, form, batch, size), reference, pairs)
        flops = products(OURS, form, size) / products(REFERENCE, "", size)
        used = memory(OURS, form, batch, size)
        rows.append(
            {
                "part": "network",
                "kind": form,
                **timed,
                "flop_ratio": flops,
                "ratio_equal_flops": timed["ratio"] / flops,
                "wanted_equal_flops": TIME,
                "memory_ratio": used / reference_bytes,
                "wanted_memory": MEMORY,
                "ours_bytes": used,
                "reference_bytes": reference_bytes,
            }
        )
        print(rows[-1], flush=True)
    return rows


def construction(pairs: int) -> list[dict[str, Any]]:
    import timm

    def construct(name: str, **more: str) -> Callable[[], None]:
        return lambda: timm.create_model(name, **more)

    rows = []
    for kind, reference in {
        "spectral": construct(OURS, start="xavier"),
        "spectral, against Swin": construct(REFERENCE),
    }.items():
        timed = compare(construct(OURS, start="spectral"), reference, pairs)
        rows.append({"part": "construction", "kind": kind, **timed, "wanted_ratio": CONSTRUCTION})
        print(rows[-1], flush=True)
    return rows


def attention_step(
    ours: bool, dim: int, heads: int, grid: int, shifted: bool, form: str, batch: int
) -> Callable[[], None]:
    """Forward and backward pass of the attention in all windows of ``batch`` grids; timm's adds the mask as numbers."""
    from timm.models.swin_transformer import SwinTransformerBlock

    torch.manual_seed(0)
    whole = ShiftedWindowAttention(dim, heads, (grid, grid), WINDOW, shifted=shifted)
    mask, count = whole.mask(), (grid // WINDOW) ** 2
    x = torch.randn(batch * count, WINDOW * WINDOW, dim, requires_grad=True)
    ahead = torch.randn(x.shape)
    if not ours:
        shift = WINDOW // 2 if shifted else 0
        block = SwinTransformerBlock(dim, (grid, grid), heads, window_size=WINDOW, shift_size=shift)
        layer: nn.Module = block.attn

        def call() -> Tensor:
            return layer(x, mask=block.attn_mask)
    else:
        layer = whole
        released = dict(tau=10.0, eps=1e-24, normalise_values=False, average_heads=False)
        whole.attention = CosineAttention(dim, heads, **(released if form == "released" else {}))

        def call() -> Tensor:
            return whole.attention(x, bias=whole.bias(), mask=mask)

    def step() -> None:
        x.grad = None
        layer.zero_grad()
        call().backward(ahead)

    return step


def attentions(batch: int, pairs: int, stages: tuple[tuple[int, int, int, int], ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for form in FORMS:
        ours_s = reference_s = 0.0
        for dim, heads, grid, depth in stages:
            for shifted in (False, True) if grid > WINDOW else (False,):
                size = (dim, heads, grid, shifted, form, batch)
                timed = compare(attention_step(True, *size), attention_step(False, *size), pairs)
                blocks = depth // 2 if grid > WINDOW else depth
                ours_s, reference_s = (
                    ours_s + blocks * timed["ours_s"],
                    reference_s + blocks * timed["reference_s"],
                )
                what = {"part": "attention", "kind": form, "dim": dim, "shifted": shifted}
                rows.append({**what, **timed, "wanted_ratio": ATTENTION})
                print(rows[-1], flush=True)
        summed = {"ratio": ours_s / reference_s, "ours_s": ours_s, "reference_s": reference_s}
        rows.append({"part": "attention", "kind": f"{form}, all blocks", **summed, "wanted_ratio": ATTENTION})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="LipsFormer against timm's Swin: time, memory, construction")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--part",
        choices=("network", "construction", "attention"),
        help="one part: only its rows are replaced",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: printed, not written")
    arguments = peak.parsed(parser, measure_memory)
    batch, pairs = 1 if arguments.quick else 4, arguments.pairs
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "network": lambda: networks(batch, 224, pairs),
        "construction": lambda: construction(pairs),
        "attention": lambda: attentions(batch, pairs, STAGES[2:] if arguments.quick else STAGES),
    }
    rows = [row for name, make in parts.items() if arguments.part in (None, name) for row in make()]
    if not arguments.quick:
        by = ("part", "kind", "dim", "shifted") if arguments.part else ()
        report("vision", rows, part_by=by, batch=batch, size=224, pairs=pairs, dtype="float32")


if __name__ == "__main__":
    main()
