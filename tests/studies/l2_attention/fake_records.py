"""Record folders of Lipschitz self-attention, written through the record API, with numbers a test chooses."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import fake_run

LENGTHS = (100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
CS = (0.5, 0.7, 0.9)
SHALLOW, DEEP = (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6, 8, 10, 12, 14)
FIXED = (2, 4, 6, 8, 10, 12, 14, 16, 18)
WARMUP, CONSTANT = "warmup_g1_w40_d0", "fixed_lr0.001_d0"
UNIGRAM, BIGRAM = 2.9, 2.4
#: best test NLL of depth 1 and how much a layer brings, until it saturates
LEVELS = {
    "lstm": (1.05, 0.02, 3),
    "dp": (1.16, 0.06, 5),
    "l2": (1.15, 0.0575, 5),
    "l2_tied": (1.24, 0.06, 5),
    "l2_matched": (1.235, 0.06, 5),
    "contractive": (1.56, 0.04, 14),
}


write_run = partial(fake_run.write_run, study="l2_attention")


def upper(length: int) -> float:
    """The bound of theorem 3.2 at weights 1, H = D = 1, by bisection of c e^(c + 1) = N - 1."""
    low, high = 0.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.exp(middle + 1) < length - 1 else (low, middle)
    return 4 * low + 1


def ascend(
    root: Path,
    suite: str,
    length: int,
    values: Sequence[float],
    metrics: Mapping[str, Any] | None = None,
    **more: Any,
) -> Path:
    """Ascents from as many starts as ``values``, the best first; ``curves`` are (step, value) of the best ones."""
    attention, weights = more.pop("attention", "l2_tied"), more.pop("weights", "identity")
    p, dim, heads = more.pop("p", "inf"), more.pop("dim", 1), more.pop("heads", 1)
    labels = {"suite": suite, "attention": attention, "weights": weights, "p": p, "length": str(length)}
    settings = {
        "attention": attention,
        "p": p,
        "length": length,
        "dim": dim,
        "heads": heads,
        "weights": weights,
    }
    settings |= {"starts": len(values), "steps": 100, "lr": 0.1, "spread": 10.0, "top": 5}
    bound = (metrics or {}).get("bound")
    rows = [
        {"rank": rank, "start": 7 * rank % len(values), "value": value, "first_value": value / 3, "steps": 100,
         "above_bound": int(bound is not None and value > bound)}
        for rank, value in enumerate(values, 1)
    ]  # fmt: skip
    curves = more.pop("curves", None) or [
        [(0, value / 3), (50, value * 0.9), (100, value)] for value in values[:5]
    ]
    curve = [
        {"step": step, "rank": rank, "value": value}
        for rank, points in enumerate(curves, 1)
        for step, value in points
    ]
    found = {"largest": values[0], "top_mean": sum(values[:5]) / len(values[:5]), "starts_count": len(values)}
    files = {"ascents.csv": rows, "curve.csv": curve}
    return write_run(
        root,
        "lipschitz_lower_bound",
        labels,
        {**found, **(metrics or {})},
        settings=settings,
        files=files,
        **more,
    )


def invert(
    root: Path, suite: str, attention: str, errors: Mapping[float, Sequence[float | None]], **more: Any
) -> Path:
    """Inversions with the largest error after each iteration, by c; ``ranges``: (spread, c, largest error)."""
    length, dim = more.pop("length", 64), more.pop("dim", 64)
    weights, heads, batch = more.pop("weights", "random"), more.pop("heads", 8), more.pop("batch", 128)
    labels = {
        "suite": suite,
        "attention": attention,
        "weights": weights,
        "length": str(length),
        "dim": str(dim),
    }
    settings = {"attention": attention, "weights": weights, "length": length, "dim": dim, "heads": heads}
    settings |= {"batch": batch, "c": list(errors), "iterations": max(map(len, errors.values())) - 1}
    rows = [
        {"c": c, "iteration": at, "error_max": error, "error_median": error, "residual_max": error}
        for c, history in errors.items()
        for at, error in enumerate(history)
    ]
    files = {"errors.csv": rows}
    if ranges := more.pop("ranges", ()):
        files["ranges.csv"] = [dict(zip(("spread", "c", "error_max"), one)) for one in ranges]
    return write_run(root, "invert_residual", labels, {}, settings=settings, files=files, **more)


def cases(root: Path, protocol: str, holds: Sequence[int], **more: Any) -> Path:
    """Cases of `check_theorems` that hold (1) or not (0)."""
    spreads = more.pop("spreads", (1.0, 1000.0))
    rows = [
        {"case": at, "spread": spreads[at % len(spreads)], "norm": 10.0**at, "holds": one}
        for at, one in enumerate(holds)
    ]
    metrics = {"cases_count": len(rows), "holds_count": sum(holds)}
    if "printed_fails" in more:
        metrics["printed_fails_count"] = more.pop("printed_fails")
    labels = {"protocol": protocol}
    settings = {"protocol": protocol}
    return write_run(
        root, "check_theorems", labels, metrics, settings=settings, files={"cases.csv": rows}, **more
    )


def outputs(root: Path, attention: str, spread: float, weights: str = "trained", **more: Any) -> Path:
    """Histograms of inputs in [-1, 1] and of outputs with the given standard deviation."""
    rows = [
        {"side": "input", "low": -1 + 0.1 * at, "high": -0.9 + 0.1 * at, "count": 64 if 0 < at < 19 else 60}
        for at in range(20)
    ]
    width = spread / 4
    for at in range(-16, 16):
        count = round(1000 * math.exp(-((at + 0.5) ** 2) / 32))
        rows.append({"side": "output", "low": at * width, "high": (at + 1) * width, "count": count})
    labels = {"attention": attention, "weights": weights}
    metrics = {"input_std": 0.577, "output_std": spread}
    return write_run(root, "attention_outputs", labels, metrics, files={"histogram.csv": rows}, **more)


def clock(root: Path, attention: str, ratio: float, layers: Sequence[int] = SHALLOW, **more: Any) -> Path:
    """Seconds of an epoch by layers, and the ratio to dot product."""
    settings = {
        "layers": list(layers),
        "dim": 512,
        "heads": 8,
        "ffn": 2048,
        "batch_size": 64,
        "max_length": 288,
    }
    settings |= more.pop("settings", {})
    metrics = {}
    for n in layers:
        seconds = 20.0 * (1 + n) * ratio
        metrics |= {
            f"layers{n}_epoch_s": seconds,
            f"layers{n}_step_s": seconds / 600,
            f"layers{n}_dp_ratio": ratio,
        }
    rows = [{"layers": n, "pair": pair, "own_s": ratio, "dp_s": 1.0} for n in layers for pair in range(3)]
    files = {"times.csv": rows}
    return write_run(
        root, "time_training_step", {"attention": attention}, metrics, settings=settings, files=files, **more
    )


def characters(root: Path, unigram: float = UNIGRAM, bigram: float = BIGRAM, dataset: str = "ptb") -> Path:
    metrics = {"train_sentences_count": 42068, "train_characters_count": 5e6, "vocabulary_count": 50}
    metrics |= {"unigram_nats": unigram, "bigram_nats": bigram, "longest_count": 288, "left_out_frac": 0.01}
    return write_run(root, "prepare_ptb_lines", {"dataset": dataset}, metrics)


def history(best: float, steps: Sequence[int] = (0, 100, 200, 300, 400)) -> list[dict[str, Any]]:
    """Losses that fall towards ``best``; between two evaluations a row without them."""
    rows: list[dict[str, Any]] = []
    for step in steps:
        nll = best + (3.2 - best) * math.exp(-step / 80)
        lacking = {"valid_nll_nats": None, "test_nll_nats": None, "train_nll_nats": None}
        rows.append({"epoch": step / 200, "step": step, "loss": nll, "lr": 1e-3,
                     "valid_nll_nats": nll + 0.01, "test_nll_nats": nll, "train_nll_nats": nll - 0.03})  # fmt: skip
        rows.append({"epoch": step / 200, "step": step + 1, "loss": nll, "lr": 1e-3, **lacking})
    return rows


def language(root: Path, attention: str, layers: int, best: float | None, **more: Any) -> Path:
    """A language model with its best test NLL; ``valid`` chooses between recipes and follows it by default.

    ``without`` is the test NLL without attention.
    """
    without = more.pop("without", None)
    recipe, valid = more.pop("recipe", WARMUP), more.pop("valid", best)
    labels = {"attention": attention, "layers": str(layers), "recipe": recipe}
    metrics: dict[str, float | None] = {
        "test_nll_best_nats": best,
        "valid_nll_best_nats": valid,
        "steps_count": 400,
    }
    if best is not None:
        metrics |= {
            "test_nll_nats": best + 0.005,
            "test_bpc_best": best / math.log(2),
            "train_nll_nats": best - 0.05,
        }
    if without is not None:
        metrics["test_nll_without_attention_nats"] = without
    files = {"history.csv": more.pop("rows", None) or history(9.0 if best is None else best)}
    return write_run(root, "train_char_lm", labels, metrics, files=files, **more)


class Study:
    """What each run of the study gives; a test replaces the answers it cares about."""

    seeds: tuple[int, ...] = (0, 1, 2)
    lengths: tuple[int, ...] = LENGTHS
    starts = 50
    sizes: tuple[tuple[int, int], ...] = ((16, 16), (16, 64), (64, 16), (64, 64))

    def lower(self, length: int, rank: int) -> float:
        """Lower bounds below the bound of theorem 3.2, growing at almost its rate."""
        return (upper(length) - 1.2 - 0.02 * math.log(length)) * (1 - 0.004 * (rank - 1))

    def nll(self, attention: str, layers: int, recipe: str, seed: int) -> float | None:
        """None: diverged."""
        first, gain, last = LEVELS[attention]
        if recipe == CONSTANT:
            if attention == "dp" and layers > 10:
                return None
            return 1.2 - 0.01 * min(layers, 10) + 0.001 * seed + (0.1 if attention == "contractive" else 0.0)
        return first - gain * (min(layers, last) - 1) + 0.001 * seed

    def write(self, root: Path) -> Path:
        self._theory(root)
        characters(root)
        for seed in self.seeds:
            for attention in LEVELS:
                depths = {"contractive": DEEP, "lstm": (1, 2)}.get(attention, SHALLOW)
                for layers in depths:
                    self._language(root, attention, layers, WARMUP, seed)
            for attention in ("dp", "l2_tied", "contractive"):
                for layers in FIXED:
                    self._language(root, attention, layers, CONSTANT, seed)
        for attention, ratio in (("dp", 1.0), ("l2", 1.02), ("l2_tied", 1.04), ("contractive", 1.12)):
            clock(root, attention, ratio)
        return root

    def _language(self, root: Path, attention: str, layers: int, recipe: str, seed: int) -> None:
        best = self.nll(attention, layers, recipe, seed)
        lost = "diverged" if best is None else "ok"
        language(root, attention, layers, best, recipe=recipe, seed=seed, outcome=lost)

    def _theory(self, root: Path) -> None:
        for length in self.lengths:
            values = [self.lower(length, rank) for rank in range(1, self.starts + 1)]
            structured = upper(length) - 1.5
            ascend(root, "fig2", length, values, {"bound": upper(length), "structured": structured})
            two = {"bound": 0.14 * self.two(length), "bound_tight": 0.19 * self.two(length)}
            two |= {"bound_printed": self.two(length), "bound_corrected": self.two(length)}
            ascend(root, "fig7", length, [v / 3 for v in values], two, p="two")
        growing = [
            [(s, 3.0 * 1.05**s / rank * (1 + 0.2 * math.sin(s / 3))) for s in range(0, 101, 2)]
            for rank in (1, 2, 3, 4, 5)
        ]
        values = [points[-1][1] for points in growing]
        wide = {"dim": 512, "heads": 8, "curves": growing}
        ascend(root, "fig8", 64, values, {"growth": 100.0}, attention="dp", weights="trained", **wide)
        ascend(root, "fig8", 64, [3.0, 2.5], {"bound": 9.0}, attention="l2_tied", weights="trained")
        falling = {c: [c ** (3 * k) for k in range(31)] for c in CS}
        stuck = {c: [1.0 + c * math.cos(k) ** 2 for k in range(31)] for c in CS}
        invert(root, "fig3", "l2_tied", falling)
        invert(root, "fig3", "dp", stuck)
        invert(root, "fig3", "contractive", {c: [10.0 ** (-6 * k) for k in range(31)] for c in CS})
        invert(root, "fig5", "dp", stuck, weights="trained")
        for length, dim in self.sizes:
            invert(root, "fig6", "l2_tied", falling, length=length, dim=dim)
            invert(root, "fig6", "dp", stuck, length=length, dim=dim)
        cases(root, "theorem_3_1", [1] * 8)
        cases(root, "lemma_f_1", [1] * 6)
        outputs(root, "l2_tied", 0.4)
        outputs(root, "dp", 4.0)

    @staticmethod
    def two(length: int) -> float:
        """The corrected bound at p = 2, weights 1."""
        return math.sqrt(length) * upper(length)
