"""evaluate_uncertainty: calibration, out-of-distribution detection, and entropy against distance to the data.

Settings: sets (names of ``relearn.data.OUTLIERS``), bins (of confidence), test_images (use only the first images; 0: all), distances
(ascending, in standard deviations per coordinate), scores (names of ``relearn.measures.ood.SCORES``; default: all that the head
supports).
Inputs: data (output of `prepare_images`), network (model.safetensors of `train_vision`). The environment
variable RELEARN_MIRROR names a local folder of data sets (``$RELEARN_MIRROR/svhn``, ``cifar100`` or ``cifar100_ood``).

A dense head returns its logits, a Gaussian-process head mean-field logits and its variance. Every set has as many images as the
test set, and random draws depend only on the run's seed, so that networks of one seed see the same images and the same rays.

Outputs, columns in brackets: calibration.csv (bin, samples, confidence, accuracy); ood.csv (set, score, auroc_frac, aupr_frac,
fpr95_frac, samples), with out-of-distribution images as positives; distance.csv (space, distance, entropy_nats, entropy_max_share,
variance), means over the rays, space is pixels or features; scores.csv (set, low, high, count), a histogram of the entropy in nats for
the set ``test`` and each out-of-distribution set.
Metrics: acc_frac, ece_frac, nll_nats, brier; {set}_auroc_frac, {set}_aupr_frac, {set}_fpr95_frac by entropy, {set}_variance_auroc_frac by
variance, and their means over sets without a prefix; entropy_rise_nats and entropy_monotone_frac along rays in
pixels, feature_entropy_rise_nats and feature_entropy_monotone_frac in features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.steps.csv_rows import write_rows

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.measures.distance_awareness import Along
    from relearn.models.vision_classifier import VisionClassifier

    Outputs = Callable[[Tensor], tuple[Tensor, Tensor | None]]

NEEDS_TORCH = True
MIRRORS = {
    "cifar100": ("cifar100", "cifar100_ood")
}  # folders of RELEARN_MIRROR that are not named like the set
HISTOGRAM_BINS = 30
TEST = "test"
MEASURES = ("auroc_frac", "aupr_frac", "fpr95_frac")


@dataclass(frozen=True, kw_only=True)
class Settings:
    sets: Sequence[str]
    bins: int
    test_images: int
    distances: Sequence[float]
    scores: Sequence[str] | None = None


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.data.arrays import load_prepared
    from relearn.data.outliers import outliers
    from relearn.measures.embed import embed
    from relearn.models import vision
    from relearn.runs.console import Progress

    data = load_prepared(inputs["data"][0])
    net = vision.FILE.load(inputs["network"][0], device)
    images, labels = data.test()
    count = min(settings.test_images or len(images), len(images))
    images, labels = images[:count], labels[:count]
    head = outputs_of(net)
    stages = ("test", *settings.sets, "pixels", "features")
    with Progress("evaluate_uncertainty") as progress:
        progress(0, len(stages))
        features = embed(net, images, precision=precision)
        if not fitted(net):
            _lost(run, count, "the training diverged before the precision of its head was fitted")
            return
        logits, variance = head(features)
        if not bool(logits.isfinite().all()):
            _lost(run, count, "logits of the test images are not finite")
            return
        known = {TEST: _scores(logits, variance, settings.scores)}
        notes = [_of_head(variance)]
        for place, name in enumerate(settings.sets, 1):
            found = outliers(
                name,
                size=images.shape[-1],
                channels=images.shape[1],
                count=count,
                seed=run.seed,
                prepared=data,
                folder=_mirror(name),
            )
            shown = embed(net, _tensor(found.images), precision=precision)
            known[name] = _scores(*head(shown), settings.scores)
            notes.append(f"{name}: {found.words}")
            progress(place, len(stages))
        paths = _paths(net, head, images, features, data.std, settings.distances, run.seed, precision)
        progress(len(stages), len(stages))
    metrics = _calibration(run, logits, labels, settings.bins)
    metrics |= _detection(run, known)
    metrics |= _distance(run, paths)
    _histograms(run, known, logits.shape[1])
    run.finish({**metrics, "test_count": count}, notes=[*notes, RAYS])


RAYS = (
    "rays: from each test image, and from its features, along one random direction; distances in standard deviations a coordinate; "
    "pixels are not cut to [0, 1] on the way out"
)


def outputs_of(net: VisionClassifier) -> Outputs:
    """The head's logits (mean field for a Gaussian process) on the CPU, and its variances or None."""
    import torch

    from relearn.layers.random_feature_gp import RandomFeatureGP

    head = net.head

    @torch.no_grad()
    def outputs(features: Tensor) -> tuple[Tensor, Tensor | None]:
        if isinstance(head, RandomFeatureGP):
            return head.mean_field_logits(features).float().cpu(), head.variance(features).cpu()
        return head(features).float().cpu(), None

    return outputs


def _mirror(name: str) -> Path | None:
    from relearn.data.mirror import mirror_of

    folders = (mirror_of(one) for one in MIRRORS.get(name, (name,)))
    return next((folder for folder in folders if folder is not None), None)


def _tensor(images: Any) -> Tensor:
    import torch

    return torch.from_numpy(images)


