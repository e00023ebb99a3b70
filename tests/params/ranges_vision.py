"""Ranges of ``lipsformer``, ``layer_scale`` and ``lrformer`` and the rules between their keys; ``test_schema`` tries them."""

from .rules import BETAS, COUNT, FLAG, NOT_NEGATIVE, POSITIVE, SEEDS, SHARE, Range, Rule, rule

Q, T, Y = "lipsformer", "layer_scale", "lrformer"
GIVEN = {"residual": "rezero", "depth": 24, "lr": 4.0e-3, "seeds": [0]}
EXTRA = {"variants": ["pre_norm", "from_start"], "depths": [24], "seeds": [1]}
STUDIES = (Q, T, Y)
MULTIPLE = ([0.5, 4], [0, -1, 4.5])
COUNTS = ([[1], [1, 7]], [[], [0], [3, 2], [2, 2], 2])
DIMS = ([[2], [4, 8]], [[], [1], [4, 2], 4])
POSITIVES = ([[12.0, 1.0], [1]], [[], [0], [1.0, 1.0], 1.0])
RANGES: dict[str, Range] = {
    f"{Q}.seeds": SEEDS,
    f"{Q}.count.networks": (
        [["Swin-T"], ["LipsFormer-Swin-L++", "CSwin-B"]],
        [[], ["ViT-S"], ["Swin-T", "Swin-T"], "Swin-T"],
    ),
    f"{Q}.count.rivals": ([[], ["EffNet-B4"]], [["NAT-T"], ["DeiT-S", "DeiT-S"], "DeiT-S"]),
    f"{Q}.examine.theorem_1.networks": ([[], ["LipsFormer-Swin-B"]], [["LipsFormer-CSwin-T"], "Swin-T"]),
    f"{Q}.examine.theorem_2.iterations": COUNT,
    f"{Q}.examine.spectral_start.networks": ([[], ["LipsFormer-CSwin-T"]], [["Swin-T"], "LipsFormer-Swin-T"]),
    f"{Q}.examine.theorem_1.lengths": COUNTS,
    f"{Q}.examine.theorem_1.dims": DIMS,
    f"{Q}.examine.theorem_1.taus": POSITIVES,
    f"{Q}.examine.theorem_1.spreads": POSITIVES,
    f"{Q}.examine.theorem_1.steps": COUNT,
    f"{Q}.examine.theorem_2.blocks": COUNTS,
    f"{Q}.examine.theorem_2.tau": POSITIVE,
    f"{Q}.examine.theorem_2.eps": POSITIVES,
    f"{Q}.examine.spectral_start.channels": COUNTS,
    f"{Q}.examine.activations.pairs": COUNT,
    f"{Q}.examine.activations.reach": POSITIVE,
    f"{Q}.examine.activations.points": ([50, 161], [11, 49, 50.0, 10_001]),
    f"{Q}.examine.spectral_start.size": ([8, 14], [7, 8.0]),
    f"{Y}.examine.layer_norm.dims": DIMS,
    f"{Y}.examine.layer_norm.eps": POSITIVE,
    f"{Y}.examine.lrsa.scales": POSITIVES,
    f"{Y}.examine.lrsa.draws": COUNT,
    **{f"{study}.images.train_per_class": ([10, 130], [-1, 20.0]) for study in STUDIES},
    **{f"{study}.seeds": SEEDS for study in (T, Y)},
    f"{Q}.network.width": ([0.125, 0.25], [0, 4.5]),
    f"{Q}.network.patch_size": ([1, 2], [0, 1.5]),
    f"{Q}.train.optimizer": (["adamw", "sgd"], ["adam", 1]),
    f"{Q}.grid.sizes.L.betas": BETAS,
    f"{T}.train.betas": BETAS,
    f"{Q}.train.momentum": SHARE,
    **{f"{study}.train.gpus": ([1, 64], [0, 65, 1.0]) for study in STUDIES},
    **{f"{study}.train.randaugment_operations": ([1, 14], [0, 15, 2.0]) for study in STUDIES},
    f"{Q}.grid.ablation.base.alpha": POSITIVE,
    f"{Q}.grid.ablation.base.drop_path": SHARE,
    f"{Q}.grid.ablation.extra_seeds.variants": (
        [[], ["base", "warmup"]],
        [["base", "base"], ["pre_norm"], "base"],
    ),
    f"{Q}.grid.ablation.extra_seeds.seeds": ([[], [1, 7]], [[1, 1], [-1], [2**32], 1]),
    f"{T}.extra_seeds": (
        [[], [EXTRA]],
        [[{**EXTRA, "seeds": []}], [{**EXTRA, "variants": ["uniform"]}], EXTRA],
    ),
    f"{T}.tuning.rates": ([[], [1.0e-3, 2.0e-3]], [[2.0e-3, 1.0e-3], [0, 1.0], 1.0]),
    f"{T}.tuning.held_out": ([0.1, 0.5], [0, 0.6, 1]),
    f"{T}.tuning.epochs": COUNT,
    f"{Y}.network.maps": (["deit"], ["he", 1]),
    f"{Y}.grid.pretrained": ([[]], [["l2_gp"], ["dot_gp_mean"], ["lrsa_gp", "lrsa_gp"], "lrsa_gp"]),
    f"{Y}.grid.optimisers.depth_12_pretraining.lr": POSITIVE,
    f"{Q}.train.batch_size": ([2], [1, 2.5]),
    f"{Q}.train.clip_norm": NOT_NEGATIVE,
    f"{Q}.train.label_smoothing": SHARE,
    f"{Q}.train.randaugment": ([0, 9.5, 10], [-1, 10.5]),
    f"{Q}.train.randaugment_spread": NOT_NEGATIVE,
    f"{Q}.train.mixup": NOT_NEGATIVE,
    f"{Q}.train.cutmix": NOT_NEGATIVE,
    f"{Q}.train.crop_padding": ([0, 16], [-1, 17]),
    f"{Q}.train.flip": FLAG,
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
    f"{Q}.grid.constrained.networks": (
        [[], ["LipsFormer-CSwin-T"]],
        [["Swin-T"], ["LipsFormer-Swin-T", "LipsFormer-Swin-T"], "LipsFormer-Swin-T"],
    ),
    f"{Q}.grid.constrained.bound": POSITIVE,
    f"{Q}.grid.constrained.kind": (["spectral", "bjorck"], ["svd", 1]),
    f"{Q}.grid.constrained.method": (["upper", "power"], ["exact", 1]),
    f"{Q}.throughput.networks": ([[], ["LipsFormer-Swin-B"]], [["Swin-T"], "LipsFormer-Swin-B"]),
    f"{Q}.throughput.size": ([32, 224], [31, 56.0]),
    f"{Q}.throughput.pairs": COUNT,
    f"{Q}.retest.networks": ([[]], [["ViT-S"], ["Swin-T", "Swin-T"], "Swin-T"]),
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
    f"{T}.grid.given_rates": (
        [[], [GIVEN]],
        [[{**GIVEN, "lr": 0}], [{**GIVEN, "residual": "from_start"}], [{**GIVEN, "seeds": []}], GIVEN],
    ),
    f"{T}.grid.drop_paths.rate": SHARE,
    f"{T}.grid.drop_paths.variants": ([["linear"]], [[], ["constant"], "linear"]),
    f"{T}.grid.class_tokens.layers": COUNT,
    f"{T}.grid.class_tokens.variants": (
        [["from_start"], ["from_start_patch4", "from_start_longer", "class_attention_1e-1"]],
        [[], ["mean"], ["mean_longer"], ["from_start_1e-1"], "from_start"],
    ),
    f"{Y}.network.lrsa_alpha": POSITIVE,
    f"{Y}.network.gp.features": COUNT,
    f"{Y}.network.gp.length_scale": POSITIVE,
    f"{Y}.network.gp.ridge": POSITIVE,
    f"{Y}.grid.depths": ([[], [6], [6, 12]], [[7], [6, 6], 6]),
    f"{Y}.grid.optimisers.depth_6.momentum": SHARE,
    f"{Y}.grid.variants": ([["lrsa_gp"], ["dot_gp_mean_no_norm"]], [[], ["l2_gp"], "lrsa_gp"]),
    f"{Y}.uncertainty.bins": COUNT,
    f"{Y}.uncertainty.sets": (
        [["svhn"], ["corrupted", "cifar100"]],
        [[], ["mnist"], ["svhn", "svhn"], "svhn"],
    ),
    f"{Y}.uncertainty.distances": ([[0, 1.0], [0.5, 2]], [[], [0.0], [1.0, 0.5], [-1.0, 1.0], 0.0]),
}
RULES: list[Rule] = []
for study in STUDIES:
    images, patch = f"{study}.images.train_per_class", f"{study}.network.patch_size"
    cifar = {f"{study}.images.dataset": "cifar10"}
    size = f"{study}.images.size"
    imagenet = {f"{study}.images.dataset": "imagenet", size: 224}
    tested = f"{study}.train.test_images"
    batch = f"{study}.grid.optimisers.depth_6.batch_size" if study == Y else f"{study}.train.batch_size"
    few = {f"{Y}.uncertainty.images": 2} if study == Y else {}
    RULES += [
        rule(images, 164, 165, few),
        rule(images, 130, 1),
        rule(images, 5000, 5001, cifar),
        rule(images, 0, 130, imagenet),
        ({**imagenet, images: 0}, {**imagenet, images: 0, size: 0}, size),
        rule(size, 16, 15, {patch: 4}, named=patch),
        rule(patch, 4, 3),
        rule(batch, 1300, 1301),
        rule(tested, 497, 498),
        rule(f"{study}.train.warmup_epochs", 2, 5),
    ]
