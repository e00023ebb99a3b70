"""Record folders of ``freelb``, written through the record API, with numbers a test chooses."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .. import fake_run

write_run = partial(fake_run.write_run, study="freelb")
METHODS = (
    *("vanilla", "pgd", "free_at", "freelb", "freelb_fresh"),
    *("yopo_2", "yopo_3", "yopo_2_whole", "yopo_3_whole"),
)
IMAGES = METHODS[:4]
GLUE = ("rte", "cola", "mrpc", "sst2", "stsb", "qnli", "qqp", "mnli", "wnli")
OWN = ("acceptability", "imdb")
TESTED = ("mrpc", "stsb")  # whose test parts have labels


def finetune(
    root: Path,
    task: str,
    method: str,
    score: float | None,
    *,
    encoder: str = "roberta",
    majority: float = 0.5,
    **more: Any,
) -> Path:
    """A fine-tuning that ends with this dev score; None: it has none."""
    shown = majority if score is None else score
    metrics: dict[str, float | None] = {
        "score_frac": score,
        "last_score_frac": score,
        "majority_frac": majority,
        "train_loss_nats": 1.0 - shown,
        "parameters_count": 2e5,
        "passes_count": 60.0 if method == "vanilla" else 180.0,
        "step_s": 0.1 if method in ("vanilla", "free_at") else 0.27,
        "skipped_count": 0.0,
    }
    if task in TESTED or task in OWN:
        names = (
            ("test_pearson", "test_spearman") if task == "stsb" else ("test_accuracy_frac", "test_f1_frac")
        )
        metrics |= {names[0]: shown - 0.02, names[1]: shown - 0.01}
    labels = {"encoder": encoder, "task": task, "method": method}
    return write_run(root, step="finetune", labels=labels, metrics=metrics, files={}, **more)


def merge_scores(root: Path, task: str, method: str, score: float, **more: Any) -> Path:
    labels = {"encoder": "roberta", "task": task, "method": method}
    metrics = {"dev_accuracy_frac": score, "test_accuracy_frac": score - 0.01}
    return write_run(root, step="merge_scores", labels=labels, metrics=metrics, files={}, **more)


def ensemble(root: Path, method: str, score: float, **more: Any) -> Path:
    names = (
        "csqa_test_accuracy_frac",
        "mrpc_test_accuracy_frac",
        "mrpc_test_f1_frac",
        "stsb_test_pearson",
        "stsb_test_spearman",
    )
    metrics = dict.fromkeys(names, score) | {"rte_dev_score_frac": score, "members_count": 3.0}
    labels = {"encoder": "roberta", "method": method}
    return write_run(root, step="ensemble", labels=labels, metrics=metrics, files={}, **more)


def max_loss_increase(
    root: Path, task: str, increases: Mapping[str, float], *, favoured: float = 0.9, **more: Any
) -> Path:
    """``increases`` of a method with the balls of ``pgd``; with those of ``freelb`` a little less."""
    metrics = {f"increase_{name}_pgd_nats": value for name, value in increases.items()}
    metrics |= {f"increase_{name}_freelb_nats": favoured * value for name, value in increases.items()}
    metrics |= {f"loss_{name}_nats": 10 * value for name, value in increases.items()}
    metrics |= {"samples_count": 50.0, "dropped_count": 3.0}
    labels = {"encoder": "roberta", "task": task}
    return write_run(root, step="max_loss_increase", labels=labels, metrics=metrics, files={}, **more)


def train_images_adversarially(
    root: Path, method: str, clean: float | None, robust: float | None, **more: Any
) -> Path:
    metrics = {"acc_frac": clean, "robust_acc_frac": robust, "train_loss_nats": 0.3, "step_s": 0.2}
    metrics |= {"passes_count": 100.0 if method == "vanilla" else 400.0, "robust_images_count": 200.0}
    return write_run(
        root, step="train_images_adversarially", labels={"method": method}, metrics=metrics, files={}, **more
    )


def pretrain_encoder(root: Path, encoder: str, loss: float, **more: Any) -> Path:
    metrics = {"mlm_loss_start_nats": 6.9, "mlm_loss_nats": loss, "parameters_count": 2e5, "step_s": 0.1}
    return write_run(
        root, step="pretrain_encoder", labels={"encoder": encoder}, metrics=metrics, files={}, **more
    )


def gradient(root: Path, differences: Mapping[str, float | None] | None = None) -> Path:
    """Cases of the identity, by name; None: the difference is no number."""
    found = {"roberta": 1e-15, "albert": 3e-14, "pixels": 0.0} if differences is None else differences
    rows = [{"case": name, "passes": 3, "difference": gap} for name, gap in found.items()]
    metrics = {"largest_difference": max((gap for gap in found.values() if gap is not None), default=None)}
    return write_run(root, step="check_gradient", labels={}, metrics=metrics, files={"gradients.csv": rows})


class Chapter:
    """The chapter as the paper has it; a test replaces the answers it cares about."""

    seeds: tuple[int, ...] = (0, 1, 2)
    tasks: tuple[str, ...] = ("rte", "cola", "mrpc")
    methods: tuple[str, ...] = METHODS
    encoders: tuple[str, ...] = ("roberta",)

    def score(self, task: str, method: str) -> tuple[float | None, str]:
        found = {"vanilla": 0.80, "pgd": 0.82, "free_at": 0.81, "freelb": 0.86}
        return found.get(method, 0.84), "ok"

    def increases(self, task: str) -> Mapping[str, float]:
        return {"vanilla": 5e-4, "pgd": 4e-4, "freelb": 2e-4}

    def write(self, root: Path, noise: Callable[[int], float] = lambda seed: 0.01 * seed) -> Path:
        gradient(root)
        for encoder in self.encoders:
            pretrain_encoder(root, encoder, 4.0)
        for seed in self.seeds:
            self._texts(root, seed, noise(seed))
            for method in IMAGES:
                clean = 0.95 if method == "vanilla" else 0.9
                robust = 0.1 if method == "vanilla" else 0.6
                train_images_adversarially(root, method, clean + noise(seed), robust + noise(seed), seed=seed)
        for method in ("vanilla", "freelb"):
            ensemble(root, method, 0.8)
        return root

    def _texts(self, root: Path, seed: int, noise: float) -> None:
        for encoder in self.encoders:
            for task in self.tasks:
                for method in self.methods if encoder == "roberta" else ("vanilla", "freelb"):
                    score, outcome = self.score(task, method)
                    moved = None if score is None else score + noise
                    finetune(root, task, method, moved, encoder=encoder, outcome=outcome, seed=seed)
        for task in self.tasks:
            if task != "stsb":
                increases = {name: value * (1 + noise) for name, value in self.increases(task).items()}
                max_loss_increase(root, task, increases, seed=seed)


def several(root: Path, task: str, **scores: Iterable[float | None] | float | None) -> None:
    """Scores of methods on a task by seed, 0 to 2 where one number is given; None: diverged."""
    for method, given in scores.items():
        for seed, score in enumerate(list(given) if isinstance(given, list | tuple) else [given] * 3):
            finetune(root, task, method, score, seed=seed, outcome="diverged" if score is None else "ok")