def _of_head(variance: Tensor | None) -> str:
    if variance is None:
        return "dense head: probabilities are the softmax of its logits"
    return "Gaussian-process head: probabilities are the softmax of mean-field logits"


def fitted(net: VisionClassifier) -> bool:
    """Whether the head is fitted; false for a Gaussian-process head without data, because a diverged training does not fit it."""
    seen = getattr(net.head, "seen", None)
    return seen is None or bool(seen)


def _lost(run, count: int, reason: str) -> None:
    """Write empty tables and a record of a diverged run with the reason."""
    for name, columns in TABLES.items():
        write_rows(run.output(name), columns, [])
    run.finish({"test_count": count}, outcome="diverged", outcome_reason=reason)


TABLES = {
    "calibration.csv": ("bin", "samples", "confidence", "accuracy"),
    "ood.csv": ("set", "score", *MEASURES, "samples"),
    "distance.csv": ("space", "distance", "entropy_nats", "entropy_max_share", "variance"),
    "scores.csv": ("set", "low", "high", "count"),
}


def _write(run, name: str, rows: Sequence[Sequence[Any]]) -> None:
    write_rows(run.output(name), TABLES[name], rows)


def _scores(logits: Tensor, variance: Tensor | None, asked: Sequence[str] | None) -> dict[str, Tensor]:
    """The requested scores that this head supports, and always entropy, by which heads are compared."""
    from relearn.measures import ood

    asked = ood.SCORES if asked is None else asked
    if odd := [name for name in asked if name not in ood.SCORES]:
        raise ValueError(f"scores: {odd[0]!r} (allowed: {', '.join(ood.SCORES)})")
    found = ood.scores(logits, variance)
    return {name: values for name, values in found.items() if name in asked or name == "entropy"}


def _calibration(run, logits: Tensor, labels: Tensor, bins: int) -> dict[str, float]:
    from relearn.measures.accuracy import accuracy
    from relearn.measures.calibration import calibration, reliability

    found = reliability(logits, labels, bins=bins)
    _write(run, "calibration.csv", list(zip(range(bins), *(column.tolist() for column in found))))
    return {"acc_frac": accuracy(logits, labels), **calibration(logits, labels, bins=bins)}


def _detection(run, known: dict[str, dict[str, Tensor]]) -> dict[str, float]:
    """Write the separation of every out-of-distribution set by every score; return metrics by entropy, and AUROC by variance."""
    from relearn.measures.ood import separation

    rows: list[tuple[Any, ...]] = []
    inside = known[TEST]
    metrics: dict[str, float] = {}
    for name, outside in known.items():
        if name == TEST:
            continue
        for score, values in outside.items():
            found = separation(inside[score].numpy(), values.numpy())
            rows.append((name, score, *found, len(values)))
            if score == "entropy":
                metrics |= {f"{name}_{measure}": value for measure, value in zip(MEASURES, found)}
            if score == "gp_variance":
                metrics[f"{name}_variance_auroc_frac"] = found.auroc
    _write(run, "ood.csv", rows)
    sets = [name for name in known if name != TEST]
    for measure in (*MEASURES, "variance_auroc_frac"):
        every = [metrics[f"{name}_{measure}"] for name in sets if f"{name}_{measure}" in metrics]
        if every:
            metrics[measure] = sum(every) / len(every)
    return metrics


def _paths(
    net: VisionClassifier,
    head: Outputs,
    images: Tensor,
    features: Tensor,
    std: Tensor,
    distances: Sequence[float],
    seed: int,
    precision: str,
) -> dict[str, list[Along]]:
    from relearn.measures.distance_awareness import along_rays, feature_scale
    from relearn.measures.embed import embed

    def whole(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        return head(embed(net, pixels, precision=precision))

    pixels, scale = images.float() / 255.0, std.float().reshape(-1, 1, 1)
    return {
        "pixels": along_rays(whole, pixels, scale, distances, seed=seed),
        "features": along_rays(head, features, feature_scale(features), distances, seed=seed),
    }


def _distance(run, paths: dict[str, list[Along]]) -> dict[str, float]:
    from relearn.measures.distance_awareness import monotone_share, rise

    _write(run, "distance.csv", [(space, *point) for space, path in paths.items() for point in path])
    metrics = {}
    for space, prefix in (("pixels", ""), ("features", "feature_")):
        metrics[f"{prefix}entropy_rise_nats"] = rise(paths[space])
        metrics[f"{prefix}entropy_monotone_frac"] = monotone_share(paths[space])
    return metrics


def _histograms(run, known: dict[str, dict[str, Tensor]], classes: int) -> None:
    """The entropy of every set, in equal bins from 0 to the entropy of a uniform prediction."""
    import numpy as np

    rows: list[tuple[Any, ...]] = []
    for name, found in known.items():
        # rounding can put the entropy of a uniform prediction above log C
        values = found["entropy"].numpy().clip(max=np.log(classes))
        counts, edges = np.histogram(values, bins=HISTOGRAM_BINS, range=(0.0, np.log(classes)))
        rows += [(name, *one) for one in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist())]
    _write(run, "scores.csv", rows)
