"""Ranges of ``long_short`` and ``robustness`` in params.yaml and the rules between their keys, by hand; ``test_schema`` tries them."""

from typing import Any

from ...params.rules import (
    BETAS,
    COUNT,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    SEEDS,
    SEVERAL,
    SHARE,
    Range,
    Rule,
    only_with,
    rule,
)

S, R = "long_short", "robustness.withstand"
PHASE = {"length": 64, "steps": 3, "warmup_steps": 1, "batch_size": 2, "lr": 0.1}
RECIPE = {
    "networks": ["DeiT-S"],
    "optimizer": "sgd",
    "lr": 0.1,
    "batch_size": 8,
    "epochs": 3,
    "weight_decay": 0.0,
    "drop_path": 0.0,
    "label_smoothing": 0.1,
    "randaugment": 0.0,
    "mixup": 0.0,
    "cutmix": 1.0,
}
RELEASED = {"network": "ResNet-50", "file": "resnet50.pth", "name": "resnet50", "average": False}
TEXT, TASK = f"{S}.prepare_lra.text", f"{S}.train_lra.tasks"
RANGES: dict[str, Range] = {
    f"{S}.seeds": SEEDS,
    f"{TEXT}.dataset": (["imdb", "python"], ["aan", "generated", 1]),
    f"{S}.prepare_lra.listops.dataset": (["generated", "lra_release"], ["listops", "python"]),
    f"{S}.prepare_lra.pathfinder.dataset": (["generated", "lra_release"], ["cifar10"]),
    f"{S}.prepare_lra.retrieval.dataset": (
        ["aan", "lra_release", "python_kinds", "python_documents"],
        ["imdb"],
    ),
    f"{S}.prepare_lra.listops.form.closing": FLAG,
    f"{TEXT}.max_length": ([512, 1000], [7, 128.0]),
    f"{TEXT}.train_samples": ([0, 100], [-1, 100.0]),
    f"{TEXT}.valid_samples": SEVERAL,
    f"{TEXT}.test_samples": SEVERAL,
    f"{S}.prepare_lra.listops.form.max_depth": ([1, 100], [0, 101, 2.0]),
    f"{S}.prepare_lra.listops.form.max_args": ([2, 100], [1, 101, 3.0]),
    f"{S}.prepare_lra.listops.form.operator_frac": ([0.1, 0.9], [0, 1, 1.1]),
    f"{S}.prepare_lra.pathfinder.form.size": ([], [7, 16.0]),
    f"{S}.prepare_lra.pathfinder.form.dashes": ([2, 9], [1, 3.0]),
    f"{S}.prepare_lra.pathfinder.form.distractors": SEVERAL,
    f"{S}.prepare_lra.pathfinder.form.distractor_dashes": COUNT,
    f"{S}.prepare_lra.pathfinder.form.dash": POSITIVE,
    f"{S}.prepare_lra.pathfinder.form.gap": NOT_NEGATIVE,
    f"{S}.prepare_lra.pathfinder.form.clearance": POSITIVE,
    f"{S}.prepare_lra.pathfinder.form.radius": POSITIVE,
    f"{S}.encoder.layers": COUNT,
    f"{S}.encoder.ffn": COUNT,
    f"{S}.train_lra.window": ([1, 9], [-1, 2.0]),
    f"{S}.train_lra.baselines.linformer.rank": COUNT,
    f"{S}.train_lra.baselines.nystromformer.landmarks": COUNT,
    f"{S}.train_lra.baselines.performer.features": COUNT,
    f"{S}.train_lra.baselines.reformer.rounds": COUNT,
    f"{S}.train_lra.baselines.reformer.chunk": COUNT,
    f"{S}.train_lra.baselines.big_bird.block": COUNT,
    f"{S}.train_lra.baselines.big_bird.random": SEVERAL,
    f"{S}.train_lra.baselines.sinkhorn.block": COUNT,
    f"{S}.train_lra.betas": BETAS,
    f"{S}.train_lra.adam_eps": POSITIVE,
    f"{S}.train_lra.evaluations": COUNT,
    f"{S}.train_lra.trim": FLAG,
    f"{S}.train_lra.schedule": (["linear", "cosine", "constant", "inverse_sqrt"], ["step", 1]),
    f"{S}.train_lra.clip_norm": NOT_NEGATIVE,
    f"{S}.train_lra.pooling": (["", "mean", "class"], ["max", None]),
    f"{S}.train_long_char_lm.clip_norm": NOT_NEGATIVE,
    f"{S}.train_long_char_lm.diverged_above": NOT_NEGATIVE,
    f"{S}.convert_roberta.schedule": (["cosine"], ["step"]),
    f"{S}.convert_roberta.clip_norm": NOT_NEGATIVE,
    f"{S}.benchmark_attention.latency.vocabulary": COUNT,
    f"{S}.benchmark_attention.latency.classes": ([2, 10], [1, 2.0]),
    f"{TASK}.text.attentions": (
        [["full"], ["sinkhorn", "long_short_best"]],
        [[], ["softmax"], ["full", "full"], "full"],
    ),
    f"{TASK}.text.lr": POSITIVE,
    f"{TASK}.text.rates": ([[], [1.0e-3, 2.0e-3]], [[2.0e-3, 1.0e-3], [0, 1.0], 1.0]),
    f"{S}.train_lra.seeds": ([[], [0, 5]], [[1, 1], [-1], 3]),
    f"{S}.train_lra.tuning_seeds": ([[3], [100, 101]], [[], [-1], [5, 5]]),
    f"{TASK}.text.weight_decay": NOT_NEGATIVE,
    f"{TASK}.text.dropout": SHARE,
    f"{TASK}.text.dynamic_rank": COUNT,
    f"{S}.prepare_char_stream.datasets": (
        [["enwik8"], ["text8", "warandpeace"]],
        [[], ["ptb"], ["text8", "text8"], "text8"],
    ),
    f"{S}.prepare_char_stream.characters": ([0, 100_000], [-1, 1000.0, 1_000_000_001]),
    f"{S}.char_lm.layers": COUNT,
    f"{S}.char_lm.large_layers": COUNT,
    f"{S}.char_lm.large_dropout": SHARE,
    f"{S}.char_lm.segment": ([8, 16], [0, 8.0]),
    f"{S}.char_lm.rank": COUNT,
    f"{S}.train_long_char_lm.seeds": ([[], [0, 5]], [[1, 1], [-1], 3]),
    f"{S}.train_long_char_lm.variants": (
        [["full"], ["large", "no_dual_norm"]],
        [[], ["small"], ["full", "full"], "full"],
    ),
    f"{S}.train_long_char_lm.phases": (
        [[PHASE], [PHASE, PHASE]],
        [[], PHASE, [{**PHASE, "length": 0}], [{**PHASE, "lr": 0}]],
    ),
    f"{S}.train_long_char_lm.large_datasets": (
        [[], ["enwik8"], ["text8", "warandpeace"]],
        [["ptb"], ["text8", "text8"], "text8"],
    ),
    f"{S}.train_long_char_lm.text8_lr": NOT_NEGATIVE,
    f"{S}.train_long_char_lm.large_weight_decay": NOT_NEGATIVE,
    f"{S}.train_long_char_lm.history_characters": ([2, 100], [0, 1, 2.0]),
    f"{S}.train_long_char_lm.evaluation.form": (["windows", "cached"], ["window", 1]),
    f"{S}.train_long_char_lm.evaluation.context": ([4096], [0, 4096.0]),
    f"{S}.train_long_char_lm.evaluation.batch_size": COUNT,
    f"{S}.train_long_char_lm.evaluation.characters": ([0, 100], [-1, 100.0]),
    f"{S}.convert_roberta.variants": (
        [["long_short"], ["full", "long_short"]],
        [[], ["longformer"], ["full", "full"], "full"],
    ),
    f"{S}.convert_roberta.dataset": (["imdb"], ["aan", 1]),
    f"{S}.convert_roberta.train_samples": SEVERAL,
    f"{S}.convert_roberta.max_bytes": ([8, 400], [7, 400.0]),
    f"{S}.convert_roberta.checkpoint": (["", "FacebookAI/roberta-base"], [None, 1]),
    f"{S}.convert_roberta.large_checkpoint": ([""], [None, 1]),
    f"{S}.convert_roberta.config.layers": COUNT,
    f"{S}.convert_roberta.config.dropout": SHARE,
    f"{S}.convert_roberta.config.vocabulary": ([261, 4096], [260, 300.0]),
    f"{S}.convert_roberta.config.max_length": ([3, 64], [2, 32.0]),
    f"{S}.convert_roberta.max_length": ([512], [2, 64.0]),
    f"{S}.convert_roberta.window": ([1, 9], [-1, 2.0]),
    f"{S}.convert_roberta.rank": ([1, 9], [-1, 2.0]),
    f"{S}.convert_roberta.mlm_probability": ([0.01, 1], [0, 1.1]),
    f"{S}.convert_roberta.pretrain.steps": ([8, 100], [-1, 2.0]),
    f"{S}.convert_roberta.convert_pretrain.lr": POSITIVE,
    f"{S}.convert_roberta.finetune.weight_decay": NOT_NEGATIVE,
    f"{S}.convert_roberta.evaluations": COUNT,
    f"{S}.benchmark_attention.curve.vocabulary": COUNT,
    f"{S}.benchmark_attention.curve.attentions": (
        [["long_short"], ["full"], ["long_short_no_cache", "long_short_window_cache"]],
        [[], ["linformer"], ["full", "full"], "full"],
    ),
    f"{S}.benchmark_attention.curve.lengths": ([[64], [64, 128]], [[], [0], [64, 32], [64, 64], 64]),
    f"{S}.benchmark_attention.curve.batches": ([[1], [1, 4]], [[], [0], [4, 1], [2, 2], 1]),
    f"{S}.benchmark_attention.curve.memory": FLAG,
    f"{S}.benchmark_attention.curve.repeats": COUNT,
    f"{S}.benchmark_attention.latency.attentions": ([["reformer"]], [[], ["softmax"], ["full", "full"]]),
    f"{S}.benchmark_attention.latency.lengths.text": COUNT,
    f"{S}.benchmark_attention.latency.lengths.listops": COUNT,
    f"{S}.benchmark_attention.latency.lengths.retrieval": COUNT,
    f"{S}.count_params_flops.families": (
        [["vision"], ["language", "lra"]],
        [[], ["images"], ["lra", "lra"], "lra"],
    ),
    f"{S}.images.train_per_class": ([10, 130], [-1, 20.0]),
    f"{S}.network.width": ([0.125, 4], [0, 4.5]),
    f"{S}.network.depth": ([0.125, 4], [0, 4.5]),
    f"{S}.network.window": COUNT,
    f"{S}.train.optimizer": (["adamw", "sgd"], ["adam", 1]),
    f"{S}.train.drop_path": SHARE,
    f"{S}.train.average": SHARE,
    f"{S}.train.own": (
        [[], [RECIPE], [{**RECIPE, "networks": ["CvT-13", "CvT-21"], "drop_path": 0.5}]],
        [[{"networks": ["DeiT-S"]}], [{**RECIPE, "networks": ["ViT-S"]}], [{**RECIPE, "lr": 0}], RECIPE],
    ),
    f"{S}.grid.networks": ([], [[], ["CvT-W24"], ["CvT-13", "CvT-13"], "CvT-13"]),
    f"{S}.grid.similarity": ([[], ["CvT-LS-13"]], [["ViT-S"], ["CvT-13", "CvT-13"], "CvT-13"]),
    f"{S}.patch_similarity.absolute": FLAG,
    f"{S}.patch_similarity.batch_size": COUNT,
    f"{S}.throughput.networks": ([[], ["CvT-13"]], [["ViT-S"], ["CvT-13", "CvT-13"], "CvT-13"]),
    f"{S}.throughput.against": (["DeiT-S"], ["ViT-S", 1]),
    f"{S}.throughput.batch_size": COUNT,
    f"{S}.throughput.size": ([8, 224], [7, 16.0]),
    f"{S}.throughput.repeats": COUNT,
    f"{R}.networks": ([[], ["ResNet-50"]], [["ResNet-101"], ["ResNet-50", "ResNet-50"], "ResNet-50"]),
    f"{R}.checkpoints": ([[]], [[{"network": "ResNet-50"}], RELEASED]),
    f"{R}.corruptions": ([[], ["fog"]], [["rain"], ["fog", "fog"], "fog"]),
    f"{R}.severities": ([[1], [2, 5]], [[], [0], [6], [3, 1], [2, 2], 1]),
    f"{R}.pgd.eps": ([[1.0e-6, 1], [0.5]], [[], [0], [1.01], [0.1, 0.05], [0.1, 0.1], 0.1]),
    f"{R}.pgd.steps": COUNT,
    f"{R}.pgd.restarts": COUNT,
    f"{R}.pgd.checks": FLAG,
    **{
        f"{R}.sets.{name}": (["", "a_folder"], [1, None])
        for name in ("val", "real", "v2", "c", "a", "r", "nine")
    },
    f"{R}.protocol.size": ([32, 224], [31, 56.0]),
    f"{R}.protocol.crop_ratio": ([0.5, 1], [0, 1.1]),
    f"{R}.protocol.cropped_ratio": ([0.5, 1], [0, 1.1]),
    f"{R}.protocol.interpolation": (["lanczos"], ["nearest", 1]),
    f"{R}.protocol.on_bad_image": (["fail", "skip"], ["ignore", True]),
    f"{R}.protocol.on_missing_class": (["fail", "skip"], ["ignore", True]),
}
FORM, PATHS = f"{S}.prepare_lra.listops.form", f"{S}.prepare_lra.pathfinder"
LISTOPS, CURVE, WAY = (
    f"{S}.prepare_lra.listops.max_length",
    f"{S}.benchmark_attention.curve",
    f"{S}.train_long_char_lm.evaluation",
)
CIFAR, IMAGENET = (
    {f"{S}.images.dataset": "cifar10"},
    {
        f"{S}.images.dataset": "imagenet",
        f"{S}.images.size": 224,
    },
)
PATCH, IMAGES, TESTED = f"{S}.network.patch_size", f"{S}.images.train_per_class", f"{S}.train.test_images"
LOOKED, ATTACKED, WITHSTOOD = f"{S}.patch_similarity.images", f"{R}.pgd.images", f"{R}.images"
WITHOUT = {f"{S}.grid.similarity": []}
SEEN = {
    f"{S}.grid.networks": ["CvT-13", "DeiT-S", "ResNet-50", "ViL-Medium", "Swin-T"],
    f"{R}.networks": [],
}
ONE, SMALL = f"{TASK}.text", {f"{S}.char_lm.window": 8, f"{S}.char_lm.segment": 8}
SHORT = {f"{TEXT}.max_length": 40}
OWN = {**SHORT, f"{ONE}.attentions": ["long_short_best"]}
SHARED = {**SHORT, f"{ONE}.attentions": ["long_short"], f"{S}.train_lra.window": 4}
BOTH: dict[str, Any] = {
    f"{TASK}.{task}.attentions": ["full"] for task in ("listops", "text", "retrieval", "image", "pathfinder")
}


