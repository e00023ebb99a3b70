"""Ranges of what trains vision Transformers in params.yaml and the rules between their keys, by hand; ``test_schema`` tries them."""

from __future__ import annotations

from typing import Any

Q, T, Y = "lipsformer", "layer_scale", "lrformer"
STUDIES = (Q, T, Y)
COUNT = ([1, 7], [0, -1, 2.0, "3", 2**64])
NOT_NEGATIVE = ([0, 0.5, 1.0e6], [-0.1, 1.1e6, float("nan"), float("inf"), "1"])
SHARE = ([0, 0.5], [-0.1, 1, 1.5, "a"])
POSITIVE = ([1.0e-9, 2, 1.0e6], [0, -0.1, 1.1e6, float("inf"), float("nan"), "1"])
MULTIPLE = ([0.5, 4], [0, -1, 4.5])
RANGES: dict[str, tuple[list[Any], list[Any]]] = {
    **{f"{study}.images.train_per_class": ([10, 130], [-1, 20.0]) for study in STUDIES},
    **{f"{study}.seeds": ([[0], [1, 0]], [[], [-1], [0, 0], 0]) for study in (T, Y)},
    f"{Q}.network.width": ([0.125, 0.25], [0, 4.5]),
    f"{Q}.network.patch_size": ([1, 2], [0, 1.5]),
    f"{Q}.train.optimizer": (["adamw", "sgd"], ["adam", 1]),
    f"{Q}.grid.sizes.L.betas": ([[0.0, 0.5]], [[], [0.9], [0.9, 1.0], 0.9]),
    f"{T}.train.betas": ([[0.0, 0.5]], [[], [0.9], [0.9, 1.0], 0.9]),
    f"{Q}.train.momentum": SHARE,
    **{f"{study}.train.gpus": ([1, 64], [0, 65, 1.0]) for study in STUDIES},
    **{f"{study}.train.randaugment_operations": ([1, 14], [0, 15, 2.0]) for study in STUDIES},
    f"{Q}.grid.ablation.base.alpha": POSITIVE,
    f"{Q}.grid.ablation.base.drop_path": SHARE,
    f"{T}.tuning.rates": ([[], [1.0e-3, 2.0e-3]], [[2.0e-3, 1.0e-3], [0, 1.0], 1.0]),
    f"{T}.tuning.held_out": ([0.1, 0.5], [0, 0.6, 1]),
    f"{T}.tuning.epochs": COUNT,
    f"{Y}.network.maps": (["deit"], ["he", 1]),
    f"{Y}.grid.pretrained": ([[]], [["l2_gp"], ["lrsa_gp", "lrsa_gp"], "lrsa_gp"]),
    f"{Y}.grid.optimisers.depth_12_pretraining.lr": POSITIVE,
    f"{Q}.train.batch_size": ([2], [1, 2.5]),
    f"{Q}.train.clip_norm": NOT_NEGATIVE,
    f"{Q}.train.label_smoothing": SHARE,
    f"{Q}.train.randaugment": ([0, 9.5, 10], [-1, 10.5]),
    f"{Q}.train.randaugment_spread": NOT_NEGATIVE,
    f"{Q}.train.mixup": NOT_NEGATIVE,
    f"{Q}.train.cutmix": NOT_NEGATIVE,
    f"{Q}.train.crop_padding": ([0, 16], [-1, 17]),
    f"{Q}.train.flip": ([True, False], [0, "yes"]),
    f"{Q}.train.lr": POSITIVE,
    f"{Q}.grid.sizes.T.lr": MULTIPLE,
    f"{Q}.grid.sizes.S.drop_path": SHARE,
    f"{Q}.grid.sizes.B.weight_decay": NOT_NEGATIVE,
    f"{Q}.grid.sizes.T.average": SHARE,
    f"{Q}.grid.ablation.epochs": COUNT,
    f"{Q}.grid.ablation.variants": ([[], ["base", "alpha_0.4"]], [["alpha_0.2"], ["base", "base"], "base"]),
    f"{Q}.grid.pairs.networks": (
        [[], ["CSwin-B", "LipsFormer-Swin-L"]],
        [["ViT-S"], ["Swin-T", "Swin-T"], "Swin-T"],
    ),
    f"{Q}.throughput.networks": ([[], ["LipsFormer-Swin-B"]], [["Swin-T"], "LipsFormer-Swin-B"]),
    f"{Q}.throughput.size": ([32, 224], [31, 56.0]),
    f"{Q}.throughput.pairs": COUNT,
    f"{Q}.retest.networks": ([[], ["LipsFormer-CSwin-B"]], [["ViT-S"], ["Swin-T", "Swin-T"], "Swin-T"]),
    f"{Q}.retest.crop_ratio": ([0.5, 1], [0, 1.1]),
    f"{Q}.retest.interpolation": (["lanczos"], ["nearest", 1]),
    f"{Q}.retest.average": ([False, True], [1, "yes"]),
    f"{T}.network.dim": ([3, 24], [1, 3.0]),
    f"{T}.network.start_std": POSITIVE,
    f"{Y}.network.position_std": POSITIVE,
    f"{T}.network.heads": ([1, 2], [0, 1.5]),
    f"{T}.grid.depths": ([[1], [12, 36]], [[], [0], [2, 1], 12]),
    f"{T}.grid.residuals": (
        [["rezero"], ["t_fixup_norm", "pre_norm"]],
        [[], ["admin"], ["rezero", "rezero"]],
    ),
    f"{T}.grid.drop_paths.rate": SHARE,
    f"{T}.grid.drop_paths.variants": ([["linear"]], [[], ["constant"], "linear"]),
    f"{T}.grid.class_tokens.layers": COUNT,
    f"{T}.grid.class_tokens.variants": ([["from_start"]], [[], ["mean"], "from_start"]),
    f"{Y}.network.lrsa_alpha": POSITIVE,
    f"{Y}.network.gp.features": COUNT,
    f"{Y}.network.gp.length_scale": POSITIVE,
    f"{Y}.network.gp.ridge": POSITIVE,
    f"{Y}.grid.depths": ([[], [6], [6, 12]], [[7], [6, 6], 6]),
    f"{Y}.grid.optimisers.depth_6.momentum": SHARE,
    f"{Y}.grid.variants": ([["lrsa_gp"]], [[], ["l2_gp"], "lrsa_gp"]),
    f"{Y}.uncertainty.bins": COUNT,
    f"{Y}.uncertainty.sets": (
        [["svhn"], ["corrupted", "cifar100"]],
        [[], ["mnist"], ["svhn", "svhn"], "svhn"],
    ),
    f"{Y}.uncertainty.distances": ([[0, 1.0], [0.5, 2]], [[], [0.0], [1.0, 0.5], [-1.0, 1.0], 0.0]),
}
RULES: list[tuple[dict[str, Any], dict[str, Any], str]] = []
for study in STUDIES:
    images, patch = f"{study}.images.train_per_class", f"{study}.network.patch_size"
    cifar = {f"{study}.images.dataset": "cifar10"}
    size = f"{study}.images.size"
    imagenet = {f"{study}.images.dataset": "imagenet", size: 224}
    tested = f"{study}.train.test_images"
    batch = f"{study}.grid.optimisers.depth_6.batch_size" if study == Y else f"{study}.train.batch_size"
    few = {f"{Y}.uncertainty.images": 2} if study == Y else {}
    RULES += [
        ({images: 164, **few}, {images: 165, **few}, images),
        ({images: 130}, {images: 1}, images),
        ({**cifar, images: 5000}, {**cifar, images: 5001}, images),
        ({**imagenet, images: 0}, {**imagenet, images: 130}, images),
        ({**imagenet, images: 0}, {**imagenet, images: 0, size: 0}, size),
        ({size: 16, patch: 4}, {size: 15, patch: 4}, patch),
        ({patch: 4}, {patch: 3}, patch),
        ({batch: 1300}, {batch: 1301}, batch),
        ({tested: 497}, {tested: 498}, tested),
        (
            {f"{study}.train.warmup_epochs": 3},
            {f"{study}.train.warmup_epochs": 5},
            f"{study}.train.warmup_epochs",
        ),
    ]
