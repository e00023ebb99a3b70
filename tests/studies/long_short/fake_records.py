"""Record folders of ``long_short`` and ``robustness``, written through the record API, with numbers a test chooses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from relearn.measures.imagenet_mce import ALEXNET

from .. import fake_run

ATTENTIONS = (
    *("full", "window", "dynamic", "long_short", "long_short_best", "linformer", "linformer_window"),
    *("nystromformer", "performer", "reformer", "linear", "big_bird", "longformer", "sparse"),
    *("sinkhorn", "synthesizer"),
)
TASKS = ("listops", "text", "retrieval", "image", "pathfinder")
TEXTS = TASKS[:3]
PRINTED = {"full": (1.21, 4.57, 9.14), "long_short": (0.20, 0.40, 0.80), "reformer": (0.27, 0.58, 1.15)}
NETWORKS = (
    "CvT-13",
    "CvT-21",
    "CvT-LS-13",
    "CvT-LS-17",
    "CvT-LS-21",
    "ViL-Medium",
    "ViL-LS-Medium",
    "ResNet-50",
    "DeiT-S",
)
SAMPLES = 200
LAYER = {"dim": 512, "heads": 8, "ffn": 2048, "window": 512, "segment": 16, "rank": 1}  # of figure 5.5
COSTS = {"full": 2.0, "long_short": 1.0, "long_short_window_cache": 1.0, "long_short_no_cache": 1.0}
LAYERS = 12

Rows = Sequence[Mapping[str, Any]]


write_run = partial(fake_run.write_run, study="long_short")


def sequences(root: Path, task: str, mean: float) -> Path:
    return write_run(
        root,
        "prepare_lra",
        {"task": task},
        {"mean_length_count": mean, "samples_count": 100.0},
        {},
    )


def predictions(clean: float, insertion: float | None, deletion: float | None, count: int = SAMPLES) -> Rows:
    """The first samples are right, as many as the shares say; a share of None has no column value."""
    rows = []
    for sample in range(count):
        label = sample % 2
        row: dict[str, Any] = {"sample": sample, "label": label}
        for name, share in (("none", clean), ("insertion", insertion), ("deletion", deletion)):
            row[name] = None if share is None else label if sample < round(share * count) else 1 - label
        rows.append(row)
    return rows


def understand(
    root: Path,
    task: str,
    attention: str,
    accuracy: float | None,
    *,
    insertion: float | None = None,
    deletion: float | None = None,
    window: int = 8,
    rank: int = 32,
    **more: Any,
) -> Path:
    """A training on a task of Long Range Arena that ends with this accuracy; None: it has none."""
    shown = 0.1 if accuracy is None else accuracy
    metrics = {"acc_frac": accuracy, "dev_acc_frac": accuracy, "train_loss_nats": 1.0 - shown, "step_s": 0.05}
    metrics |= {"parameters_count": 2e5, "steps_count": 100.0, "data_share_frac": 0.01}
    if insertion is not None:
        metrics |= {"insertion_acc_frac": insertion, "deletion_acc_frac": deletion}
    files: dict[str, Rows] = {
        "history.csv": [{"step": 10, "loss": 1.0, "dev_accuracy_frac": shown, "lr": 1e-3}],
        "predictions.csv": predictions(shown, insertion, deletion),
    }
    settings = {"layers": 2, "arguments": {"window": window, "rank": rank}}
    labels = {"task": task, "attention": attention}
    return write_run(root, "train_lra", labels, metrics, files, settings=settings, **more)


def norms(ratio: float, value_ratio: float | None = None, layers: int = LAYERS) -> Rows:
    return [
        {
            "moment": moment,
            "layer": layer,
            "ratio": 1 + (ratio - 1) * (0.8 + 0.2 * layer / layers) if moment == "start" else 1.5,
            "value_ratio": ratio if value_ratio is None else value_ratio,
        }
        for moment in ("start", "end")
        for layer in range(1, layers + 1)
    ]


def predict(
    root: Path,
    dataset: str,
    variant: str,
    bits: float | None,
    *,
    ratio: float = 1.0,
    parameters: float = 1e6,
    files: Mapping[str, Rows] | None = None,
    **more: Any,
) -> Path:
    """A character model that ends with these bits per character on dev, a little more on test; None: it has none."""
    metrics: dict[str, float | None] = {
        "valid_bpc": bits,
        "test_bpc": None if bits is None else bits + 0.02,
        "train_bpc": None if bits is None else bits - 0.1,
        "parameters_count": parameters,
        "step_s": 0.2,
        "norm_ratio_start_max": ratio,
        "norm_ratio_start_min": ratio,
        "tokens_count": 1e5,
    }
    history = [
        {
            "phase": phase,
            "step": 100 * (4 * phase + at + 1),
            "length": 256 * 2**phase,
            "loss_bits": (bits or 3.0) + 2 / (4 * phase + at + 1),
            "valid_bits": (bits or 3.0) + 1 / (4 * phase + at + 1) if at % 2 else None,
            "lr": 2.5e-4,
        }
        for phase in range(3)
        for at in range(4)
    ]
    own = {"history.csv": history, "norms.csv": norms(ratio, 1 + 0.8 * (ratio - 1)), **(files or {})}
    labels = {"dataset": dataset, "variant": variant}
    return write_run(root, "train_long_char_lm", labels, metrics, own, **more)


def aligned(
    root: Path, dataset: str, variant: str, rows: Rows | None = None, parameters: float = 44.2e6
) -> Path:
    """The published model before training."""
    own = rows or norms(1.0 if variant == "dual_norm" else 1.2)
    labels, files = {"dataset": dataset, "variant": variant}, {"norms.csv": own}
    metrics = {"parameters_count": parameters}
    return write_run(root, "initial_norms", labels, metrics, files)


def curve(
    root: Path,
    *,
    slopes: Mapping[str, float | None] | None = None,
    lengths: Iterable[int] = (1024, 2048, 4096, 8192),
    batches: Iterable[int] = (1, 2, 4),
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Full attention's time with the square of the length, the rest with the length."""
    lengths = list(lengths)
    found: dict[str, float | None] = {"full_time_slope": 1.9, "long_short_time_slope": 1.05}
    found |= {"full_memory_slope": 1.1, "long_short_memory_slope": 0.98}
    for cache in ("window", "no"):
        found |= {f"long_short_{cache}_cache_{what}_slope": 1.0 for what in ("time", "memory")}
    found |= slopes or {}
    rows = [
        {
            "attention": attention,
            "length": length,
            "batch": batch,
            "step_s": 0.01 * batch * (length / 1024) ** power,
            "peak_memory_mb": 100 + 40 * batch * (length / 1024) ** (1.6 if attention == "full" else 1.0),
            "repeats": 7,
        }
        for attention, power in COSTS.items()
        for batch in batches
        for length in lengths
    ]
    metrics = {name: value for name, value in found.items() if value is not None}
    own = {"layers": 1, **(LAYER if settings is None else settings)}
    return write_run(
        root,
        "benchmark_attention",
        {"protocol": "curve"},
        metrics,
        {"cost.csv": rows},
        settings=own,
    )


