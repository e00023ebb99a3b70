"""Record folders of `train_vision` and ``throughput``, written through the record API, with numbers a test chooses."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..studies import fake_run

CHANCE = 0.1
EPOCHS = 12
STAGES = 4
ABLATION = (
    *("base", "warmup", "layer_norm", "no_norm", "truncated", "xavier", "dot_product", "l2"),
    *("alpha_0.1", "alpha_0.3", "alpha_0.4", "conv_a", "conv_b", "conv_c", "drop_0.0", "drop_0.1"),
)
RESIDUAL = (
    *("pre_norm", "post_norm", "layer_scale_1e-1", "layer_scale_1e-4", "layer_scale_1e-5", "layer_scale_1e-6"),
    *("rezero", "rezero_epsilon", "skip_init", "fixup", "fixup_norm", "t_fixup", "t_fixup_norm"),
    *("rezero_deit", "xavier_layer_scale"),
)  # fmt: skip
STEPS = 62_500.0  # of table 3
WIDE = {"network": {"embed_dim": 64, "depths": [1, 2, 21, 1]}}  # LipsFormer-CSwin-T as published
PAIRS = {"Swin-T": 0.60, "Swin-S": 0.62, "LipsFormer-Swin-T": 0.66, "LipsFormer-Swin-S": 0.68}
PAIRS |= {"LipsFormer-Swin-B": 0.70, "CSwin-T": 0.64, "LipsFormer-CSwin-T": 0.69}


write_run = fake_run.write_run


def history(accuracy: float, outcome: str, epochs: int = EPOCHS) -> list[dict[str, Any]]:
    """Towards the accuracy; what diverges has three rows, the last without an accuracy."""
    rows = []
    for epoch in range(1, (3 if outcome == "diverged" else epochs) + 1):
        share = 1 - math.exp(-epoch / 4)
        lost = outcome == "diverged" and epoch == 3
        loss = 2.3 if outcome == "not_converged" else 2.3 - 1.7 * accuracy * share
        rows.append(
            {
                "epoch": float(epoch),
                "step": 10 * epoch,
                "loss": 31.0 if lost else loss,
                "lr": 1e-3,
                "test_accuracy_frac": None if lost else CHANCE + (accuracy - CHANCE) * share,
            }
        )
    return rows


def alphas(stages: Iterable[int] = range(STAGES), epochs: int = EPOCHS) -> list[dict[str, Any]]:
    """Grow, then stay."""
    return [
        {
            "epoch": epoch,
            "stage": stage,
            "alpha_mean": 0.08 + 0.05 * (1 + stage) * (1 - math.exp(-epoch / 3)),
            "alpha_std": 0.004 * epoch / epochs * (1 + stage),
        }
        for epoch in range(1, epochs + 1)
        for stage in stages
    ]


def layers(variant: str, depth: int) -> list[dict[str, Any]]:
    """Without LayerScale the ratio falls with depth, with it it is small and even."""
    small = float(variant.partition("layer_scale_")[2] or 0.0)
    rows = []
    for moment in ("start", "end"):
        for layer in range(depth):
            for branch, size in (("attention", 0.5), ("mlp", 1.0)):
                steep = size / math.sqrt(1 + layer)
                even = size * (0.2 + 0.02 * math.sin(layer)) if moment == "end" else size * small
                rows.append(
                    {
                        "moment": moment,
                        "layer": layer,
                        "branch": branch,
                        "ratio": even if small else steep,
                        "weight_mean": small or None,
                        "weight_std": None,
                    }
                )
    return rows


def classify(root: Path, study: str, labels: Mapping[str, str], accuracy: float | None, **more: Any) -> Path:
    """A training that ends with this accuracy; None: it has none."""
    outcome = more.pop("outcome", "ok")
    shown = CHANCE if accuracy is None else accuracy
    metrics: dict[str, float | None] = {
        "acc_frac": accuracy,
        "accbest_frac": shown,
        "train_loss_nats": 2.3 - shown,
    }
    metrics |= {"ema_acc_frac": accuracy, "epoch_s": 2.0, "steps_count": STEPS, "rates_count": 3.0}
    metrics |= more.pop("metrics", {})
    rows = more.pop("rows", None)
    files = {"history.csv": history(shown, outcome) if rows is None else rows, **more.pop("files", {})}
    place = "/".join(f"depth{value}" if key == "depth" else value for key, value in labels.items())
    return write_run(
        root, "train_vision", labels, metrics, files, study=study, place=place, outcome=outcome, **more
    )


def ablation(root: Path, variant: str, accuracy: float | None, **more: Any) -> Path:
    labels = {"suite": "ablation", "variant": variant}
    return classify(root, "lipsformer", labels, accuracy, **{"settings": WIDE, **more})


def pair(root: Path, network: str, accuracy: float | None, **more: Any) -> Path:
    if network.startswith("LipsFormer"):
        more.setdefault("files", {"alphas.csv": alphas()})
    return classify(root, "lipsformer", {"suite": "pairs", "variant": network}, accuracy, **more)


def deep(root: Path, variant: str, depth: int, accuracy: float | None, **more: Any) -> Path:
    suite, cv = more.pop("suite", "residual"), more.pop("cv", 1.0)
    labels = {"suite": suite, "variant": variant, "depth": str(depth), **more.pop("labels", {})}
    more.setdefault("files", {"layers.csv": layers(variant, depth)})
    metrics = {"branch_cv_ratio": cv, "branch_cv_start_ratio": 1.2 * cv, **more.pop("metrics", {})}
    return classify(root, "layer_scale", labels, accuracy, metrics=metrics, **more)


def throughput(root: Path, network: str, images: float, memory: float) -> Path:
    metrics = {"images_per_s": images, "train_images_per_s": images / 3, "peak_memory_mb": memory}
    metrics |= {
        "train_peak_memory_mb": 4 * memory,
        "images_per_s_ratio": 0.9,
        "train_images_per_s_ratio": 0.8,
    }
    metrics |= {"peak_memory_mb_ratio": 1.1, "train_peak_memory_mb_ratio": 1.2}
    rows = [{"network": network, "phase": "inference", "pair": 0, "images_per_s": images}]
    files = {"throughput.csv": rows}
    return write_run(root, "throughput", {"network": network}, metrics, files, study="lipsformer")


class Study:
    """Both studies as the papers have it; a test replaces the answers it cares about."""

    seeds: tuple[int, ...] = (0, 1, 2)
    depths: tuple[int, ...] = (12, 18, 24, 36)

    def ablation(self, variant: str) -> tuple[float | None, str]:
        lost = {"layer_norm": (CHANCE, "not_converged"), "dot_product": (None, "diverged")}
        lost["alpha_0.4"] = (None, "diverged")
        return lost.get(variant, (0.70 if variant == "base" else 0.66, "ok"))

    def residual(self, variant: str, depth: int) -> tuple[float | None, str]:
        if variant in ("post_norm", "fixup", "t_fixup"):
            return (CHANCE, "not_converged") if variant != "t_fixup" else (None, "diverged")
        if variant == "rezero" and depth > 18:
            return CHANCE, "not_converged"
        first, slope = {
            "pre_norm": (0.60, -0.003),
            "rezero": (0.58, -0.002),
            "rezero_epsilon": (0.60, -0.002),
            "rezero_deit": (0.59, -0.001),
            "skip_init": (0.57, -0.004),
            "fixup_norm": (0.62, -0.004),
            "t_fixup_norm": (0.63, -0.005),
        }.get(variant, (0.60, 0.002))
        return first + slope * (depth - 12), "ok"

    def uniform(self, variant: str) -> float:
        return 0.3 if variant.startswith("layer_scale") else 0.9

    def write(self, root: Path, noise: Callable[[int], float] = lambda seed: 0.01 * seed) -> Path:
        for seed in self.seeds:
            for variant in ABLATION:
                accuracy, outcome = self.ablation(variant)
                ablation(root, variant, _moved(accuracy, noise(seed)), outcome=outcome, seed=seed)
            for network, accuracy in PAIRS.items():
                pair(root, network, accuracy + noise(seed), seed=seed)
            for depth in self.depths:
                for variant in RESIDUAL:
                    accuracy, outcome = self.residual(variant, depth)
                    cv = self.uniform(variant) * (1 + 0.1 * seed)
                    moved = _moved(accuracy, noise(seed))
                    deep(root, variant, depth, moved, outcome=outcome, seed=seed, cv=cv)
            for suite, better, worse in (
                ("drop_path", "uniform", "linear"),
                ("class_token", "class_attention", "from_start"),
            ):
                deep(root, better, 24, 0.62 + noise(seed), suite=suite, seed=seed)
                deep(root, worse, 24, 0.60 + noise(seed), suite=suite, seed=seed)
        for network, images, memory in (
            ("LipsFormer-Swin-T", 900.0, 5000.0),
            ("LipsFormer-Swin-B", 400.0, 7000.0),
        ):
            throughput(root, network, images, memory)
        return root


def _moved(accuracy: float | None, noise: float) -> float | None:
    return accuracy if accuracy is None or accuracy <= CHANCE else accuracy + noise
