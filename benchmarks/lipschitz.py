"""Jacobian norms without the Jacobian: accuracy, time and memory; and the tightness of the bounds.

- accuracy: tied L2 attention, 512 tokens of width 64, 8 heads (32,768 inputs and outputs). The 2-norm by `jacobian_norm` in float32, by
  two backward passes and by differences of the fused kernel, is compared with scipy's Lanczos (ARPACK, `svds`) in float64 on products by
  `torch.func`, which share no code with ours. Target: within 1%.
- time: a pair of products (Jv and the transposed one), i.e. the total cost divided by the number of pairs, compared with one forward and
  backward pass of the same layer. No bound: it cannot be much below 1.
- memory: peak resident memory while the norm is computed, in a separate process, minus that before the network was built. Measured for
  attention with the fused kernel and differences at increasing numbers of tokens, and for a token-wise network with two backward passes.
  Target: memory grows no faster than the inputs, with a log-log slope of at most 1.1. Memory of a forward and backward pass is also given.
- bounds: those of L2 attention for p = 2 at 1,000 tokens, each relative to the paper's corrected one. Target: at most 0.20.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import peak
import torch
from timing import compare, report
from torch import Tensor, nn

from relearn.layers.l2_attention import L2Attention
from relearn.measures.lipschitz import growth, jacobian_norm, two_point

TOKENS, WIDTH, HEADS = 512, 64, 8
MEMORY: dict[str, tuple[str, tuple[int, ...]]] = {
    "attention": ("difference", (512, 1024, 2048, 4096)),
    "token-wise": ("reverse", (1024, 2048, 4096, 8192)),
}
PAIRS = 8  # number of product pairs while memory is measured; the basis is then full
WITHIN, SLOPE, SHARE = 0.01, 1.1, 0.20


def network(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "attention":
        return L2Attention(WIDTH, HEADS).eval()
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)).eval()


def tokens(count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(
        dtype
    )


def lanczos(layer: nn.Module, x: Tensor) -> float:
    """Return the reference value, by ARPACK in float64."""
    from scipy.sparse.linalg import LinearOperator, svds

    _, pull = torch.func.vjp(layer, x)

    def forward(v: Any) -> Any:
        return (
            torch.func.jvp(layer, (x,), (torch.from_numpy(v.reshape(x.shape)).to(x),))[1]
            .detach()
            .numpy()
            .ravel()
        )

    def backward(u: Any) -> Any:
        return pull(torch.from_numpy(u.reshape(x.shape)).to(x))[0].detach().numpy().ravel()

    size = (x.numel(), x.numel())
    operator = LinearOperator(size, matvec=forward, rmatvec=backward, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(x.numel())
    return float(svds(operator, k=1, tol=1e-6, v0=start, return_singular_vectors=False)[0])


def accuracy(spreads: tuple[float, ...]) -> list[dict[str, Any]]:
    layer = network("attention")
    rows = []
    for spread in spreads:
        layer.double().fused = False  # type: ignore[assignment]
        reference = lanczos(layer, spread * tokens(TOKENS, torch.float64))
        layer.float()
        for mode in ("reverse", "difference"):
            layer.fused = mode == "difference"  # type: ignore[assignment]
            found = jacobian_norm(layer, spread * tokens(TOKENS), mode=mode)
            row = {"row": f"accuracy, {mode}, inputs of deviation {spread:g}", "inputs": TOKENS * WIDTH}
            row |= {"ours": found.value, "reference": reference, "off_frac": abs(found.value / reference - 1)}
            row |= {"wanted": WITHIN, "pairs_of_products": found.iterations, "residual": found.residual}
            rows.append(row)
            print(row, flush=True)
    return rows


def speed(pairs: int) -> dict[str, Any]:
    layer, x = network("attention"), tokens(TOKENS)
    layer.fused = False  # type: ignore[assignment]
    count = jacobian_norm(layer, x).iterations
    u = torch.ones_like(x)

    def reference() -> None:
        for _ in range(count):
            given = x.clone().requires_grad_()
            torch.autograd.grad(layer(given), given, u)

    timed = compare(lambda: jacobian_norm(layer, x), reference, pairs)
    row = {"row": f"time of {count} pairs of products", "inputs": TOKENS * WIDTH, **timed}
    print(row, flush=True)
    return row


def measure_memory(name: str, what: str, count: int) -> None:
    """In a separate process: print the bytes needed, including the network."""
    mode, _ = MEMORY[name]

    def work(number: int) -> Callable[[], object]:
        net, x = network(name), tokens(number)
        if what == "norm":
            return lambda: jacobian_norm(net, x, method="free", mode=mode, iterations=PAIRS, tolerance=1e-12)
        given = x.requires_grad_()
        return lambda: torch.autograd.grad(net(given), given, torch.ones_like(x))

    peak.tell_step(lambda: work(64), lambda: work(count), warm=0)


def memory(name: str, what: str, count: int, threads: int) -> int:
    return peak.in_process(__file__, "--memory", name, what, str(count), "--threads", str(threads))


def memories(threads: int) -> list[dict[str, Any]]:
    rows = []
    for name, (mode, counts) in MEMORY.items():
        found = [memory(name, "norm", count, threads) for count in counts]
        floor = [memory(name, "pass", count, threads) for count in counts]
        logs = np.log(np.array(counts, dtype=float)), np.log(np.array(found, dtype=float))
        for count, ours, reference in zip(counts, found, floor):
            rows.append(
                {
                    "row": f"memory, {name}, {mode}",
                    "inputs": count * WIDTH,
                    "ours_bytes": ours,
                    "bytes_an_input": ours / (count * WIDTH),
                    "reference_bytes": reference,
                    "slope": float(np.polyfit(*logs, 1)[0]),
                    "wanted": SLOPE,
                }
            )
            print(rows[-1], flush=True)
    return rows


def bounds(length: int = 1000) -> list[dict[str, Any]]:
    corrected = growth(length, form="corrected")
    lower = two_point(length, "two").value
    rows = []
    for form in ("corrected", "tight", "unmasked"):
        bound = growth(length, form=form)
        row: dict[str, Any] = {"row": f"bound at N = {length}, {form}", "ours": bound, "reference": corrected}
        row |= {
            "ratio": bound / corrected,
            "lower_bound": lower,
            "wanted": None if form == "corrected" else SHARE,
        }
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Norms of Jacobians: accuracy, time, memory; tightness of bounds"
    )
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--parts",
        nargs="*",
        default=["accuracy", "time", "memory", "bounds"],
        help="a part is printed, not written",
    )
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.memory:
        name, what, count = arguments.memory
        measure_memory(name, what, int(count))
        return
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "accuracy": lambda: accuracy((0.3, 1.0)),
        "time": lambda: [speed(arguments.pairs)],
        "memory": lambda: memories(arguments.threads),
        "bounds": bounds,
    }
    rows = [row for part in arguments.parts for row in parts[part]()]
    assert all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
    if arguments.parts == list(parts):
        sizes = {"tokens": TOKENS, "width": WIDTH, "heads": HEADS}
        report("lipschitz", rows, **sizes, pairs=arguments.pairs, pairs_of_products_for_memory=PAIRS)


if __name__ == "__main__":
    main()