def latency(root: Path, seconds: Callable[[str, str], float | None] = lambda attention, task: 0.2) -> Path:
    rows = [
        {
            "task": task,
            "attention": attention,
            "length": 2048,
            "batch": 8,
            "forward_s": seconds(attention, task),
            "train_s": None if seconds(attention, task) is None else 3 * (seconds(attention, task) or 0.0),
        }
        for task in TEXTS
        for attention in ATTENTIONS
    ]
    metrics = {
        f"{row['task']}_{row['attention']}_{mode}_s": row[f"{mode}_s"]
        for row in rows
        for mode in ("forward", "train")
        if row[f"{mode}_s"] is not None
    }
    return write_run(root, "benchmark_attention", {"protocol": "latency"}, metrics, {"latency.csv": rows})


def counted(
    model: str, place: Any, giga: float | None, printed: float | None, millions: float = 0.2
) -> dict[str, Any]:
    return {
        "model": model,
        "task_or_input": place,
        "parameters_count": round(1e6 * millions),
        "printed_parameters": None,
        "parameters_agree": None,
        "flops_count": None if giga is None else round(1e9 * giga),
        "printed_flops_giga": printed,
        "flops_agree": None if giga is None or printed is None else int(abs(giga / printed - 1) <= 0.1),
        "convention": "a multiply-add counts one",
    }


def count_lra(root: Path, changed: Mapping[tuple[str, str], float | None] | None = None) -> Path:
    """The three rows of PRINTED a little above what is printed, the other attentions without a printed number."""
    rows = []
    for attention in ATTENTIONS:
        for task, printed in zip(TEXTS, PRINTED.get(attention, (None, None, None))):
            giga = 0.5 if printed is None else 1.05 * printed
            giga = (changed or {}).get((attention, task), giga)
            if giga is not None:
                rows.append(counted(attention, task, giga, printed))
    metrics = {f"{row['model']}_{row['task_or_input']}_gflops": row["flops_count"] / 1e9 for row in rows}
    return write_run(root, "count_params_flops", {"family": "lra"}, metrics, {"counts.csv": rows})


