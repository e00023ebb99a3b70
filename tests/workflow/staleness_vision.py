"""What a parameter of what trains vision Transformers touches (lipsformer, layer_scale, lrformer); see ``test_staleness``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Q, T, Y = "lipsformer", "layer_scale", "lrformer"
STUDIES = (Q, T, Y)
TRAIN = {study: f"{study}/train_vision" for study in STUDIES}
PREPARE = {study: f"{study}/prepare_images" for study in STUDIES}
THROUGHPUT, RETEST, UNCERTAINTY = f"{Q}/throughput", f"{Q}/evaluate_imagenet", f"{Y}/evaluate_uncertainty"
STEPS = {*TRAIN.values(), *PREPARE.values(), THROUGHPUT, RETEST, UNCERTAINTY}


def trained(study: str, runs: str = "*") -> list[str]:
    """Networks, and what looks at them."""
    looks = [f"{UNCERTAINTY}/{runs}"] if study == Y else []
    if study == Q and runs in ("*", "pairs/*", "pairs/CSwin-T/*"):
        looks = [f"{RETEST}/*"]  # of the one network that the scratch checkout tests again
    return [f"{TRAIN[study]}/{runs}", *looks, "render"]


ON_DIGITS: list[str] = []
for _study in STUDIES:
    ON_DIGITS += [f"{PREPARE[_study]}/*", *trained(_study)]


def of(study: str) -> set[str]:
    return {TRAIN[study], UNCERTAINTY} if study == Y else {TRAIN[study]}


TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (f"{T}.seeds", {TRAIN[T], "render"}, [f"{TRAIN[T]}/*/seed1", "render"]),
    *(
        (f"{study}.images.dataset", of(study) | {PREPARE[study]}, [f"{PREPARE[study]}/*", *trained(study)])
        for study in STUDIES
    ),
    *((f"{study}.images.*", {PREPARE[study]}, [f"{PREPARE[study]}/*", *trained(study)]) for study in STUDIES),
    (f"{Y}.network.lrsa_alpha", {TRAIN[Y]}, trained(Y, "lrsa_*")),
    (f"{Y}.network.gp.*", {TRAIN[Y]}, trained(Y, "*_gp/*")),
    *((f"{study}.network.*", {TRAIN[study]}, trained(study)) for study in STUDIES),
    (f"{Q}.train.epochs", {TRAIN[Q]}, trained(Q, "pairs/*")),
    (f"{Q}.train.warmup_epochs", {TRAIN[Q]}, [*trained(Q, "ablation/base/*"), *trained(Q, "pairs/Lips*")]),
    (
        f"{T}.train.warmup_epochs",
        {TRAIN[T]},
        [*trained(T, "residual/pre_norm/*"), *trained(T, "drop_path/*"), *trained(T, "class_token/*")],
    ),
    (
        f"{T}.train.drop_path",
        {TRAIN[T]},
        [*trained(T, "residual/*"), *trained(T, "class_token/*")],
    ),
    *((f"{study}.train.*", {TRAIN[study]}, trained(study)) for study in STUDIES),
    (
        f"{Q}.grid.sizes.T.drop_path",
        {TRAIN[Q]},
        [*trained(Q, "pairs/Swin-T/*"), *trained(Q, "pairs/CSwin-T/*")],
    ),
    (
        f"{Q}.grid.sizes.T.*",
        {TRAIN[Q]},
        [*trained(Q, "ablation/*"), *trained(Q, "pairs/Swin-T/*"), *trained(Q, "pairs/CSwin-T/*")],
    ),
    (f"{Q}.grid.sizes.S.*", {TRAIN[Q]}, trained(Q, "pairs/LipsFormer-Swin-S/*")),
    (f"{Q}.grid.sizes.B.*", {TRAIN[Q]}, trained(Q, "pairs/LipsFormer-Swin-B/*")),
    (f"{Q}.grid.ablation.epochs", {TRAIN[Q]}, trained(Q, "ablation/*")),
    (f"{Q}.grid.ablation.warmup_epochs", {TRAIN[Q]}, trained(Q, "ablation/warmup/*")),
    (f"{Q}.grid.ablation.variants", {TRAIN[Q], "render"}, trained(Q, "ablation/conv_a/*")),
    (f"{Q}.grid.pairs.networks", {TRAIN[Q], "render"}, trained(Q, "pairs/LipsFormer-CSwin-T/*")),
    (
        f"{Q}.grid.pairs.warmup_epochs",
        {TRAIN[Q]},
        [*trained(Q, "pairs/Swin-T/*"), *trained(Q, "pairs/CSwin-T/*")],
    ),
    (f"{Q}.throughput.networks", {THROUGHPUT, "render"}, [f"{THROUGHPUT}/LipsFormer-Swin-B/*", "render"]),
    (f"{Q}.throughput.*", {THROUGHPUT}, [f"{THROUGHPUT}/*", "render"]),
    (f"{Q}.retest.networks", {RETEST, "render"}, ["render"]),  # one less
    (f"{Q}.retest.*", {RETEST}, [f"{RETEST}/*", "render"]),
    (f"{T}.grid.depths", {TRAIN[T], "render"}, trained(T, "residual/*/depth36/*")),
    (f"{T}.grid.residuals", {TRAIN[T], "render"}, trained(T, "residual/skip_init/*")),
    (f"{T}.grid.drop_paths.depth", {TRAIN[T], "render"}, trained(T, "drop_path/*")),
    (f"{T}.grid.drop_paths.variants", {TRAIN[T], "render"}, trained(T, "drop_path/uniform/*")),
    (f"{T}.grid.drop_paths.*", {TRAIN[T]}, trained(T, "drop_path/*")),
    (f"{T}.grid.class_tokens.depth", {TRAIN[T], "render"}, trained(T, "class_token/*")),
    (f"{T}.grid.class_tokens.variants", {TRAIN[T], "render"}, trained(T, "class_token/from_start/*")),
    (f"{T}.grid.class_tokens.*", {TRAIN[T]}, trained(T, "class_token/*")),
    (f"{Y}.grid.depths", {*of(Y), "render"}, ["render"]),  # one less
    (f"{Y}.grid.variants", {*of(Y), "render"}, trained(Y, "dot_gp/*")),
    *(
        (f"{Y}.grid.optimisers.depth_{depth}.*", {TRAIN[Y]}, trained(Y, f"*/depth{depth}/*"))
        for depth in (6, 12)
    ),
    (f"{Y}.uncertainty.*", {UNCERTAINTY}, [f"{UNCERTAINTY}/*", "render"]),
]
FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{T}.seeds": lambda seeds: [*seeds, 1],
    **{f"{study}.images.dataset": lambda name: "cifar10" for study in STUDIES},
    **{f"{study}.images.train_per_class": lambda n: n - 1 for study in STUDIES},
    f"{Q}.network.*": lambda n: 2 * n,
    "*.network.dim": lambda n: 2 * n,
    "*.network.heads": lambda n: 2 * n,
    "*.network.patch_size": lambda n: 2 * n,
    "*.optimizer": lambda name: {"adamw": "sgd", "sgd": "adamw"}[name],
    "*.betas": lambda betas: [betas[0], 0.99],
    **{
        f"{study}.train.{key}": lambda n: n / 2 + 0.1
        for study in STUDIES
        for key in ("label_smoothing", "average", "drop_path")
        if study != Q or key == "label_smoothing"
    },
    f"{Q}.grid.sizes.*.drop_path": lambda n: n / 2,
    f"{Q}.grid.sizes.*.average": lambda n: 0.9,
    f"{Q}.grid.ablation.variants": lambda names: [*names, "conv_a"],
    f"{Q}.grid.pairs.networks": lambda names: [*names, "LipsFormer-CSwin-T"],
    f"{Q}.throughput.networks": lambda names: [*names, "LipsFormer-Swin-B"],
    f"{Q}.retest.networks": lambda names: names[:-1],
    f"{Q}.retest.interpolation": lambda name: "bilinear",
    f"{Q}.retest.crop_ratio": lambda ratio: ratio / 2,
    f"{Q}.retest.average": lambda one: not one,
    f"{T}.grid.depths": lambda depths: [*depths, 36],
    f"{T}.grid.residuals": lambda names: [*names, "skip_init"],
    f"{T}.grid.drop_paths.variants": lambda names: [*names, "uniform"],
    f"{T}.grid.drop_paths.rate": lambda rate: rate / 2,
    f"{T}.grid.class_tokens.variants": lambda names: [*names, "from_start"],
    f"{Y}.grid.depths": lambda depths: depths[:-1],
    f"{Y}.grid.variants": lambda names: [*names, "dot_gp"],
    f"{Y}.grid.optimisers.*.momentum": lambda n: n / 2,
    f"{Y}.uncertainty.sets": lambda names: names[:-1],
    f"{Y}.uncertainty.distances": lambda values: values[:-1],
}
QUICK = {
    f"{Q}.train.label_smoothing",
    f"{Q}.grid.ablation.variants",
    f"{T}.grid.drop_paths.rate",
    f"{Y}.network.gp.ridge",
    f"{Y}.uncertainty.bins",
}