def phases(**own: Any) -> dict[str, Any]:
    return {f"{S}.train_long_char_lm.phases": [PHASE, {**PHASE, **own}]}


ADAPT = f"{S}.convert_roberta"
RULES: list[Rule] = [
    rule(f"{R}.pgd.steps", 2, 1, {f"{R}.pgd.checks": True}),
    rule(f"{ADAPT}.config.dim", 34, 33),
    rule(f"{ADAPT}.max_length", 32, 31),
    only_with({f"{ADAPT}.checkpoint": "a_model"}, f"{ADAPT}.max_length", 31),
    *(
        ({f"{ADAPT}.{key}": 0}, {f"{ADAPT}.window": 0, f"{ADAPT}.rank": 0}, f"{ADAPT}.window")
        for key in ("window", "rank")
    ),
    *(
        rule(f"{ADAPT}.{stage}.warmup_steps", 20, 21, {f"{ADAPT}.{stage}.steps": 20})
        for stage in ("pretrain", "convert_pretrain", "finetune")
    ),
    rule(f"{ADAPT}.finetune.steps", 1, 0, {f"{ADAPT}.finetune.warmup_steps": 0}),
    (
        {f"{ADAPT}.variants": ["full_large"], f"{ADAPT}.large_checkpoint": "a_model"},
        {f"{ADAPT}.variants": ["full_large"]},
        f"{ADAPT}.variants[0]",
    ),
    rule(LISTOPS, 119, 118, {f"{FORM}.max_length": 120}, named=f"{FORM}.max_length"),
    rule(f"{FORM}.min_length", 58, 59, {f"{FORM}.max_length": 60}),
    *(
        ({}, {f"{S}.prepare_lra.image.max_length": wrong}, f"{S}.prepare_lra.image.max_length")
        for wrong in (63, 65)
    ),
    rule(f"{S}.prepare_lra.image.max_length", 1024, 64, {f"{S}.prepare_lra.image.dataset": "cifar10"}),
    *(rule(f"{PATHS}.max_length", 400, wrong, {f"{PATHS}.form.size": 20}) for wrong in (399, 401)),
    rule(f"{ONE}.batch_size", 50, 51, {f"{TEXT}.train_samples": 50}),
    rule(f"{TEXT}.train_samples", 0, 4999, {f"{ONE}.batch_size": 5000}, named=f"{ONE}.batch_size"),
    rule(f"{ONE}.warmup_steps", 20, 21, {f"{ONE}.steps": 20}),
    rule(f"{ONE}.rates", [1.0e-3, 2.0e-3], [1.0e-3]),
    # a stream has two characters to predict in each part, and no more than there are
    *(
        rule(f"{S}.prepare_char_stream.characters", within, beyond, own)
        for within, beyond, own in (
            (0, 39, {}),
            *(
                (most, most + 1, {f"{S}.prepare_char_stream.datasets": [name]})
                for name, most in (
                    ("enwik8", 100_000_000),
                    ("text8", 100_000_000),
                    ("warandpeace", 3_293_492),
                )
            ),
        )
    ),
    (phases(warmup_steps=3), phases(warmup_steps=4), f"{S}.train_long_char_lm.phases[1].warmup_steps"),
    # an attention sees something, and no more than there is
    rule(f"{ONE}.rank", 1, 0, {**OWN, f"{ONE}.window": 0}, named=f"{ONE}.window"),
    rule(f"{ONE}.rank", 10, 11, {**OWN, f"{ONE}.window": 15}),
    rule(f"{S}.train_lra.rank", 32, 33, SHARED),
    (
        {**BOTH, f"{S}.train_lra.window": 0, f"{S}.train_lra.rank": 0},
        {
            **BOTH,
            f"{S}.train_lra.window": 0,
            f"{S}.train_lra.rank": 0,
            f"{ONE}.attentions": ["long_short"],
        },
        f"{S}.train_lra.window",
    ),
    *(
        rule(f"{S}.train_lra.window", just, wrong, {**BOTH, **SHORT, f"{ONE}.attentions": ["window"]})
        for just, wrong in ((1, 0), (20, 21))
    ),
    rule(f"{ONE}.dynamic_rank", 40, 41, {**BOTH, **SHORT, f"{ONE}.attentions": ["dynamic"]}),
    # a network has one recipe
    rule(
        f"{S}.train.own",
        [RECIPE, {**RECIPE, "networks": ["CvT-13"]}],
        [RECIPE, {**RECIPE, "networks": ["CvT-13", "DeiT-S"]}],
        at="[1].networks",
    ),
    # the warm-up is a part of the epochs
    rule(
        f"{S}.train.own",
        [{**RECIPE, "epochs": 2}],
        [{**RECIPE, "epochs": 1}],
        {f"{S}.train.warmup_epochs": 2},
        at="[0].epochs",
    ),
    rule(f"{S}.train_lra.baselines.longformer.window", 2, 3),
    *(
        rule(f"{S}.{section}.dim", 12, 14, {f"{S}.{section}.heads": 4})
        for section in ("encoder", "char_lm", "benchmark_attention.curve")
    ),
    # w = 4 of l = 8 covers, as gcd = 4; of l = 10, gcd 2, neither 4 does nor 6, which is more than half
    rule(f"{CURVE}.segment", 8, 10, {f"{CURVE}.window": 4}, named=f"{CURVE}.window"),
    rule(f"{CURVE}.window", 8, 6, {f"{CURVE}.segment": 10}),
    rule(f"{S}.char_lm.window", 4, 3, SMALL),
    *(
        rule(
            f"{S}.train_long_char_lm.phases",
            [{**PHASE, "length": 48}],
            [{**PHASE, "length": wrong}],
            {**SMALL, f"{S}.char_lm.window": 12},
            at="[0].length",
        )
        for wrong in (36, 40)  # no whole segments, no whole windows
    ),
    (
        {
            **SMALL,
            f"{S}.prepare_char_stream.characters": 1427,
            **phases(length=640),
        },  # 1285 in train: 642 in a lane
        {**SMALL, f"{S}.prepare_char_stream.characters": 1427, **phases(length=648)},
        f"{S}.train_long_char_lm.phases[1].length",
    ),
    (
        {f"{S}.prepare_char_stream.characters": 0, **phases(length=6400)},
        {**phases(length=640_000)},
        f"{S}.train_long_char_lm.phases[1].length",
    ),
    rule(f"{WAY}.step", 100, 101, {f"{WAY}.form": "windows", f"{WAY}.context": 100}),
    rule(
        f"{WAY}.form", "cached", "windows", {f"{WAY}.context": 100, f"{WAY}.step": 101}, named=f"{WAY}.step"
    ),
    rule(f"{WAY}.characters", 2, 1),
    rule(f"{CURVE}.full_longest", 96, 95, {f"{CURVE}.lengths": [96, 128]}),
    only_with({f"{CURVE}.attentions": ["long_short"]}, f"{CURVE}.full_longest", 1),
    # networks for images
    ({IMAGES: 164, **dict.fromkeys((LOOKED, WITHSTOOD, ATTACKED), 0)}, {IMAGES: 165}, IMAGES),
    rule(IMAGES, 130, 1),
    rule(IMAGES, 5000, 5001, CIFAR),
    rule(IMAGES, 0, 130, IMAGENET),
    # a released checkpoint is one of ImageNet, on sets of its images
    rule(
        f"{R}.sets.val",
        "imagenet/val",
        "",
        {**IMAGENET, IMAGES: 0, f"{R}.checkpoints": [RELEASED]},
        named=f"{R}.checkpoints[0].network",
    ),
    rule(f"{R}.checkpoints", [], [RELEASED], at="[0].network"),
    # a network has one at most
    rule(
        f"{R}.checkpoints",
        [RELEASED],
        [RELEASED, RELEASED],
        {**IMAGENET, IMAGES: 0, f"{R}.sets.val": "imagenet/val"},
        at="[1].network",
    ),
    rule(PATCH, 2, 3, WITHOUT),
    rule(PATCH, 2, 3, {**WITHOUT, f"{S}.grid.networks": ["CvT-13"], f"{R}.networks": []}),
    # DeiT's patches are four times as wide
    rule(
        f"{S}.grid.networks",
        ["CvT-13"],
        ["CvT-13", "DeiT-S"],
        {PATCH: 4, **WITHOUT, f"{R}.networks": []},
        named=PATCH,
    ),
    rule(f"{S}.train.batch_size", 1300, 1301),
    rule(
        f"{S}.train.own",
        [{**RECIPE, "batch_size": 1300}],
        [{**RECIPE, "batch_size": 1301}],
        at="[0].batch_size",
    ),
    rule(f"{S}.train.warmup_epochs", 3, 4, {f"{S}.train.epochs": 3}),
    *(rule(key, 497, 498) for key in (TESTED, LOOKED, WITHSTOOD)),
    rule(ATTACKED, 90, 91, {WITHSTOOD: 90}),
    rule(WITHSTOOD, 0, 399, {ATTACKED: 400}, named=ATTACKED),
    (
        {f"{S}.grid.networks": ["CvT-21", "CvT-13"], f"{S}.grid.similarity": ["CvT-13"], f"{R}.networks": []},
        {f"{S}.grid.networks": ["CvT-21"], f"{S}.grid.similarity": ["CvT-21", "CvT-13"], f"{R}.networks": []},
        f"{S}.grid.similarity[1]",
    ),
    # the last layer of three stages is 2 x 2 on images of side 8, that of four stages one patch
    *(
        rule(f"{S}.grid.similarity", just, wrong, SEEN, at="[0]")
        for just, wrong in ((["DeiT-S"], ["ResNet-50"]), (["CvT-13"], ["ViL-Medium"]))
    ),
    rule(PATCH, 2, 4, {**CIFAR, **SEEN, f"{S}.grid.similarity": ["Swin-T"]}, named=f"{S}.grid.similarity[0]"),
    (
        {
            **WITHOUT,
            f"{S}.grid.networks": ["CvT-13"],
            f"{R}.networks": ["CvT-13"],
            f"{R}.reference": "CvT-13",
        },
        {
            **WITHOUT,
            f"{S}.grid.networks": ["CvT-13"],
            f"{R}.networks": ["ViL-Base"],
            f"{R}.reference": "ViL-Base",
        },
        f"{R}.networks[0]",
    ),
    rule(f"{R}.reference", "CvT-13", "ResNet-50", {f"{R}.networks": ["CvT-13"]}),
    rule(
        f"{R}.corruptions",
        [],
        ["fog"],
        {f"{R}.networks": ["CvT-13"], f"{R}.reference": "ResNet-50"},
        named=f"{R}.reference",
    ),
]