def count_language(root: Path, small: float = 44.1e6, large: float = 110.3e6) -> Path:
    metrics = {"small_parameters_count": small, "large_parameters_count": large}
    rows = [counted("small", 2048, None, None, small / 1e6), counted("large", 2048, None, None, large / 1e6)]
    return write_run(root, "count_params_flops", {"family": "language"}, metrics, {"counts.csv": rows})


def count_vision(root: Path) -> Path:
    sized = [("CvT-13", 224), ("CvT-13", 384), ("CvT-21", 224), ("CvT-LS-13", 224), ("ResNet-101", 224)]
    rows = [counted(name, size, size / 50, None, 20.0 + at) for at, (name, size) in enumerate(sized)]
    return write_run(root, "count_params_flops", {"family": "vision"}, {}, {"counts.csv": rows})


def classify(root: Path, network: str, accuracy: float | None, **more: Any) -> Path:
    shown = 0.1 if accuracy is None else accuracy
    metrics = {"acc_frac": accuracy, "accbest_frac": shown, "train_loss_nats": 2.3 - shown, "epoch_s": 3.0}
    metrics |= {"parameters_count": 1.5e6, "steps_count": 120.0}
    files = {
        "history.csv": [{"epoch": 1.0, "step": 10, "loss": 2.0, "lr": 1e-3, "test_accuracy_frac": shown}]
    }
    return write_run(root, "train_vision", {"network": network}, metrics, files, **more)


def similarity(
    root: Path,
    network: str,
    deep: float,
    start: float = 0.7,
    layers: int = 13,
    patches: int = 64,
    window: int = 16,
    **more: Any,
) -> Path:
    """From 0.65 in the first layer to this similarity in the deeper half; alike before training."""
    rows = [
        {"moment": moment, "layer": layer, "cosine": 0.65 + (end - 0.65) * min(1.0, 2 * layer / layers)}
        for moment, end in (("start", start), ("end", deep))
        for layer in range(1, layers + 1)
    ]
    metrics = {"deep_cosine": deep, "start_deep_cosine": start, "last_patches_count": float(patches)}
    if "LS" in network:
        metrics["last_window_count"] = float(window)
    return write_run(
        root,
        "patch_similarity",
        {"network": network},
        metrics,
        {"similarity.csv": rows},
        **more,
    )


def throughput(root: Path, network: str, images: float) -> Path:
    metrics = {"images_per_s": images}
    return write_run(root, "throughput", {"network": network}, metrics, {})


def adapt(root: Path, variant: str, accuracy: float, **more: Any) -> Path:
    return write_run(root, "convert_roberta", {"variant": variant}, {"acc_frac": accuracy}, {}, **more)


def errors(base: float = 0.2) -> dict[str, float]:
    """Corruption → mean error, in no order."""
    return {name: base + 0.02 * ((7 * at) % 15) for at, name in enumerate(ALEXNET)}


def set_row(name: str, corruption: str | None, severity: int | None, share: float) -> dict[str, Any]:
    counts = {"samples_count": 1000, "correct_count": round(1000 * share), "accuracy_frac": share}
    named = {"set": name, "corruption": corruption, "severity": severity}
    return {**named, **counts, "protocol": f"images of {name}, mask none"}


