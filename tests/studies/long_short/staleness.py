"""What a parameter of ``long_short`` and ``robustness`` touches; see ``test_staleness``."""

from collections.abc import Callable
from typing import Any

from .ranges import RECIPE

S, R = "long_short", "robustness"
SEQUENCES, UNDERSTAND, STREAM, PREDICT = (
    f"{S}/{step}" for step in ("prepare_lra", "train_lra", "prepare_char_stream", "train_long_char_lm")
)
NORMS = f"{S}/initial_norms"
COST, COUNT, PREPARE, CLASSIFY, SIMILARITY = (
    f"{S}/{step}"
    for step in (
        *("benchmark_attention", "count_params_flops", "prepare_images", "train_vision"),
        "patch_similarity",
    )
)
WITHSTAND = f"{R}/evaluate_robustness"
ADAPT, THROUGHPUT = f"{S}/convert_roberta", f"{S}/throughput"
STEPS = {
    ADAPT,
    *(SEQUENCES, UNDERSTAND, STREAM, PREDICT, NORMS, COST, COUNT, PREPARE, CLASSIFY, SIMILARITY),
    *(WITHSTAND, THROUGHPUT),
}
TASKS = ("listops", "text", "retrieval", "image", "pathfinder")
# Attentions of the scratch checkout beside "full", by task; see FEW in conftest.
FEW_KINDS = {
    "listops": "long_short_best",
    "text": "window",
    "retrieval": "linformer",
    "image": "long_short",
    "pathfinder": "dynamic",
}
NEW_KIND = "linear"
CVT, REFERENCE = "CvT-LS-13", "ResNet-50"
PATCHED = (CVT, "ViL-LS-Medium", "DeiT-S")
SEEN = [f"{CLASSIFY}/*", f"{SIMILARITY}/*", f"{WITHSTAND}/*", "render"]
ON_DIGITS = [f"{PREPARE}/*", *SEEN]


def understood(*runs: str) -> list[str]:
    return [*(f"{UNDERSTAND}/{run}" for run in runs), "render"]


def of_network(*names: str) -> list[str]:
    """A network of the scratch checkout that is trained, and what looks at it there."""
    looks = [f"{SIMILARITY}/*"] if CVT in names else []
    # errors of the reference are what those of the others are relative to
    tested = (
        [f"{WITHSTAND}/{'*' if REFERENCE in names else f'{CVT}/*'}"] if {CVT, REFERENCE} & set(names) else []
    )
    return [*(f"{CLASSIFY}/{name}/*" for name in names), *looks, *tested, "render"]


TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (
        f"{S}.seeds",
        {UNDERSTAND, PREDICT, ADAPT, CLASSIFY, SIMILARITY, WITHSTAND, "render"},
        [
            *(f"{step}/*/seed1" for step in (UNDERSTAND, PREDICT, ADAPT, CLASSIFY, SIMILARITY, WITHSTAND)),
            "render",
        ],
    ),
    *(
        (f"{S}.prepare_lra.{task}.*", {SEQUENCES}, [f"{SEQUENCES}/{task}/*", *understood(f"{task}/*")])
        for task in TASKS
    ),
    (f"{S}.encoder.*", {UNDERSTAND, COST}, [*understood("*"), f"{COST}/latency/*"]),
    (f"{S}.train_lra.window", {UNDERSTAND}, understood("text/window/*", "image/long_short/*")),
    (f"{S}.train_lra.rank", {UNDERSTAND}, understood("image/long_short/*")),
    (f"{S}.train_lra.baselines.linformer.*", {UNDERSTAND}, understood("retrieval/linformer/*")),
    (f"{S}.train_lra.baselines.*", {UNDERSTAND}, []),  # no other is in the scratch checkout
    *(
        (
            f"{S}.train_lra.tasks.{task}.attentions",
            {UNDERSTAND, "render"},
            understood(f"{task}/{NEW_KIND}/*"),
        )
        for task in TASKS
    ),
    *(
        (
            f"{S}.train_lra.tasks.{task}.{key}",
            {UNDERSTAND},
            understood(f"{task}/{kind}/*") if FEW_KINDS[task] == kind else [],
        )
        for task in TASKS
        for key, kind in (
            ("window", "long_short_best"),
            ("rank", "long_short_best"),
            ("dynamic_rank", "dynamic"),
        )
    ),
    *(
        (
            f"{S}.train_lra.tasks.{task}.rates",
            {UNDERSTAND, "render"},
            understood(f"{task}/*", f"tuning/{task}/*"),
        )
        for task in TASKS
    ),
    *((f"{S}.train_lra.tasks.{task}.*", {UNDERSTAND}, understood(f"{task}/*")) for task in TASKS),
    (f"{S}.train_lra.seeds", {UNDERSTAND, "render"}, [f"{UNDERSTAND}/*/seed1", "render"]),
    (f"{S}.train_lra.tuning_seeds", {UNDERSTAND}, []),  # no rates are tried
    (f"{S}.train_lra.*", {UNDERSTAND}, understood("*")),
    (
        f"{S}.prepare_char_stream.datasets",
        {STREAM, PREDICT, NORMS, "render"},
        [f"{STREAM}/text8/*", f"{PREDICT}/text8/dual_norm/*", f"{NORMS}/text8/*", "render"],
    ),
    (
        f"{S}.prepare_char_stream.characters",
        {STREAM},
        [f"{STREAM}/*", f"{PREDICT}/*", f"{NORMS}/*", "render"],
    ),
    (f"{S}.char_lm.large_*", {PREDICT}, [f"{PREDICT}/*/large/*", "render"]),
    *(
        (f"{S}.{key}", {PREDICT}, [f"{PREDICT}/*/dual_norm/*", "render"])
        for key in ("char_lm.layers", "char_lm.dropout", "train_long_char_lm.weight_decay")
    ),
    (f"{S}.char_lm.*", {PREDICT}, [f"{PREDICT}/*", "render"]),
    (f"{S}.train_long_char_lm.seeds", {PREDICT, "render"}, [f"{PREDICT}/*/seed1", "render"]),
    (f"{S}.train_long_char_lm.variants", {PREDICT, "render"}, [f"{PREDICT}/*/full/*", "render"]),
    (f"{S}.train_long_char_lm.large_datasets", {PREDICT, "render"}, ["render"]),  # one less
    (f"{S}.train_long_char_lm.text8_lr", {PREDICT}, []),  # a stream that is not in the scratch checkout
    (f"{S}.train_long_char_lm.large_weight_decay", {PREDICT}, [f"{PREDICT}/*/large/*", "render"]),
    (f"{S}.train_long_char_lm.*", {PREDICT}, [f"{PREDICT}/*", "render"]),
    (f"{S}.convert_roberta.variants", {ADAPT, "render"}, ["render"]),  # one less
    (f"{S}.convert_roberta.large_checkpoint", {ADAPT}, []),  # of the larger ones, of which there are none
    *(
        (
            f"{S}.convert_roberta.{key}",
            {ADAPT},
            [f"{ADAPT}/long_short/*", "render"],
        )  # nothing of the full ones is converted
        for key in ("convert_pretrain.*", "window", "rank", "max_length")
    ),
    (f"{S}.convert_roberta.*", {ADAPT}, [f"{ADAPT}/*", "render"]),
    *(
        (f"{S}.benchmark_attention.{name}.*", {COST}, [f"{COST}/{name}/*", "render"])
        for name in ("curve", "latency")
    ),
    (f"{S}.count_params_flops.families", {COUNT, "render"}, ["render"]),  # one less
    (f"{S}.images.dataset", {PREPARE, CLASSIFY, SIMILARITY, WITHSTAND, "render"}, ON_DIGITS),
    (f"{S}.images.size", {CLASSIFY}, SEEN),
    (f"{S}.images.*", {PREPARE}, ON_DIGITS),
    (  # of CvT with long-short attention alone
        f"{S}.network.window",
        {CLASSIFY, THROUGHPUT},
        [*of_network(CVT), f"{THROUGHPUT}/{CVT}/*"],
    ),
    (f"{S}.train.drop_path", {CLASSIFY}, of_network(*PATCHED)),  # a ResNet has none
    (f"{S}.train.gpus", {CLASSIFY}, []),  # no setting of a run
    (f"{S}.train.randaugment_*", {CLASSIFY}, []),  # of RandAugment, which is not there
    (f"{S}.train.own", {CLASSIFY}, of_network("DeiT-S")),
    (f"{S}.network.*", {CLASSIFY, THROUGHPUT}, [*SEEN, f"{THROUGHPUT}/*"]),
    (f"{S}.train.*", {CLASSIFY}, SEEN),
    (f"{S}.throughput.networks", {THROUGHPUT, "render"}, [f"{THROUGHPUT}/DeiT-S/*", "render"]),
    (f"{S}.throughput.*", {THROUGHPUT}, [f"{THROUGHPUT}/*", "render"]),
    (f"{S}.grid.networks", {CLASSIFY, "render"}, [f"{CLASSIFY}/CvT-13/*", "render"]),
    (f"{S}.grid.similarity", {CLASSIFY, SIMILARITY, "render"}, [f"{SIMILARITY}/DeiT-S/*", "render"]),
    (f"{S}.patch_similarity.*", {SIMILARITY}, [f"{SIMILARITY}/*", "render"]),
    (f"{R}.withstand.networks", {WITHSTAND, "render"}, [f"{WITHSTAND}/DeiT-S/*", "render"]),
    (f"{R}.withstand.reference", {WITHSTAND}, [f"{WITHSTAND}/*", "render"]),
    (f"{R}.withstand.protocol.*", {WITHSTAND}, []),  # of folders, of which the scratch checkout has none
    (f"{R}.withstand.*", {WITHSTAND}, [f"{WITHSTAND}/*", "render"]),
]
# Keys that a rule ties to another: both are edited, name → values, stages, runs.
IMAGE, PATHS = f"{S}.prepare_lra.image", f"{S}.prepare_lra.pathfinder"
TIED: dict[str, tuple[dict[str, Any], set[str], list[str]]] = {
    "sequences of other images": (
        {f"{IMAGE}.dataset": "cifar10", f"{IMAGE}.max_length": 1024},
        {SEQUENCES},
        [f"{SEQUENCES}/image/*", *understood("image/*")],
    ),
    "larger images of paths": (
        {f"{PATHS}.form.size": 20, f"{PATHS}.max_length": 400},
        {SEQUENCES},
        [f"{SEQUENCES}/pathfinder/*", *understood("pathfinder/*")],
    ),
    "larger patches": (  # the last layer has too few of them to be compared; a ResNet has none
        {f"{S}.network.patch_size": 2, f"{S}.grid.similarity": []},
        {CLASSIFY, SIMILARITY, THROUGHPUT, "render"},
        [*(run for run in of_network(*PATCHED) if not run.startswith(SIMILARITY)), f"{THROUGHPUT}/*"],
    ),
}
FIXED = {key for values, _, _ in TIED.values() for key in values} - {f"{S}.grid.similarity"}
FIXED |= {f"{R}.withstand.checkpoints"}  # of ImageNet, whose images the scratch checkout lacks
OF_DIGITS = TIED["sequences of other images"][2]
FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{S}.seeds": lambda seeds: [*seeds, 1],
    f"{S}.prepare_lra.listops.max_length": lambda n: n + 1,
    f"{S}.prepare_lra.*.form.max_length": lambda n: n - 1,
    f"{S}.prepare_lra.*.train_samples": lambda n: n + 100,
    f"{S}.prepare_lra.text.dataset": lambda name: "imdb",
    **{f"{S}.prepare_lra.{task}.dataset": lambda name: "lra_release" for task in ("listops", "pathfinder")},
    f"{S}.prepare_lra.listops.form.closing": lambda closing: not closing,
    f"{S}.prepare_lra.retrieval.dataset": lambda name: "python_documents",
    f"{S}.encoder.dim": lambda n: 2 * n,
    f"{S}.encoder.heads": lambda n: 2 * n,
    f"{S}.*.betas": lambda betas: [betas[0], 0.99],
    f"{S}.train_lra.trim": lambda trim: not trim,
    f"{S}.*.schedule": lambda name: "constant",
    f"{S}.*.clip_norm": lambda norm: 1.0,
    f"{S}.train_lra.pooling": lambda name: "mean",
    f"{S}.train_long_char_lm.diverged_above": lambda bits: 20.0,
    f"{S}.train_lra.window": lambda n: n - 1,
    f"{S}.train_lra.rank": lambda n: n - 1,
    f"{S}.train_lra.baselines.longformer.window": lambda n: 2 * n,
    f"{S}.train_lra.tasks.*.attentions": lambda names: [*names, NEW_KIND],
    f"{S}.train_lra.tasks.*.batch_size": lambda n: n - 1,
    f"{S}.train_lra.tasks.*.rank": lambda n: n - 1,
    f"{S}.train_lra.tasks.*.dynamic_rank": lambda n: n - 1,
    f"{S}.train_lra.tasks.*.window": lambda n: n - 1,
    f"{S}.train_lra.tasks.*.dropout": lambda rate: 0.1,
    f"{S}.train_lra.tasks.*.rates": lambda rates: [1.0e-3, 2.0e-3],
    f"{S}.train_lra.seeds": lambda seeds: [0, 1],
    f"{S}.train_lra.tuning_seeds": lambda seeds: [101],
    f"{S}.prepare_char_stream.datasets": lambda names: [*names, "text8"],
    f"{S}.char_lm.dim": lambda n: 2 * n,
    f"{S}.char_lm.heads": lambda n: 2 * n,
    f"{S}.char_lm.window": lambda n: n // 2,
    f"{S}.char_lm.segment": lambda n: n // 2,
    f"{S}.char_lm.*dropout": lambda rate: 0.1,
    f"{S}.train_long_char_lm.seeds": lambda seeds: [0, 1],
    f"{S}.train_long_char_lm.variants": lambda names: [*names, "full"],
    f"{S}.train_long_char_lm.large_datasets": lambda names: names[:-1],
    f"{S}.train_long_char_lm.text8_lr": lambda rate: 0.5,
    f"{S}.train.own": lambda own: [*own, RECIPE],
    f"{S}.train_long_char_lm.phases": lambda phases: phases[:-1],
    f"{S}.train_long_char_lm.evaluation.form": lambda form: {"windows": "cached", "cached": "windows"}[form],
    f"{S}.train_long_char_lm.evaluation.step": lambda n: n - 1,
    f"{S}.convert_roberta.variants": lambda names: names[:-1],
    f"{S}.convert_roberta.dataset": lambda name: "imdb",
    f"{S}.convert_roberta.*checkpoint": lambda name: "a_checkpoint",
    f"{S}.convert_roberta.config.dim": lambda n: 2 * n,
    f"{S}.convert_roberta.config.heads": lambda n: 2 * n,
    f"{S}.convert_roberta.config.max_length": lambda n: n - 1,
    f"{S}.convert_roberta.mlm_probability": lambda share: share / 2,
    f"{S}.benchmark_attention.curve.dim": lambda n: 2 * n,
    f"{S}.benchmark_attention.curve.heads": lambda n: 2 * n,
    f"{S}.benchmark_attention.curve.window": lambda n: 2 * n,
    f"{S}.benchmark_attention.curve.segment": lambda n: n // 2,
    f"{S}.benchmark_attention.curve.attentions": lambda names: names[:-1],
    f"{S}.benchmark_attention.curve.lengths": lambda lengths: lengths[:-1],
    f"{S}.benchmark_attention.curve.batches": lambda batches: [*batches, batches[-1] + 1],
    f"{S}.benchmark_attention.latency.attentions": lambda names: names[:-1],
    f"{S}.count_params_flops.families": lambda names: names[:-1],
    f"{S}.images.dataset": lambda name: "cifar10",
    f"{S}.images.train_per_class": lambda n: n - 1,
    f"{S}.network.width": lambda n: 2 * n,
    f"{S}.network.depth": lambda n: 2 * n,
    **{f"{S}.train.{key}": lambda n: n / 2 + 0.1 for key in ("label_smoothing", "average", "drop_path")},
    f"{S}.grid.networks": lambda names: [*names, "CvT-13"],
    f"{S}.grid.similarity": lambda names: [*names, "DeiT-S"],
    f"{S}.throughput.networks": lambda names: [*names, "DeiT-S"],
    f"{S}.throughput.against": lambda name: CVT,
    f"{R}.withstand.networks": lambda names: [*names, "DeiT-S"],
    f"{R}.withstand.reference": lambda name: CVT,
    f"{R}.withstand.images": lambda n: n + 1,
    f"{R}.withstand.corruptions": lambda names: names[:-1],
    f"{R}.withstand.severities": lambda levels: levels[:-1],
    f"{R}.withstand.pgd.eps": lambda values: values[:-1],
    f"{R}.withstand.pgd.images": lambda n: n - 1,
    f"{R}.withstand.sets.*": lambda folder: "a_folder",
    f"{R}.withstand.protocol.interpolation": lambda name: "bilinear",
    f"{R}.withstand.protocol.on_*": lambda word: "skip",
    f"{R}.withstand.protocol.cropped_ratio": lambda ratio: ratio / 2,
}
QUICK = {
    f"{S}.prepare_lra.text.test_samples",
    f"{S}.train_lra.rank",
    f"{S}.train_lra.tasks.pathfinder.dynamic_rank",
    f"{S}.char_lm.large_layers",
    f"{S}.train_long_char_lm.evaluation.step",
    f"{S}.benchmark_attention.curve.repeats",
    f"{S}.network.window",
    f"{S}.grid.similarity",
    f"{R}.withstand.reference",
    f"{R}.withstand.pgd.steps",
}
