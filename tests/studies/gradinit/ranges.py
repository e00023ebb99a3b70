"""Ranges of ``gradinit`` in params.yaml and rules between its keys, written by hand; ``test_schema`` tries them."""

from typing import get_args

from relearn.studies.gradinit import params as schema_gradinit

from ...params.rules import COUNT, POSITIVE, Range, Rule, rule

G = "gradinit"
T = f"{G}.translation"
BELOW_ONE = ([0, 0.99], [1, -0.1, float("nan")])
NETWORKS = ([[], ["VGG-19", "WRN-28-10"]], [["ResNet18"], ["VGG-19", "VGG-19"], "VGG-19", [1]])
STARTS = ([[], ["post_ln/xavier", "w_skip/admin"]], [["pre_ln/xavier"], ["post_ln/kaiming"], ["post_ln"]])
RANGES: dict[str, Range] = {
    f"{G}.images.dataset": (["digits"], ["imagenet", "Digits"]),
    f"{G}.images.train_per_class": ([130, 164], [1, 0, 2.0]),
    f"{G}.corpus.dataset": (["multi30k", "iwslt14"], ["wmt", None]),
    f"{G}.corpus.vocabulary": ([50, 200], [49, 50.0]),
    f"{G}.corpus.max_length": ([4, 60], [3, 4.0]),
    f"{G}.corpus.train_pairs": ([0, 10], [-1, 1.0]),
    f"{G}.corpus.test_pairs": ([0, 10], [-1, 1.0]),
    f"{G}.network.resnet1202_depth": ([0.01, 1, 4], [0, 4.1]),
    f"{G}.initialise.batch_size": ([2, 64], [1, 2.0]),
    f"{G}.initialise.densenet_batch_size": ([2, 64], [1, 2.0]),
    f"{G}.train.densenet_batch_size": ([2, 64], [1, 2.0]),
    f"{G}.initialise.iterations": COUNT,
    f"{G}.initialise.eta": POSITIVE,
    f"{G}.initialise.gamma": POSITIVE,
    f"{G}.initialise.overlap": ([0, 0.5, 1], [-0.1, 1.1]),
    f"{G}.initialise.min_scale": ([0.01, 0.99], [0, 1, float("nan")]),
    f"{G}.initialise.normalised": ([True, False], [0, "true"]),
    f"{G}.initialise.clip": ([0, 0.5], [-1.0, "none"]),
    f"{G}.initialise.divide_by_eta": ([True, False], [0, "true"]),
    f"{G}.initialise.moments": (["shared", "split"], ["both", None]),
    f"{G}.translation.train.decoupled_decay": ([True, False], [0, "true"]),
    **{f"{G}.initialise.tau.{name}": POSITIVE for name in get_args(schema_gradinit.NetworkName)},
    **{f"{G}.initialise.free_tau.{name}": POSITIVE for name in ("half", "same", "same_large")},
    f"{G}.initialise.penalties": ([[], [0.5, 0.1]], [[0], [1.0, 1.0], 0.1]),
    f"{G}.initialise.metainit.momentum": BELOW_ONE,
    f"{G}.initialise.metainit_adam.clip": POSITIVE,
    **{
        f"{G}.initialise.metainit_adam.tau.{name}": POSITIVE for name in get_args(schema_gradinit.NetworkName)
    },
    f"{G}.initialise.lsuv.tolerance": POSITIVE,
    f"{G}.train.cutout": ([0, 16], [-1, 1.0]),
    f"{G}.train.clip_norm": POSITIVE,
    f"{G}.train.mixup": POSITIVE,
    f"{G}.scalars.low_lr": POSITIVE,
    **{f"{G}.networks.{name}": NETWORKS for name in schema_gradinit.ImageGrid.model_fields},
    f"{G}.adamw_networks": NETWORKS,
    f"{G}.scalar_networks": NETWORKS,
    f"{G}.first_steps.networks": NETWORKS,
    f"{G}.first_steps.initialisations": ([[], ["kaiming"]], [["none"], ["kaiming", "kaiming"]]),
    **{  # networks that the grid of mini does not have
        f"{G}.imagenet.networks.{name}": ([[], ["ResNet-1202", "ResNet-110-SkipInit"]], NETWORKS[1])
        for name in schema_gradinit.FolderStarts.model_fields
    },
    f"{G}.imagenet.size": ([8, 224], [7, 32.0]),
    f"{G}.imagenet.epochs": ([2, 90], [0, 2.0]),
    f"{G}.imagenet.batch_size": ([2, 256], [1, 2.0]),
    f"{G}.imagenet.lr": POSITIVE,
    f"{G}.imagenet.milestones": ([[], [1]], [[0], [2, 1], [1, 1], 1]),
    f"{G}.imagenet.mixup": POSITIVE,
    f"{G}.imagenet.gpus": ([1, 64], [0, 65]),
    f"{G}.imagenet.initialise.batch_size": ([2, 128], [1, 2.0]),
    f"{G}.imagenet.initialise.iterations": COUNT,
    f"{G}.imagenet.initialise.gamma": POSITIVE,
    f"{G}.imagenet.initialise.normalised": ([True, False], [0, "true"]),
    f"{G}.probe.networks": NETWORKS,
    f"{G}.probe.batches": ([2], [1, 2.0]),
    f"{G}.probe.variance_draws": ([100], [99]),
    **{f"{T}.network.{name}": COUNT for name in ("ffn", "layers")},
    f"{T}.network.heads": ([1, 2], [0, 2.0]),
    f"{T}.network.dim": ([8, 48], [0, 8.0]),
    f"{T}.train.steps": ([1, 100], [0, 1.0]),
    f"{T}.train.warmup_steps": ([1], [0, 1.0]),
    f"{T}.train.short_warmup.steps": ([1, 99], [0, 1.0]),
    f"{T}.train.short_warmup.lr": POSITIVE,
    f"{T}.train.schedule_steps": ([100, 1000], [0, 100.0]),
    f"{T}.initialise.tau": POSITIVE,
    f"{T}.train.sgd_lr": POSITIVE,
    f"{T}.train.schedule": (["linear", "cosine"], ["step", "Linear"]),
    f"{T}.train.clip_norm": ([0, 1.5], [-0.1, float("nan"), "1"]),
    f"{T}.train.betas": ([[0, 0.99]], [[0.9], [0.9, 1.0], [0.9, 0.9, 0.9], 0.9]),
    f"{T}.train.evaluations": COUNT,
    f"{T}.beam.size": COUNT,
    f"{T}.beam.length_penalty": ([0, 1.5], [-0.1]),
    f"{T}.beam.extra": COUNT,
    f"{T}.seeds": ([[], [0, 5]], [[1, 1], [-1], 3]),
    f"{G}.extra_seeds.networks": ([[], ["VGG-19"]], [["VGG-16"], "VGG-19"]),
    f"{G}.extra_seeds.initialisations": ([[], ["kaiming", "gradinit"]], [["zero"], ["kaiming", "kaiming"]]),
    f"{G}.extra_seeds.seeds": ([[], [100, 7]], [[7, 7], [-1]]),
    f"{G}.first_steps.seeds": ([[], [0, 5]], [[1, 1], [-1], 3]),
    f"{G}.tuning.metainit.seeds": ([[], [100]], [[7, 7], [-1]]),
    f"{G}.tuning.metainit.factors": ([[], [0.1, 3]], [[0], [1.0, 1.0]]),
    f"{G}.tuning.gradinit.seeds": ([[], [100]], [[7, 7], [-1]]),
    f"{G}.tuning.gradinit.factors": ([[], [0.1, 3]], [[0], [1.0, 1.0]]),
    f"{G}.tuning.translation.seeds": ([[], [100]], [[7, 7], [-1]]),
    f"{G}.tuning.translation.taus": ([[], [0.1, 1]], [[0], [0.1, 0.1]]),
    f"{G}.tuning.translation.sgd_rates": ([[], [0.1, 1]], [[0], [0.1, 0.1]]),
    f"{T}.other_seeds": ([0, 3], [-1, 1.0]),
    f"{T}.beam.factor": ([0.5, 10], [0, 10.1, float("nan")]),
    f"{T}.runs": (
        [[], ["post_ln/xavier/adam", "post_ln/xavier/adam_short_warmup"]],
        [["post_ln/xavier"], ["post_ln/xavier/sgdw"], ["a/b/c"]],
    ),
    f"{T}.grid.runs": STARTS,
    f"{T}.grid.lr": ([[], [0.1, 1]], [[0], [0.1, 0.1]]),
    f"{T}.grid.beta2": ([[], [0.9]], [[1.0], [0.9, 0.9]]),
    f"{T}.probe.runs": STARTS,
}