def withstand(
    root: Path,
    network: str,
    accuracy: float,
    *,
    corrupted: Mapping[str, float] | None = None,
    imagenet: Mapping[str, float] | None = None,
    **more: Any,
) -> Path:
    """Clean, corrupted and attacked; ``imagenet`` are accuracies by set, of ``c`` the mCE."""
    corrupted = errors() if corrupted is None else corrupted
    rows = [set_row("test", None, None, accuracy)]
    rows += [
        set_row("corrupted", name, severity, 1 - error - shift)
        for name, error in corrupted.items()
        for severity, shift in ((1, -0.05), (3, 0.0), (5, 0.05))
    ]
    rows += [set_row(name, None, None, share) for name, share in (imagenet or {}).items() if name != "c"]
    rows += [
        set_row("c", name, severity, 1 - (imagenet or {})["c"] * reference)
        for name, reference in (ALEXNET.items() if "c" in (imagenet or {}) else ())
        for severity in range(1, 6)
    ]
    attack = {
        "attack": "pgd",
        "norm": "linf",
        "eps": 0.0314,
        "steps": 10,
        "restarts": 1,
        "samples_count": 200,
    }
    metrics = {"acc_frac": accuracy, "pgd_acc_frac": accuracy / 3, "parameters_count": 1.5e6}
    metrics |= {f"{name}_acc_frac": share for name, share in (imagenet or {}).items() if name != "c"}
    if corrupted:
        metrics["corruption_acc_frac"] = 1 - sum(corrupted.values()) / len(corrupted)
    if "c" in (imagenet or {}):
        metrics["mce_frac"] = (imagenet or {})["c"]
        more.setdefault(
            "notes", ["mce_frac: relative to AlexNet's published errors, 15 corruptions of set c"]
        )
    files = {"sets.csv": rows, "attacks.csv": [{**attack, "accuracy_frac": accuracy / 3}]}
    return write_run(
        root, "evaluate_robustness", {"network": network}, metrics, files, study="robustness", **more
    )


class Chapter:
    """The chapter as the paper has it; a test replaces the answers it cares about."""

    seeds: tuple[int, ...] = (0, 1, 2)
    datasets: tuple[str, ...] = ("enwik8", "warandpeace")
    tasks: tuple[str, ...] = TASKS
    attentions: tuple[str, ...] = ATTENTIONS
    networks: tuple[str, ...] = NETWORKS

    def accuracy(self, task: str, attention: str) -> tuple[float | None, str]:
        best = {"long_short": 0.70, "long_short_best": 0.72}
        return best.get(attention, 0.66 if attention == "full" else 0.64), "ok"

    def perturbed(self, task: str, attention: str) -> tuple[float | None, float | None]:
        """Falls under insertion and under deletion."""
        if task not in ("text", "retrieval"):
            return None, None
        return (0.04, 0.08) if attention in ("dynamic", "long_short", "long_short_best") else (0.10, 0.20)

    def bits(self, dataset: str, variant: str) -> tuple[float | None, str]:
        more = 0.0 if dataset == "enwik8" else 0.2
        return more + {"dual_norm": 0.97, "no_dual_norm": 1.05, "full": 1.0, "large": 0.95}[variant], "ok"

    def parameters(self, variant: str) -> float:
        return 110.2e6 if variant == "large" else 44.2e6

    def cosine(self, network: str) -> float:
        return 0.6 if "LS" in network else 0.8

    def write(self, root: Path, noise: Callable[[int], float] = lambda seed: 0.01 * seed) -> Path:
        for task, mean in zip(TEXTS, (888.0, 1296.0, 3987.0)):
            sequences(root, task, mean)
        curve(root)
        latency(root)
        count_lra(root)
        count_language(root)
        count_vision(root)
        for variant, accuracy in (("full", 0.90), ("long_short", 0.91)):
            adapt(root, variant, accuracy)
        throughput(root, "CvT-13", 400.0)
        for variant in ("dual_norm", "no_dual_norm"):
            aligned(root, self.datasets[0], variant)
        for seed in self.seeds:
            self._language(root, seed, noise(seed))
            for network in self.networks:
                classify(root, network, 0.6 + noise(seed), seed=seed)
                similarity(root, network, self.cosine(network) + noise(seed) / 10, seed=seed)
                withstand(root, network, 0.6 + noise(seed), seed=seed)
        return root

    def _language(self, root: Path, seed: int, noise: float) -> None:
        for task in self.tasks:
            for attention in self.attentions:
                accuracy, outcome = self.accuracy(task, attention)
                moved = accuracy if accuracy is None or outcome != "ok" else accuracy + noise
                falls = self.perturbed(task, attention)
                insertion, deletion = (None if f is None or moved is None else moved - f for f in falls)
                more = {"insertion": insertion, "deletion": deletion, "outcome": outcome, "seed": seed}
                understand(root, task, attention, moved, **more)
        for dataset in self.datasets:
            for variant in ("dual_norm", "no_dual_norm", "full", "large"):
                bits, outcome = self.bits(dataset, variant)
                ratio = (1.1 if dataset == "enwik8" else 1.2) if variant == "no_dual_norm" else 1.0
                predict(
                    root,
                    dataset,
                    variant,
                    bits if bits is None else bits + noise,
                    ratio=ratio,
                    parameters=self.parameters(variant),
                    outcome=outcome,
                    seed=seed,
                )