RULES += [
    *(
        ({f"{study}.network.dim": 27}, {f"{study}.network.dim": 28}, f"{study}.network.dim")
        for study in (T, Y)
    ),
    ({f"{Q}.network.width": 0.25}, {f"{Q}.network.width": 0.13}, f"{Q}.network.width"),
    (
        {f"{Q}.grid.ablation.warmup_epochs": 3},
        {f"{Q}.grid.ablation.warmup_epochs": 4},
        f"{Q}.grid.ablation.warmup_epochs",
    ),
    (
        {f"{Q}.grid.pairs.warmup_epochs": 3},
        {f"{Q}.grid.pairs.warmup_epochs": 4},
        f"{Q}.grid.pairs.warmup_epochs",
    ),
    (
        {f"{Q}.retest.networks": ["Swin-T"], f"{Q}.retest.average": False},
        {f"{Q}.retest.networks": ["Swin-T"], f"{Q}.retest.average": True},
        f"{Q}.retest.average",
    ),
    (
        {f"{T}.tuning.rates": [1.0e-3, 2.0e-3], f"{T}.tuning.epochs": 1},
        {f"{T}.tuning.rates": [1.0e-3, 2.0e-3], f"{T}.tuning.epochs": 1, f"{T}.train.warmup_epochs": 2},
        f"{T}.tuning.epochs",
    ),
    (
        {f"{Y}.grid.pretrained": ["lrsa_gp"], f"{Y}.images.size": 8},
        {f"{Y}.grid.pretrained": ["lrsa_gp"], f"{Y}.images.size": 0},
        f"{Y}.images.size",
    ),
    ({f"{T}.tuning.rates": [1.0e-3, 2.0e-3]}, {f"{T}.tuning.rates": [1.0e-3]}, f"{T}.tuning.rates"),
    ({f"{Y}.uncertainty.images": 497}, {f"{Y}.uncertainty.images": 498}, f"{Y}.uncertainty.images"),
]