RETESTED = {f"{Q}.grid.pairs.networks": ["Swin-T"], f"{Q}.retest.networks": ["Swin-T"]}
RULES += [
    *(rule(f"{Q}.examine.{name}.dims", [4, 6], [4, 5], at="[1]") for name in ("theorem_1", "theorem_2")),
    *(rule(f"{study}.network.dim", 27, 28) for study in (T, Y)),
    rule(f"{Q}.network.width", 0.25, 0.13),
    rule(f"{Q}.grid.ablation.warmup_epochs", 2, 3),
    rule(f"{Q}.grid.pairs.warmup_epochs", 2, 3),
    rule(f"{Q}.retest.average", False, True, RETESTED),
    rule(f"{Q}.retest.networks", ["Swin-T"], ["Swin-S"], {f"{Q}.grid.pairs.networks": ["Swin-T"]}, at="[0]"),
    (  # a size of no network that is trained
        {f"{Y}.grid.depths": [6], f"{Y}.grid.optimisers.depth_12.batch_size": 4096},
        {f"{Y}.grid.depths": [6, 12], f"{Y}.grid.optimisers.depth_12.batch_size": 4096},
        f"{Y}.grid.optimisers.depth_12.batch_size",
    ),
    (
        {f"{T}.tuning.rates": [1.0e-3, 2.0e-3], f"{T}.tuning.epochs": 1},
        {f"{T}.tuning.rates": [1.0e-3, 2.0e-3], f"{T}.tuning.epochs": 1, f"{T}.train.warmup_epochs": 2},
        f"{T}.tuning.epochs",
    ),
    rule(
        f"{T}.grid.class_tokens.variants",
        ["from_start"],
        ["from_start", "class_attention_patch4"],
        {f"{T}.images.size": 30, f"{T}.network.patch_size": 6},
        at="[1]",
    ),
    rule(f"{Y}.images.size", 8, 0, {f"{Y}.grid.pretrained": ["lrsa_gp"]}),
    rule(f"{T}.tuning.rates", [1.0e-3, 2.0e-3], [1.0e-3]),
    rule(f"{Q}.grid.ablation.extra_seeds.seeds", [1, 2], [1, 0], at="[1]"),
    rule(f"{T}.extra_seeds", [EXTRA], [{**EXTRA, "seeds": [1, 0]}], at="[0].seeds[1]"),
    rule(f"{Y}.uncertainty.images", 497, 498),
]