RULES: list[Rule] = [
    rule(f"{G}.images.train_per_class", 164, 165),
    *(
        rule(f"{G}.{section}.batch_size", most, most + 1)
        for section, most in (("train", 1300), ("probe", 1300), ("initialise", 866), ("first_steps", 866))
    ),
    *(
        rule(f"{G}.{section}.densenet_batch_size", most, most + 1)
        for section, most in (("train", 1300), ("initialise", 866))
    ),
    rule(f"{G}.initialise.batch_size", 1300, 1301, {f"{G}.initialise.overlap": 1.0}),
    rule(f"{G}.imagenet.milestones", [3, 6], [3, 7], {f"{G}.imagenet.epochs": 7}, at="[1]"),
    (  # one network, one data set
        {f"{G}.imagenet.networks.fixup": ["timm-ResNet-50-BN"]},
        {
            f"{G}.imagenet.networks.gradinit": ["VGG-19", "timm-ResNet-50-BN"],
            f"{G}.networks.gradinit": ["timm-ResNet-50-BN"],
        },
        f"{G}.imagenet.networks.gradinit[1]",
    ),
    rule(f"{G}.train.test_images", 497, 498),
    rule(f"{G}.extra_seeds.seeds", [1], [1, 0], at="[1]"),
    *(  # a seed that chooses decides nothing else
        rule(f"{G}.tuning.{name}.seeds", [1], [1, 0], at="[1]")
        for name in ("metainit", "gradinit", "translation")
    ),
    (  # without a search it would be GradInit under another name
        {f"{G}.networks.gradinit_tuned": ["VGG-19"]},
        {f"{G}.networks.gradinit_tuned": ["VGG-19"], f"{G}.tuning.gradinit.factors": []},
        f"{G}.networks.gradinit_tuned",
    ),
    rule(f"{T}.network.dim", 8, 10),
    ({f"{T}.network.heads": 1}, {f"{T}.network.heads": 1, f"{T}.network.dim": 7}, f"{T}.network.dim"),
    rule(f"{T}.initialise.max_tokens", 183, 182),
    rule(f"{T}.train.max_tokens", 61, 60),
    rule(f"{T}.train.steps", 100, 101),
    rule(f"{T}.train.short_warmup.steps", 99, 100),
    rule(f"{T}.train.warmup_steps", 99, 100),
]
