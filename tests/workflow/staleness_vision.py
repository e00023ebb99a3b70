"""What a parameter of what trains vision Transformers touches (lipsformer, layer_scale, lrformer); see ``test_staleness``."""

from collections.abc import Callable
from typing import Any

Q, T, Y = "lipsformer", "layer_scale", "lrformer"
STUDIES = (Q, T, Y)
CLASSIFY = {study: f"{study}/train_vision" for study in STUDIES}
PREPARE = {study: f"{study}/prepare_images" for study in STUDIES}
THROUGHPUT, RETEST, UNCERTAINTY = f"{Q}/throughput", f"{Q}/evaluate_imagenet", f"{Y}/evaluate_uncertainty"
CONSTRAINED = f"{Q}/train_constrained"
STEPS = {*CLASSIFY.values(), *PREPARE.values(), CONSTRAINED, THROUGHPUT, RETEST, UNCERTAINTY}


def trained(study: str, runs: str = "*") -> list[str]:
    """Networks, and what looks at them."""
    looks = [f"{UNCERTAINTY}/{runs}"] if study == Y else []
    if study == Q and runs in ("*", "pairs/*", "pairs/CSwin-T/*"):
        looks = [f"{RETEST}/*"]  # of the one network that the scratch checkout tests again
    if study == Q and runs in ("*", "pairs/*", "pairs/Lips*", "pairs/LipsFormer-Swin-S/*"):
        looks.append(f"{CONSTRAINED}/*")  # the one network that is also trained under a constraint
    return [f"{CLASSIFY[study]}/{runs}", *looks, "render"]


ON_DIGITS: list[str] = []
for _study in STUDIES:
    ON_DIGITS += [f"{PREPARE[_study]}/*", *trained(_study)]


def of(study: str) -> set[str]:
    return {CLASSIFY[study], UNCERTAINTY} if study == Y else {CLASSIFY[study]}


TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (f"{T}.seeds", {CLASSIFY[T], "render"}, [f"{CLASSIFY[T]}/*/seed1", "render"]),
    (f"{Q}.grid.ablation.extra_seeds.*", {CLASSIFY[Q]}, []),  # the one key without the other adds nothing
    (f"{T}.extra_seeds", {CLASSIFY[T], "render"}, [f"{CLASSIFY[T]}/*/pre_norm/*/seed1", "render"]),
    (
        f"{T}.grid.given_rates",
        {CLASSIFY[T], "render"},
        [f"{CLASSIFY[T]}/given_rate/rezero/depth24/rate0.002/seed3", "render"],
    ),
    *(
        (
            f"{study}.images.dataset",
            of(study) | {PREPARE[study], "render"},
            [f"{PREPARE[study]}/*", *trained(study)],
        )
        for study in STUDIES
    ),
    *((f"{study}.images.size", {CLASSIFY[study]}, trained(study)) for study in STUDIES),
    *((f"{study}.images.*", {PREPARE[study]}, [f"{PREPARE[study]}/*", *trained(study)]) for study in STUDIES),
    (f"{Y}.network.lrsa_alpha", {CLASSIFY[Y]}, trained(Y, "lrsa_*")),
    (f"{Y}.network.gp.*", {CLASSIFY[Y]}, trained(Y, "*_gp/*")),
    *((f"{study}.network.*", {CLASSIFY[study]}, trained(study)) for study in STUDIES),
    (f"{Q}.train.epochs", {CLASSIFY[Q]}, trained(Q, "pairs/*")),
    (f"{Q}.train.warmup_epochs", {CLASSIFY[Q]}, [*trained(Q, "ablation/base/*"), *trained(Q, "pairs/Lips*")]),
    (
        f"{T}.train.warmup_epochs",
        {CLASSIFY[T]},
        [*trained(T, "residual/pre_norm/*"), *trained(T, "drop_path/*"), *trained(T, "class_token/*")],
    ),
    (
        f"{T}.train.drop_path",
        {CLASSIFY[T]},
        [*trained(T, "residual/*"), *trained(T, "class_token/*")],
    ),
    *((f"{study}.train.gpus", {CLASSIFY[study]}, []) for study in STUDIES),  # no setting of a run
    # of RandAugment, which is not there
    *((f"{study}.train.randaugment_*", {CLASSIFY[study]}, []) for study in STUDIES),
    *((f"{study}.train.*", {CLASSIFY[study]}, trained(study)) for study in STUDIES),
    (f"{T}.tuning.rates", {CLASSIFY[T], "render"}, trained(T)),
    (f"{T}.tuning.*", {CLASSIFY[T]}, []),  # without rates there is no tuning
    (
        f"{Q}.grid.sizes.T.drop_path",
        {CLASSIFY[Q]},
        [*trained(Q, "pairs/Swin-T/*"), *trained(Q, "pairs/CSwin-T/*")],
    ),
    (
        f"{Q}.grid.sizes.T.*",
        {CLASSIFY[Q]},
        [*trained(Q, "ablation/*"), *trained(Q, "pairs/Swin-T/*"), *trained(Q, "pairs/CSwin-T/*")],
    ),
    (f"{Q}.grid.sizes.S.*", {CLASSIFY[Q]}, trained(Q, "pairs/LipsFormer-Swin-S/*")),
    (f"{Q}.grid.sizes.B.*", {CLASSIFY[Q]}, trained(Q, "pairs/LipsFormer-Swin-B/*")),
    (f"{Q}.grid.sizes.L.*", {CLASSIFY[Q]}, []),  # no such network there
    (f"{Q}.grid.ablation.base.alpha", {CLASSIFY[Q]}, trained(Q, "ablation/*")),
    (f"{Q}.grid.ablation.base.drop_path", {CLASSIFY[Q]}, trained(Q, "ablation/*")),
    (f"{Q}.grid.ablation.epochs", {CLASSIFY[Q]}, trained(Q, "ablation/*")),
    (f"{Q}.grid.ablation.warmup_epochs", {CLASSIFY[Q]}, trained(Q, "ablation/warmup/*")),
    (f"{Q}.grid.ablation.variants", {CLASSIFY[Q], "render"}, trained(Q, "ablation/conv_a/*")),
    (f"{Q}.grid.pairs.networks", {CLASSIFY[Q], "render"}, trained(Q, "pairs/LipsFormer-CSwin-T/*")),
    (
        f"{Q}.grid.constrained.networks",
        {CLASSIFY[Q], CONSTRAINED, "render"},
        [f"{CLASSIFY[Q]}/pairs/LipsFormer-CSwin-T/*", f"{CONSTRAINED}/LipsFormer-CSwin-T/*", "render"],
    ),
    (f"{Q}.grid.constrained.*", {CONSTRAINED}, [f"{CONSTRAINED}/*", "render"]),
    (
        f"{Q}.grid.pairs.warmup_epochs",
        {CLASSIFY[Q]},
        [*trained(Q, "pairs/Swin-T/*"), *trained(Q, "pairs/CSwin-T/*")],
    ),
    (f"{Q}.throughput.networks", {THROUGHPUT, "render"}, [f"{THROUGHPUT}/LipsFormer-Swin-B/*", "render"]),
    (f"{Q}.throughput.*", {THROUGHPUT}, [f"{THROUGHPUT}/*", "render"]),
    (f"{Q}.retest.networks", {RETEST, "render"}, ["render"]),  # one less
    (f"{Q}.retest.*", {RETEST}, [f"{RETEST}/*", "render"]),
    (f"{T}.grid.depths", {CLASSIFY[T], "render"}, trained(T, "residual/*/depth36/*")),
    (f"{T}.grid.residuals", {CLASSIFY[T], "render"}, trained(T, "residual/skip_init/*")),
    (f"{T}.grid.drop_paths.depth", {CLASSIFY[T], "render"}, trained(T, "drop_path/*")),
    (f"{T}.grid.drop_paths.variants", {CLASSIFY[T], "render"}, trained(T, "drop_path/uniform/*")),
    (f"{T}.grid.drop_paths.*", {CLASSIFY[T]}, trained(T, "drop_path/*")),
    (f"{T}.grid.class_tokens.depth", {CLASSIFY[T], "render"}, trained(T, "class_token/*")),
    (f"{T}.grid.class_tokens.variants", {CLASSIFY[T], "render"}, trained(T, "class_token/from_start/*")),
    (f"{T}.grid.class_tokens.*", {CLASSIFY[T]}, trained(T, "class_token/*")),
    (f"{Y}.grid.depths", {*of(Y), "render"}, ["render"]),  # one less
    (f"{Y}.grid.variants", {*of(Y), "render"}, trained(Y, "dot_gp/*")),
    (f"{Y}.grid.optimisers.depth_12_pretraining.*", {CLASSIFY[Y]}, []),  # nothing is pre-trained there
    *(
        (f"{Y}.grid.optimisers.depth_{depth}.*", {CLASSIFY[Y]}, trained(Y, f"*/depth{depth}/*"))
        for depth in (6, 12)
    ),
    (f"{Y}.uncertainty.*", {UNCERTAINTY}, [f"{UNCERTAINTY}/*", "render"]),
]
FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{T}.seeds": lambda seeds: [*seeds, 1],
    f"{Q}.grid.ablation.extra_seeds.variants": lambda names: ["base"],
    f"{Q}.grid.ablation.extra_seeds.seeds": lambda seeds: [1],
    f"{T}.extra_seeds": lambda groups: [{"variants": ["pre_norm"], "depths": [24], "seeds": [1]}],
    f"{T}.grid.given_rates": lambda runs: [{"residual": "rezero", "depth": 24, "lr": 2.0e-3, "seeds": [3]}],
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
    f"{Q}.grid.sizes.*.average": lambda n: 0.8,
    **{f"{study}.images.size": lambda n: 16 for study in STUDIES},
    f"{T}.tuning.rates": lambda rates: [1.0e-3, 2.0e-3],
    f"{Y}.network.maps": lambda name: {"xavier": "deit", "deit": "xavier"}[name],
    f"{Q}.grid.ablation.variants": lambda names: [*names, "conv_a"],
    f"{Q}.grid.pairs.networks": lambda names: [*names, "LipsFormer-CSwin-T"],
    f"{Q}.grid.constrained.networks": lambda names: [*names, "LipsFormer-CSwin-T"],
    f"{Q}.grid.constrained.kind": lambda name: "bjorck",
    f"{Q}.grid.constrained.method": lambda name: "power",
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
FIXED = {f"{Y}.grid.pretrained"}  # pre-trains on ImageNet, which the scratch checkout does not have
QUICK = {
    f"{Q}.train.label_smoothing",
    f"{Q}.grid.ablation.variants",
    f"{T}.grid.drop_paths.rate",
    f"{Y}.network.gp.ridge",
    f"{Y}.uncertainty.bins",
}
