"""Ranges of ``long_short`` and ``robustness`` in params.yaml and the rules between their keys, by hand; ``test_schema`` tries them."""

from __future__ import annotations

from typing import Any

S, R = "long_short", "robustness.withstand"
COUNT = ([1, 7], [0, -1, 2.0, "3", 2**64])
SEVERAL = ([0, 7], [-1, 2.0, "3", 2**64])
SHARE = ([0, 0.5], [-0.1, 1, 1.5, "a"])
NOT_NEGATIVE = ([0, 0.5, 1.0e6], [-0.1, 1.1e6, float("nan"), float("inf"), "1"])
POSITIVE = ([1.0e-9, 2, 1.0e6], [0, -0.1, 1.1e6, float("inf"), float("nan"), "1"])
FLAG = ([True, False], [0, "yes"])
PHASE = {"length": 64, "steps": 3, "warmup_steps": 1, "batch_size": 2, "lr": 0.1}
TEXT, TASK = f"{S}.sequences.text", f"{S}.understand.tasks"
RANGES: dict[str, tuple[list[Any], list[Any]]] = {
    f"{S}.seeds": ([[0], [1, 0]], [[], [-1], [0, 0], 0]),
    f"{TEXT}.dataset": (["imdb", "python"], ["aan", "generated", 1]),
    f"{S}.sequences.listops.dataset": (["generated"], ["listops", "python"]),
    f"{S}.sequences.retrieval.dataset": (["aan", "python_kinds", "python_documents"], ["imdb"]),
    f"{TEXT}.max_length": ([512, 1000], [7, 128.0]),
    f"{TEXT}.train_samples": ([0, 100], [-1, 100.0]),
    f"{TEXT}.valid_samples": SEVERAL,
    f"{TEXT}.test_samples": SEVERAL,
    f"{S}.sequences.listops.form.max_depth": ([1, 100], [0, 101, 2.0]),
    f"{S}.sequences.listops.form.max_args": ([2, 100], [1, 101, 3.0]),
    f"{S}.sequences.listops.form.operator_frac": ([0.1, 0.9], [0, 1, 1.1]),
    f"{S}.sequences.pathfinder.form.size": ([], [7, 16.0]),
    f"{S}.sequences.pathfinder.form.dashes": ([2, 9], [1, 3.0]),
    f"{S}.sequences.pathfinder.form.distractors": SEVERAL,
    f"{S}.sequences.pathfinder.form.distractor_dashes": COUNT,
    f"{S}.sequences.pathfinder.form.dash": POSITIVE,
    f"{S}.sequences.pathfinder.form.gap": NOT_NEGATIVE,
    f"{S}.sequences.pathfinder.form.clearance": POSITIVE,
    f"{S}.sequences.pathfinder.form.radius": POSITIVE,
    f"{S}.encoder.layers": COUNT,
    f"{S}.encoder.ffn": COUNT,
    f"{S}.understand.window": ([1, 9], [-1, 2.0]),
    f"{S}.understand.rivals.linformer.rank": COUNT,
    f"{S}.understand.rivals.nystromformer.landmarks": COUNT,
    f"{S}.understand.rivals.performer.features": COUNT,
    f"{S}.understand.rivals.reformer.rounds": COUNT,
    f"{S}.understand.rivals.reformer.chunk": COUNT,
    f"{S}.understand.rivals.big_bird.block": COUNT,
    f"{S}.understand.rivals.big_bird.random": SEVERAL,
    f"{S}.understand.rivals.sinkhorn.block": COUNT,
    f"{S}.understand.betas": ([[0.0, 0.5]], [[], [0.9], [0.9, 1.0], 0.9]),
    f"{S}.understand.adam_eps": POSITIVE,
    f"{S}.understand.evaluations": COUNT,
    f"{S}.understand.trim": FLAG,
    f"{TASK}.text.attentions": (
        [["full"], ["sinkhorn", "long_short_best"]],
        [[], ["softmax"], ["full", "full"], "full"],
    ),
    f"{TASK}.text.lr": POSITIVE,
    f"{TASK}.text.weight_decay": NOT_NEGATIVE,
    f"{TASK}.text.dropout": SHARE,
    f"{TASK}.text.dynamic_rank": COUNT,
    f"{S}.stream.datasets": (
        [["enwik8"], ["text8", "warandpeace"]],
        [[], ["ptb"], ["text8", "text8"], "text8"],
    ),
    f"{S}.stream.characters": ([0, 100_000], [-1, 1000.0, 1_000_000_001]),
    f"{S}.characters.layers": COUNT,
    f"{S}.characters.large_layers": COUNT,
    f"{S}.characters.large_dropout": SHARE,
    f"{S}.characters.segment": ([8, 16], [0, 8.0]),
    f"{S}.characters.rank": COUNT,
    f"{S}.predict.variants": (
        [["full"], ["large", "no_dual_norm"]],
        [[], ["small"], ["full", "full"], "full"],
    ),
    f"{S}.predict.phases": (
        [[PHASE], [PHASE, PHASE]],
        [[], PHASE, [{**PHASE, "length": 0}], [{**PHASE, "lr": 0}]],
    ),
    f"{S}.predict.large_weight_decay": NOT_NEGATIVE,
    f"{S}.predict.history_characters": ([2, 100], [0, 1, 2.0]),
    f"{S}.predict.evaluation.form": (["windows", "cached"], ["window", 1]),
    f"{S}.predict.evaluation.context": ([4096], [0, 4096.0]),
    f"{S}.predict.evaluation.batch_size": COUNT,
    f"{S}.predict.evaluation.characters": ([0, 100], [-1, 100.0]),
    f"{S}.adapt.variants": (
        [["long_short"], ["full", "long_short"]],
        [[], ["longformer"], ["full", "full"], "full"],
    ),
    f"{S}.adapt.dataset": (["imdb"], ["aan", 1]),
    f"{S}.adapt.train_samples": SEVERAL,
    f"{S}.adapt.max_bytes": ([8, 400], [7, 400.0]),
    f"{S}.adapt.checkpoint": (["", "FacebookAI/roberta-base"], [None, 1]),
    f"{S}.adapt.large_checkpoint": ([""], [None, 1]),
    f"{S}.adapt.config.layers": COUNT,
    f"{S}.adapt.config.dropout": SHARE,
    f"{S}.adapt.config.vocabulary": ([261, 4096], [260, 300.0]),
    f"{S}.adapt.config.max_length": ([3, 64], [2, 32.0]),
    f"{S}.adapt.max_length": ([512], [2, 64.0]),
    f"{S}.adapt.window": ([1, 9], [-1, 2.0]),
    f"{S}.adapt.rank": ([1, 9], [-1, 2.0]),
    f"{S}.adapt.mask_frac": ([0.01, 1], [0, 1.1]),
    f"{S}.adapt.pretrain.steps": ([8, 100], [-1, 2.0]),
    f"{S}.adapt.convert_pretrain.lr": POSITIVE,
    f"{S}.adapt.finetune.weight_decay": NOT_NEGATIVE,
    f"{S}.adapt.evaluations": COUNT,
    f"{S}.cost.curve.vocabulary": COUNT,
    f"{S}.cost.curve.attentions": ([["long_short"], ["full"]], [[], ["linformer"], ["full", "full"], "full"]),
    f"{S}.cost.curve.lengths": ([[64], [64, 128]], [[], [0], [64, 32], [64, 64], 64]),
    f"{S}.cost.curve.batches": ([[1], [1, 4]], [[], [0], [4, 1], [2, 2], 1]),
    f"{S}.cost.curve.cached": FLAG,
    f"{S}.cost.curve.memory": FLAG,
    f"{S}.cost.curve.repeats": COUNT,
    f"{S}.cost.latency.attentions": ([["reformer"]], [[], ["softmax"], ["full", "full"]]),
    f"{S}.cost.latency.lengths.text": COUNT,
    f"{S}.cost.latency.lengths.listops": COUNT,
    f"{S}.cost.latency.lengths.retrieval": COUNT,
    f"{S}.count.families": ([["vision"], ["language", "lra"]], [[], ["images"], ["lra", "lra"], "lra"]),
    f"{S}.images.train_per_class": ([10, 130], [-1, 20.0]),
    f"{S}.network.width": ([0.125, 4], [0, 4.5]),
    f"{S}.network.depth": ([0.125, 4], [0, 4.5]),
    f"{S}.network.window": COUNT,
    f"{S}.train.optimizer": (["adamw", "sgd"], ["adam", 1]),
    f"{S}.train.drop_path": SHARE,
    f"{S}.train.average": SHARE,
    f"{S}.grid.networks": ([], [[], ["CvT-W24"], ["CvT-13", "CvT-13"], "CvT-13"]),
    f"{S}.grid.similarity": ([[], ["CvT-LS-13"]], [["ViT-S"], ["CvT-13", "CvT-13"], "CvT-13"]),
    f"{S}.similarity.absolute": FLAG,
    f"{S}.similarity.batch_size": COUNT,
    f"{S}.throughput.networks": ([[], ["CvT-13"]], [["ViT-S"], ["CvT-13", "CvT-13"], "CvT-13"]),
    f"{S}.throughput.against": (["DeiT-S"], ["ViT-S", 1]),
    f"{S}.throughput.batch_size": COUNT,
    f"{S}.throughput.size": ([8, 224], [7, 16.0]),
    f"{S}.throughput.pairs": COUNT,
    f"{R}.networks": ([[], ["ResNet-50"]], [["ResNet-101"], ["ResNet-50", "ResNet-50"], "ResNet-50"]),
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
FORM, PATHS = f"{S}.sequences.listops.form", f"{S}.sequences.pathfinder"
LISTOPS, CURVE, WAY = f"{S}.sequences.listops.max_length", f"{S}.cost.curve", f"{S}.predict.evaluation"
CIFAR, IMAGENET = {f"{S}.images.dataset": "cifar10"}, {f"{S}.images.dataset": "imagenet"}
PATCH, IMAGES, TESTED = f"{S}.network.patch_size", f"{S}.images.train_per_class", f"{S}.train.test_images"
LOOKED, ATTACKED, WITHSTOOD = f"{S}.similarity.images", f"{R}.pgd.images", f"{R}.images"
WITHOUT = {f"{S}.grid.similarity": []}
SEEN = {
    f"{S}.grid.networks": ["CvT-13", "DeiT-S", "ResNet-50", "ViL-Medium", "Swin-T"],
    f"{R}.networks": [],
}
ONE, SMALL = f"{TASK}.text", {f"{S}.characters.window": 8, f"{S}.characters.segment": 8}
SHORT = {f"{TEXT}.max_length": 40}
OWN = {**SHORT, f"{ONE}.attentions": ["long_short_best"]}
SHARED = {**SHORT, f"{ONE}.attentions": ["long_short"], f"{S}.understand.window": 4}
BOTH: dict[str, Any] = {
    f"{TASK}.{task}.attentions": ["full"] for task in ("listops", "text", "retrieval", "image", "pathfinder")
}


def phases(**own: Any) -> dict[str, Any]:
    return {f"{S}.predict.phases": [PHASE, {**PHASE, **own}]}


ADAPT = f"{S}.adapt"
RULES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({f"{ADAPT}.config.dim": 34}, {f"{ADAPT}.config.dim": 33}, f"{ADAPT}.config.dim"),
    ({f"{ADAPT}.max_length": 32}, {f"{ADAPT}.max_length": 31}, f"{ADAPT}.max_length"),
    (
        {f"{ADAPT}.max_length": 31, f"{ADAPT}.checkpoint": "a_model"},
        {f"{ADAPT}.max_length": 31},
        f"{ADAPT}.max_length",
    ),
    *(
        ({f"{ADAPT}.{key}": 0}, {f"{ADAPT}.window": 0, f"{ADAPT}.rank": 0}, f"{ADAPT}.window")
        for key in ("window", "rank")
    ),
    *(
        (
            {f"{ADAPT}.{stage}.steps": 20, f"{ADAPT}.{stage}.warmup_steps": 20},
            {f"{ADAPT}.{stage}.steps": 20, f"{ADAPT}.{stage}.warmup_steps": 21},
            f"{ADAPT}.{stage}.warmup_steps",
        )
        for stage in ("pretrain", "convert_pretrain", "finetune")
    ),
    (
        {f"{ADAPT}.finetune.steps": 1, f"{ADAPT}.finetune.warmup_steps": 0},
        {f"{ADAPT}.finetune.steps": 0, f"{ADAPT}.finetune.warmup_steps": 0},
        f"{ADAPT}.finetune.steps",
    ),
    (
        {f"{ADAPT}.variants": ["full_large"], f"{ADAPT}.large_checkpoint": "a_model"},
        {f"{ADAPT}.variants": ["full_large"]},
        f"{ADAPT}.variants[0]",
    ),
    (
        {LISTOPS: 119, f"{FORM}.max_length": 120},
        {LISTOPS: 118, f"{FORM}.max_length": 120},
        f"{FORM}.max_length",
    ),
    (
        {f"{FORM}.max_length": 60, f"{FORM}.min_length": 58},
        {f"{FORM}.max_length": 60, f"{FORM}.min_length": 59},
        f"{FORM}.min_length",
    ),
    *(
        ({}, {f"{S}.sequences.image.max_length": wrong}, f"{S}.sequences.image.max_length")
        for wrong in (63, 65)
    ),
    (
        {f"{S}.sequences.image.dataset": "cifar10", f"{S}.sequences.image.max_length": 1024},
        {f"{S}.sequences.image.dataset": "cifar10", f"{S}.sequences.image.max_length": 64},
        f"{S}.sequences.image.max_length",
    ),
    *(
        (
            {f"{PATHS}.form.size": 20, f"{PATHS}.max_length": 400},
            {f"{PATHS}.form.size": 20, f"{PATHS}.max_length": wrong},
            f"{PATHS}.max_length",
        )
        for wrong in (399, 401)
    ),
    (
        {f"{TEXT}.train_samples": 50, f"{ONE}.batch_size": 50},
        {f"{TEXT}.train_samples": 50, f"{ONE}.batch_size": 51},
        f"{ONE}.batch_size",
    ),
    (
        {f"{TEXT}.train_samples": 0, f"{ONE}.batch_size": 5000},
        {f"{TEXT}.train_samples": 4999, f"{ONE}.batch_size": 5000},
        f"{ONE}.batch_size",
    ),
    (
        {f"{ONE}.steps": 20, f"{ONE}.warmup_steps": 20},
        {f"{ONE}.steps": 20, f"{ONE}.warmup_steps": 21},
        f"{ONE}.warmup_steps",
    ),
    # a stream has two characters to predict in each part, and no more than there are
    *(
        (
            {f"{S}.stream.characters": within, **own},
            {f"{S}.stream.characters": beyond, **own},
            f"{S}.stream.characters",
        )
        for within, beyond, own in (
            (0, 39, {}),
            *(
                (most, most + 1, {f"{S}.stream.datasets": [name]})
                for name, most in (
                    ("enwik8", 100_000_000),
                    ("text8", 100_000_000),
                    ("warandpeace", 3_293_492),
                )
            ),
        )
    ),
    (phases(warmup_steps=3), phases(warmup_steps=4), f"{S}.predict.phases[1].warmup_steps"),
    # an attention sees something, and no more than there is
    (
        {**OWN, f"{ONE}.window": 0, f"{ONE}.rank": 1},
        {**OWN, f"{ONE}.window": 0, f"{ONE}.rank": 0},
        f"{ONE}.window",
    ),
    (
        {**OWN, f"{ONE}.window": 15, f"{ONE}.rank": 10},
        {**OWN, f"{ONE}.window": 15, f"{ONE}.rank": 11},
        f"{ONE}.rank",
    ),
    ({**SHARED, f"{S}.understand.rank": 32}, {**SHARED, f"{S}.understand.rank": 33}, f"{S}.understand.rank"),
    (
        {**BOTH, f"{S}.understand.window": 0, f"{S}.understand.rank": 0},
        {
            **BOTH,
            f"{S}.understand.window": 0,
            f"{S}.understand.rank": 0,
            f"{ONE}.attentions": ["long_short"],
        },
        f"{S}.understand.window",
    ),
    *(
        (
            {**BOTH, **SHORT, f"{ONE}.attentions": ["window"], f"{S}.understand.window": just},
            {**BOTH, **SHORT, f"{ONE}.attentions": ["window"], f"{S}.understand.window": wrong},
            f"{S}.understand.window",
        )
        for just, wrong in ((1, 0), (20, 21))
    ),
    (
        {**BOTH, **SHORT, f"{ONE}.attentions": ["dynamic"], f"{ONE}.dynamic_rank": 40},
        {**BOTH, **SHORT, f"{ONE}.attentions": ["dynamic"], f"{ONE}.dynamic_rank": 41},
        f"{ONE}.dynamic_rank",
    ),
    (
        {f"{S}.understand.rivals.longformer.window": 2},
        {f"{S}.understand.rivals.longformer.window": 3},
        f"{S}.understand.rivals.longformer.window",
    ),
    *(
        (
            {f"{S}.{section}.heads": 4, f"{S}.{section}.dim": 12},
            {f"{S}.{section}.heads": 4, f"{S}.{section}.dim": 14},
            f"{S}.{section}.dim",
        )
        for section in ("encoder", "characters", "cost.curve")
    ),
    # w = 4 of l = 8 covers, as gcd = 4; of l = 10, gcd 2, neither 4 does nor 6, which is more than half
    (
        {f"{CURVE}.window": 4, f"{CURVE}.segment": 8},
        {f"{CURVE}.window": 4, f"{CURVE}.segment": 10},
        f"{CURVE}.window",
    ),
    (
        {f"{CURVE}.window": 8, f"{CURVE}.segment": 10},
        {f"{CURVE}.window": 6, f"{CURVE}.segment": 10},
        f"{CURVE}.window",
    ),
    (
        {**SMALL, f"{S}.characters.window": 4},
        {**SMALL, f"{S}.characters.window": 3},
        f"{S}.characters.window",
    ),
    *(
        (
            {**SMALL, f"{S}.characters.window": 12, f"{S}.predict.phases": [{**PHASE, "length": 48}]},
            {**SMALL, f"{S}.characters.window": 12, f"{S}.predict.phases": [{**PHASE, "length": wrong}]},
            f"{S}.predict.phases[0].length",
        )
        for wrong in (36, 40)  # no whole segments, no whole windows
    ),
    (
        {**SMALL, f"{S}.stream.characters": 1427, **phases(length=640)},  # 1285 in train: 642 in a lane
        {**SMALL, f"{S}.stream.characters": 1427, **phases(length=648)},
        f"{S}.predict.phases[1].length",
    ),
    (
        {f"{S}.stream.characters": 0, **phases(length=6400)},
        {**phases(length=640_000)},
        f"{S}.predict.phases[1].length",
    ),
    (
        {f"{WAY}.form": "windows", f"{WAY}.context": 100, f"{WAY}.step": 100},
        {f"{WAY}.form": "windows", f"{WAY}.context": 100, f"{WAY}.step": 101},
        f"{WAY}.step",
    ),
    (
        {f"{WAY}.form": "cached", f"{WAY}.context": 100, f"{WAY}.step": 101},
        {f"{WAY}.form": "windows", f"{WAY}.context": 100, f"{WAY}.step": 101},
        f"{WAY}.step",
    ),
    ({f"{WAY}.characters": 2}, {f"{WAY}.characters": 1}, f"{WAY}.characters"),
    (
        {f"{CURVE}.lengths": [96, 128], f"{CURVE}.full_longest": 96},
        {f"{CURVE}.lengths": [96, 128], f"{CURVE}.full_longest": 95},
        f"{CURVE}.full_longest",
    ),
    (
        {f"{CURVE}.attentions": ["long_short"], f"{CURVE}.full_longest": 1},
        {f"{CURVE}.full_longest": 1},
        f"{CURVE}.full_longest",
    ),
    # networks for images
    ({IMAGES: 164, **dict.fromkeys((LOOKED, WITHSTOOD, ATTACKED), 0)}, {IMAGES: 165}, IMAGES),
    ({IMAGES: 130}, {IMAGES: 1}, IMAGES),
    ({**CIFAR, IMAGES: 5000}, {**CIFAR, IMAGES: 5001}, IMAGES),
    ({**IMAGENET, IMAGES: 0}, {**IMAGENET, IMAGES: 130}, IMAGES),
    ({PATCH: 2, **WITHOUT}, {PATCH: 3, **WITHOUT}, PATCH),
    (  # DeiT's patches are four times as wide
        {PATCH: 4, **WITHOUT, f"{S}.grid.networks": ["CvT-13"], f"{R}.networks": []},
        {PATCH: 4, **WITHOUT, f"{S}.grid.networks": ["CvT-13", "DeiT-S"], f"{R}.networks": []},
        PATCH,
    ),
    ({f"{S}.train.batch_size": 1300}, {f"{S}.train.batch_size": 1301}, f"{S}.train.batch_size"),
    (
        {f"{S}.train.epochs": 3, f"{S}.train.warmup_epochs": 3},
        {f"{S}.train.epochs": 3, f"{S}.train.warmup_epochs": 4},
        f"{S}.train.warmup_epochs",
    ),
    *(({key: 497}, {key: 498}, key) for key in (TESTED, LOOKED, WITHSTOOD)),
    ({WITHSTOOD: 90, ATTACKED: 90}, {WITHSTOOD: 90, ATTACKED: 91}, ATTACKED),
    ({WITHSTOOD: 0, ATTACKED: 400}, {WITHSTOOD: 399, ATTACKED: 400}, ATTACKED),
    (
        {f"{S}.grid.networks": ["CvT-21", "CvT-13"], f"{S}.grid.similarity": ["CvT-13"], f"{R}.networks": []},
        {f"{S}.grid.networks": ["CvT-21"], f"{S}.grid.similarity": ["CvT-21", "CvT-13"], f"{R}.networks": []},
        f"{S}.grid.similarity[1]",
    ),
    # the last layer of three stages is 2 x 2 on images of side 8, that of four stages one patch
    *(
        (
            {**SEEN, f"{S}.grid.similarity": just},
            {**SEEN, f"{S}.grid.similarity": wrong},
            f"{S}.grid.similarity[0]",
        )
        for just, wrong in ((["DeiT-S"], ["ResNet-50"]), (["CvT-13"], ["ViL-Medium"]))
    ),
    (
        {**CIFAR, **SEEN, PATCH: 2, f"{S}.grid.similarity": ["Swin-T"]},
        {**CIFAR, **SEEN, PATCH: 4, f"{S}.grid.similarity": ["Swin-T"]},
        f"{S}.grid.similarity[0]",
    ),
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
    (
        {f"{R}.networks": ["CvT-13"], f"{R}.reference": "CvT-13"},
        {f"{R}.networks": ["CvT-13"], f"{R}.reference": "ResNet-50"},
        f"{R}.reference",
    ),
    (
        {f"{R}.networks": ["CvT-13"], f"{R}.reference": "ResNet-50", f"{R}.corruptions": []},
        {f"{R}.networks": ["CvT-13"], f"{R}.reference": "ResNet-50", f"{R}.corruptions": ["fog"]},
        f"{R}.reference",
    ),
]
