"""Record folders of ye2023's trained part, written through the record API, with numbers a test chooses."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import fake_run

VARIANTS = ("dot_dense", "dot_gp", "lrsa_dense", "lrsa_gp")
SETS = ("cifar100", "corrupted", "gaussian_noise", "natural_patches")
DISTANCES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
BINS = 10


def write_run(
    root: Path,
    step: str,
    variant: str,
    metrics: Mapping[str, float],
    files: Any,
    *,
    depth: int = 12,
    **more: Any,
) -> Path:
    """One record below ``root/runs/lrformer/<step>/<variant>/depth<depth>/seed<seed>``."""
    labels = {"variant": variant, "depth": str(depth)}
    place = f"{variant}/depth{depth}"
    return fake_run.write_run(root, step, labels, metrics, files, study="lrformer", place=place, **more)


def classify(root: Path, variant: str, accuracy: float = 0.8, **more: Any) -> Path:
    metrics = {"acc_frac": accuracy, "accbest_frac": accuracy, "train_loss_nats": 0.5}
    rows = [{"epoch": 1.0, "step": 3, "loss": 0.5, "lr": 0.1, "test_accuracy_frac": accuracy}]
    return write_run(root, "train_vision", variant, metrics, {"history.csv": rows}, **more)


def detection(aurocs: Mapping[str, float], gp: bool, by_variance: float = 0.05) -> list[dict[str, Any]]:
    """Every set by entropy, a little worse by the greatest probability, and for a GP better by variance."""
    rows = []
    for name, value in aurocs.items():
        scores = {"max_softmax": value - 0.02, "entropy": value}
        scores |= {"gp_variance": value + by_variance} if gp else {}
        for score, auroc in scores.items():
            rows.append({"set": name, "score": score, "auroc_frac": auroc, "aupr_frac": auroc - 0.03,
                         "fpr95_frac": 1 - auroc, "samples": 200})  # fmt: skip
    return rows


def distance(features: Sequence[float], pixels: Sequence[float], gp: bool) -> list[dict[str, Any]]:
    """Entropies in nats at ``DISTANCES``, of ten classes."""
    return [
        {
            "space": space,
            "distance": at,
            "entropy_nats": nats,
            "entropy_max_share": nats / math.log(10),
            "variance": 1 - math.exp(-0.3 - at / 4) if gp else None,
        }
        for space, path in (("pixels", pixels), ("features", features))
        for at, nats in zip(DISTANCES, path)
    ]


def histogram(sets: Sequence[str], shift: float, seed: int) -> list[dict[str, Any]]:
    """Test images sure, foreign ones each a little less so."""
    rng = np.random.default_rng(seed)
    rows = []
    for place, name in enumerate(("test", *sets)):
        values = math.log(10) * rng.beta(0.6 + shift * place, 4.0 - 0.5 * place, 500)
        counts, edges = np.histogram(values, bins=30, range=(0, math.log(10)))
        rows += [
            {"set": name, "low": float(low), "high": float(high), "count": int(count)}
            for low, high, count in zip(edges[:-1], edges[1:], counts)
        ]
    return rows


def calibration(gap: float) -> list[dict[str, Any]]:
    """Confidence above accuracy by ``gap``; the first bins hold nothing."""
    return [
        {"bin": at, "samples": 0, "confidence": None, "accuracy": None}
        if at < 3
        else {
            "bin": at,
            "samples": 4 + (at - 3) ** 3,
            "confidence": (at + 0.5) / BINS,
            "accuracy": max(0.0, (at + 0.5) / BINS - gap * math.sin(math.pi * at / BINS)),
        }
        for at in range(BINS)
    ]


def uncertainty(root: Path, variant: str, **more: Any) -> Path:
    """What a variant makes of foreign images and of distance."""
    gp = "gp" in variant
    aurocs = more.pop("aurocs", None) or {
        name: (0.70 if gp else 0.66) + 0.05 * place + 0.002 * more.get("seed", 0)
        for place, name in enumerate(SETS)
    }
    up = [0.4 + 0.1 * at for at in range(len(DISTANCES))]
    down = [0.4 * 0.5**at for at in range(len(DISTANCES))]
    features = more.pop("features", up if gp else down)
    pixels = more.pop("pixels", [0.4, 0.7, 1.1, 1.3, 1.2, 1.0])
    gap = more.pop("gap", 0.05 if gp else 0.2)
    mean = sum(aurocs.values()) / len(aurocs)
    metrics = {"acc_frac": 0.8, "ece_frac": gap / 2, "nll_nats": 0.6 + gap, "brier": 0.3 + gap}
    metrics |= {"auroc_frac": mean, "aupr_frac": mean - 0.03, "fpr95_frac": 1 - mean, "test_count": 200.0}
    metrics |= {
        f"{name}_{measure}": value
        for name, auroc in aurocs.items()
        for measure, value in (("auroc_frac", auroc), ("aupr_frac", auroc - 0.03), ("fpr95_frac", 1 - auroc))
    }
    metrics |= {
        "entropy_rise_nats": pixels[-1] - pixels[0],
        "feature_entropy_rise_nats": features[-1] - features[0],
    }
    by_variance = more.pop("by_variance", 0.05)
    if gp:
        metrics |= {f"{name}_variance_auroc_frac": auroc + by_variance for name, auroc in aurocs.items()}
        metrics["variance_auroc_frac"] = mean + by_variance
    files = {
        "calibration.csv": calibration(gap),
        "ood.csv": detection(aurocs, gp, by_variance),
        "distance.csv": distance(features, pixels, gp),
        "scores.csv": histogram(tuple(aurocs), 0.9 if gp else 0.5, more.get("seed", 0)),
    }
    return write_run(root, "evaluate_uncertainty", variant, metrics, files, **more)


class Study:
    """All variants and depths; the GP heads are better at everything."""

    seeds: tuple[int, ...] = (0, 1, 2)
    depths: tuple[int, ...] = (6, 12)

    def write(self, root: Path) -> Path:
        for depth in self.depths:
            for seed in self.seeds:
                for variant in VARIANTS:
                    classify(root, variant, depth=depth, seed=seed)
                    gp, lrsa = variant.endswith("gp"), variant.startswith("lrsa")
                    steps = range(len(DISTANCES))
                    wave = [0.02 * seed * math.sin(at) for at in steps]
                    slope = 0.08 + 0.005 * depth + 0.03 * lrsa
                    up = [0.4 + slope * at + wave[at] for at in steps]
                    down = [(0.4 - 0.1 * lrsa) * 0.5**at + abs(wave[at]) for at in steps]
                    bend = [0.4 + 0.3 * gp + 0.25 * lrsa + 0.2 * at * (1 - at / 8) + wave[at] for at in steps]
                    gap = (0.05 if gp else 0.2) * (0.7 if lrsa else 1.0)
                    paths = {"features": up if gp else down, "pixels": bend}
                    uncertainty(root, variant, depth=depth, seed=seed, gap=gap, **paths)
        return root
