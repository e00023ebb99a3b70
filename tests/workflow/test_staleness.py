"""Which jobs Snakemake runs and which stages DVC finds changed after an edit of params.yaml or of the source.

Every leaf of params.yaml stands in `TOUCHES`, with the stages whose own settings or grid it changes and the
runs that must be made again (patterns over the ends of their folders). A leaf without a line fails: a new
parameter says here what it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

STAGE_OF = {"subset": "prepare", "harden": "pretrain"}
STAGE_OF |= {f"gradinit/{step}": "data" for step in ("prepare", "folder", "corpus")}
STAGE_OF |= {"gradinit/translate": "learn"}
CHECKOUT = Path(__file__).resolve().parents[2]
P = "poisoning"
S = f"{P}.studies"
A = f"{P}.craft.attacks"
NEW = "GoogLeNet"  # in no list of the scratch checkout
ALONE, OTHER = "SENet18", "ResNet18"  # its victims; the first in every study, the second in one

# A stage holds the runs of one step; parts of the data belong to prepare, adversarial training to pretrain.
STAGES = {"prepare", "pretrain", "craft", "filter", "train", "evaluate"}
STEPS = STAGES | {"subset", "harden"}

NETWORKS = ["pretrain/*", "harden/*", "evaluate/robustness/*", "evaluate/feature_plane/*"]
BELOW = ["craft/*", "filter/*", "train/*", "render"]
WITH_NETWORKS = [*NETWORKS, *BELOW]
WITH_DATA = ["prepare/*", "subset/*", *WITH_NETWORKS]
ON_S1 = [
    "feature_collision",
    "feature_collision_no_dropout",
    "convex_polytope",
    "bullseye_polytope",
    "gradient_matching",
]
LAYERS = ["multi_layer", "multi_layer_as_released"]
# What follows from the substitutes of the end-to-end study, once they differ from those of the transfer study.
S2 = ["craft/convex_polytope_s2/*", "train/end_to_end/convex_polytope/*"]


def below(*attacks: str) -> list[str]:
    """Runs that read the poisons of an attack, and the report: every study has its own attacks."""
    filtered = [name for name in attacks if name in ("feature_collision", "convex_polytope")]
    trained = [name for name in attacks if not name.endswith("_no_dropout")]
    plane = [name for name in attacks if name == "convex_polytope"]
    return [
        *(f"filter/*/{name}/*" for name in filtered),
        *(f"train/*/{name}/*" for name in trained),
        *(f"evaluate/feature_plane/{name}/*" for name in plane),
        "render",
    ]


def of_attack(*names: str) -> list[str]:
    return [*(f"craft/{name}/*" for name in names), *below(*names)]


def of_defence(name: str, setting: str = "*", attack: str = "*") -> list[str]:
    return [*(f"{step}/{setting}/{attack}/{name}/*" for step in ("filter", "train")), "render"]


def network(role: str, name: str) -> list[str]:
    return [f"pretrain/{role}/{name}/*", f"evaluate/robustness/{role}/{name}/*"]


G = "gradinit"
INIT, LEARN, TRANSLATE, PROBE = (f"{G}/{step}" for step in ("initialise", "learn", "translate", "probe"))
OF_GRADINIT = {f"{G}/prepare", f"{G}/folder", f"{G}/corpus", INIT, LEARN, TRANSLATE, PROBE}
DATA = f"{G}/prepare"  # stands for its stage
VGG, RES, MORE = "VGG-19-BN", "ResNet-110-BN", "ResNet-110"  # the last is in no list of the scratch checkout
STATISTICS = f"{PROBE}/gradient_statistics"


def started(suite: str, network: str = "*", *names: str) -> list[str]:
    """Runs of a start, what is learned from it, and the report."""
    runs = [f"{suite}/{network}/{name}" for name in names or ("*",)]
    return [f"{step}/{run}/*" for step in (INIT, LEARN) for run in runs] + ["render"]


# where the scratch checkout looks at gradients: VGG at the size of the first steps, ResNet at that of the grid
SEEN = [f"{STATISTICS}/first_steps/*", f"{STATISTICS}/grid/*"]
GRID, FIRST = [*started("grid"), SEEN[1]], [*started("first_steps"), SEEN[0]]
IMAGES = [*GRID, *FIRST]
TIMM = "timm-ResNet-50-BN"  # on ImageNet alone, from GradInit
IMAGENET = started("imagenet", TIMM, "gradinit")
TRANSLATED = [f"{INIT}/translation/*", f"{TRANSLATE}/*", f"{STATISTICS}/translation/*", "render"]
FORMS = ("gradinit", "gradinit_overlap_*", "gradinit_penalty_*", "gradinit_fix_bn")
SGD_FORM = [
    *started("grid", "*", *FORMS),
    *started("first_steps", "*", "gradinit"),
    f"{STATISTICS}/*/gradinit/*",
]
FREE = started("grid", VGG, "gradinit_free_*")
ADAM = started("grid", RES, "gradinit_adam")


def by_learned_start(*names: str) -> list[str]:
    return [f"{step}/*/{name}/*" for step in (f"{INIT}/translation", TRANSLATE) for name in names] + [
        "render"
    ]


BY_GRADINIT = by_learned_start("gradinit", "gradinit_sgd")
EXTRA = started("grid", "*", "extra_epoch_*")
SGD_RUNS = [f"{LEARN}/*/sgd/*", f"{LEARN}/*/steps/*"]
OTHER_SGD = [f"{LEARN}/*/scalars*/*", f"{LEARN}/*/imagenet/*"]  # with a rate of their own
NEW_RUNS = {INIT, LEARN, "render"}

GRADINIT: list[tuple[str, set[str], list[str]]] = [
    (f"{G}.seeds", NEW_RUNS | {PROBE}, [f"{G}/*/seed1", "render"]),
    (f"{G}.images.dataset", {DATA, INIT, LEARN, PROBE}, [f"{G}/prepare/*", *IMAGES]),
    (f"{G}.images.*", {DATA}, [f"{G}/prepare/*", *IMAGES]),
    (f"{G}.corpus.dataset", {DATA, INIT, LEARN, PROBE}, [f"{G}/corpus/*", *TRANSLATED]),
    (f"{G}.corpus.test_pairs", {DATA, LEARN}, [f"{G}/corpus/*", *TRANSLATED]),
    (f"{G}.corpus.*", {DATA}, [f"{G}/corpus/*", *TRANSLATED]),
    (f"{G}.network.deep_depth", {INIT}, started("grid", "ResNet-1202-BN")),
    (
        f"{G}.network.depth",
        {INIT},
        [*started("grid", VGG), *started("grid", RES), *started("grid", "FixUp*"), SEEN[1], *IMAGENET],
    ),
    (f"{G}.network.*", {INIT}, [*GRID, *IMAGENET]),
    (f"{G}.initialise.batch_size", {INIT}, GRID),
    (
        f"{G}.initialise.iterations",
        {INIT},
        [*started("grid", "*", "gradinit*", "metainit*"), f"{STATISTICS}/grid/*/gradinit/*"],
    ),
    (  # as a penalty the norm has no bound
        f"{G}.initialise.gamma",
        {INIT},
        [pattern for pattern in SGD_FORM if "penalty" not in pattern],
    ),
    *((f"{G}.initialise.{key}", {INIT}, [*SGD_FORM, *FREE, *IMAGENET]) for key in ("eta", "normalised")),
    (
        f"{G}.initialise.overlap",  # the variants of table 4.1 and 4.2 have their own
        {INIT},
        [
            *started("grid", "*", "gradinit", "gradinit_penalty_*", "gradinit_fix_bn", "gradinit_adam"),
            *started("first_steps", "*", "gradinit"),
            f"{STATISTICS}/*/gradinit/*",
            *IMAGENET,
            *BY_GRADINIT,
        ],
    ),
    (f"{G}.initialise.min_scale", {INIT}, [*SGD_FORM, *FREE, *ADAM, *IMAGENET]),
    (
        f"{G}.initialise.tau.{VGG}",
        {INIT},
        [
            *started("grid", VGG, *FORMS, "metainit"),
            *started("first_steps", VGG, "gradinit"),
            f"{STATISTICS}/first_steps/*/gradinit/*",
        ],
    ),
    (
        f"{G}.initialise.tau.{RES}",
        {INIT},
        [*started("grid", RES, "gradinit*"), f"{STATISTICS}/grid/*/gradinit/*"],
    ),
    (f"{G}.initialise.tau.{TIMM}", {INIT}, IMAGENET),
    (f"{G}.initialise.tau.*", {INIT}, []),  # networks that GradInit does not meet here
    *(
        (f"{G}.initialise.free_tau.{key}", {INIT}, started("grid", VGG, f"gradinit_free_{name}"))
        for key, name in (("half", "0.5"), ("same", "1"), ("same_large", "1_large_tau"))
    ),
    (f"{G}.initialise.penalties", NEW_RUNS, ["render"]),  # one less
    (f"{G}.initialise.adam.*", {INIT}, ADAM),
    (f"{G}.initialise.metainit.*", {INIT}, started("grid", VGG, "metainit_*")),
    (f"{G}.initialise.lsuv.*", {INIT}, started("grid", VGG, "lsuv")),
    *((f"{G}.train.{key}", {LEARN}, [f"{LEARN}/grid/*", "render"]) for key in ("epochs", "batch_size")),
    (f"{G}.train.lr", {INIT, LEARN}, [*EXTRA, *SGD_RUNS]),
    (f"{G}.train.momentum", {INIT, LEARN}, [*EXTRA, *SGD_RUNS, *OTHER_SGD]),
    (f"{G}.train.weight_decay", {INIT, LEARN}, [*EXTRA, *SGD_RUNS, *OTHER_SGD]),
    *((f"{G}.train.{key}", {INIT, LEARN, PROBE}, IMAGES) for key in ("crop_padding", "flip", "cutout")),
    (f"{G}.train.clip_norm", {LEARN}, [f"{LEARN}/grid/FixUp*", "render"]),
    (f"{G}.train.mixup", {LEARN}, []),  # of a network that is not here
    (f"{G}.train.test_images", {LEARN}, [f"{LEARN}/grid/*", f"{LEARN}/first_steps/*", "render"]),
    (f"{G}.adamw.*", {LEARN}, [f"{LEARN}/*/adamw/*", "render"]),
    (f"{G}.scalars.lr", {LEARN}, [f"{LEARN}/*/scalars/*", "render"]),
    (f"{G}.scalars.low_lr", {LEARN}, [f"{LEARN}/*/scalars_low_lr/*", "render"]),
    *((f"{G}.networks.{name}", NEW_RUNS, started("grid", MORE, name)) for name in ("kaiming", "gradinit")),
    *(
        (f"{G}.networks.{name}", NEW_RUNS, started("grid", MORE, f"{name}{rest}"))
        for pattern, rest in (
            ("gradinit_fix_bn gradinit_only_bn", ""),
            ("gradinit_overlap gradinit_free gradinit_penalty", "_*"),
        )
        for name in pattern.split()
    ),
    *(
        (f"{G}.networks.{name}", NEW_RUNS, started("grid", MORE, name))
        for name in (
            "metainit",
            "metainit_random_sign",
            "metainit_real_sign",
            "extra_epoch_constant",
            "extra_epoch_warmup",
        )
    ),
    *(
        (f"{G}.networks.{name}", NEW_RUNS, started("grid", MORE, name))
        for name in ("fixup", "xavier", "orthogonal", "lsuv", "none")
    ),
    (f"{G}.adamw_networks", NEW_RUNS, started("grid", MORE, "kaiming", "gradinit_adam")),
    (f"{G}.scalar_networks", NEW_RUNS, started("grid", MORE, "kaiming")),
    (f"{G}.first_steps.networks", NEW_RUNS, started("first_steps", MORE)),
    (f"{G}.first_steps.initialisations", NEW_RUNS, started("first_steps", VGG, "metainit")),
    (f"{G}.first_steps.steps", {LEARN}, [f"{LEARN}/first_steps/*", "render"]),
    (f"{G}.first_steps.batch_size", {INIT, LEARN}, FIRST),
    (
        f"{G}.first_steps.iterations",
        {INIT},
        [*started("first_steps", VGG, "gradinit"), f"{STATISTICS}/first_steps/*/gradinit/*"],
    ),
    (f"{G}.first_steps.*", {INIT}, FIRST),
    *(
        (f"{G}.imagenet.networks.{name}", NEW_RUNS, started("imagenet", MORE, name))
        for name in ("kaiming", "fixup", "metainit", "gradinit")
    ),
    (f"{G}.imagenet.size", {INIT, LEARN}, IMAGENET),
    (f"{G}.imagenet.initialise.*", {INIT}, IMAGENET),
    (f"{G}.imagenet.mixup", {LEARN}, []),  # of a network that is not here
    (f"{G}.imagenet.*", {LEARN}, [f"{LEARN}/imagenet/*", "render"]),
    (f"{G}.probe.networks", {PROBE, "render"}, [f"{STATISTICS}/grid/ResNet-1202-BN/*", "render"]),
    (f"{G}.probe.variance_draws", {PROBE}, [f"{PROBE}/batch_norm/*", "render"]),
    (f"{G}.probe.*", {PROBE}, [*SEEN, "render"]),
    (f"{G}.translation.network.*", {INIT}, TRANSLATED),
    (f"{G}.translation.initialise.max_tokens", {INIT, PROBE}, TRANSLATED),
    (f"{G}.translation.initialise.*", {INIT}, BY_GRADINIT),
    (f"{G}.translation.adam.*", {INIT}, by_learned_start("gradinit")),
    (f"{G}.translation.sgd.*", {INIT}, by_learned_start("gradinit_sgd")),
    (f"{G}.translation.train.label_smoothing", {INIT, LEARN, PROBE}, TRANSLATED),
    (f"{G}.translation.train.warmup_steps", {LEARN}, [f"{TRANSLATE}/*/adam_warmup/*", "render"]),
    (
        f"{G}.translation.train.lr",
        {LEARN},
        [f"{TRANSLATE}/*/adam/*", f"{TRANSLATE}/*/adam_warmup/*", "render"],
    ),
    (f"{G}.translation.train.sgd_lr", {LEARN}, [f"{TRANSLATE}/*/sgd/*", "render"]),
    (
        f"{G}.translation.train.betas",
        {LEARN},
        [*(f"{TRANSLATE}/*/{recipe}/*" for recipe in ("adam", "adam_warmup")), "render"],
    ),
    (f"{G}.translation.train.*", {LEARN}, [f"{TRANSLATE}/*", "render"]),
    (f"{G}.translation.beam.*", {LEARN}, [f"{TRANSLATE}/*", "render"]),
    (f"{G}.translation.runs", NEW_RUNS, ["render"]),  # one less
    (f"{G}.translation.grid.runs", {LEARN, "render"}, [f"{TRANSLATE}/post_ln/xavier/adam_lr*", "render"]),
    (f"{G}.translation.grid.lr", {LEARN, "render"}, [f"{TRANSLATE}/*/adam_lr0.001_*", "render"]),
    (f"{G}.translation.grid.beta2", {LEARN, "render"}, [f"{TRANSLATE}/*/adam_lr*_b0.99/*", "render"]),
    (f"{G}.translation.probe.runs", {PROBE, "render"}, [f"{STATISTICS}/translation/*/gradinit/*", "render"]),
    (f"{G}.translation.probe.*", {PROBE}, [f"{STATISTICS}/translation/*", "render"]),
]

# Key pattern → stages that it changes themselves, runs that are made again. The first that fits counts. A pattern
# of a run that the scratch checkout does not have at all is idle and left out here.
TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (f"{P}.seeds", STAGES - {"prepare"} | {"render"}, ["*/seed1", "render"]),
    (f"{P}.prepare.dataset", STAGES, WITH_DATA),  # a folder of another name is read
    (f"{P}.prepare.*", {"prepare"}, WITH_DATA),
    *(
        (
            f"{P}.pretrain.substitutes.{key}",  # the train stage asks whether a victim is a grey box
            {"pretrain", "craft", "train", "evaluate", "render"},
            [*network("substitute", name), *of_attack(*ON_S1), *S2],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    (
        f"{P}.pretrain.victims.architectures",
        {"pretrain", "filter", "train", "evaluate", "render"},
        [
            *network("victim", f"{NEW}-*"),
            *(f"harden/robust/{NEW}-*", f"evaluate/robustness/robust/{NEW}-*"),
            *(f"filter/transfer/*/{NEW}/*", f"train/transfer/*/{NEW}/*", "render"),
        ],
    ),
    (f"{P}.pretrain.*", {"pretrain"}, WITH_NETWORKS),
    (
        f"{P}.harden.*",
        {"pretrain"},
        ["harden/*", "evaluate/robustness/robust/*", "train/transfer/*/adversarial_training/*", "render"],
    ),
    # attacks: eps is also the threat model of those who meet the poisons
    (f"{A}.feature_collision.dropout", {"craft"}, of_attack("feature_collision")),  # the other one has none
    *(
        (f"{A}.{attack}.{key}", {"craft"} | more, of_attack(*runs))
        for key, more in (("eps", {"train"}), ("*", set()))
        for attack, runs in (
            ("feature_collision", ["feature_collision", "feature_collision_no_dropout"]),
            ("convex_polytope", ["convex_polytope", "convex_polytope_half"]),
            *((name, [name]) for name in (*LAYERS, "bullseye_polytope", "gradient_matching")),
            *((name, [name]) for name in ("white_box_collision", "white_box_watermark")),
        )
    ),
    (
        f"{P}.craft.targets",  # an end-to-end study has a number of its own, and poisons of its own layers' attacks
        {"craft", "filter", "train", "evaluate"},
        [
            *(f"craft/{attack}/*" for attack in (*ON_S1, "convex_polytope_half", "white_box_*")),
            *("filter/*", "train/transfer/*", "train/overlap_*", "train/imbalance/*"),
            *("train/end_to_end/convex_polytope/*", "evaluate/feature_plane/*", "render"),
        ],
    ),
    (
        f"{P}.craft.*",
        {"craft", "filter", "train", "evaluate"},
        [*BELOW, "evaluate/feature_plane/*"],
    ),
    # defences
    (
        f"{P}.filter.random_eviction.feature_collision_fraction",
        {"filter"},
        of_defence("random_eviction", attack="feature_collision"),
    ),
    (
        f"{P}.filter.random_eviction.fraction",
        {"filter"},
        of_defence("random_eviction", attack="convex_polytope"),
    ),
    (  # the imbalance study has a k of its own
        f"{P}.filter.deep_knn.k",
        {"filter", "evaluate"},
        [*of_defence("deep_knn", "transfer"), "evaluate/feature_plane/*"],
    ),
    (f"{P}.filter.deep_knn.sweep", {"filter"}, of_defence("deep_knn", "transfer")),
    (
        f"{P}.filter.deep_knn.include_self",
        {"filter", "evaluate"},
        [*of_defence("deep_knn"), "evaluate/feature_plane/*"],
    ),
    (f"{P}.filter.l2_outliers.*", {"filter"}, of_defence("l2_outliers")),
    (f"{P}.filter.one_class_svm.*", {"filter"}, of_defence("one_class_svm")),
    # fine-tuning: two recipes
    (
        f"{P}.train.transfer.*",
        {"train"},
        ["train/transfer/*", "train/overlap_*", "train/imbalance/*", "render"],
    ),
    (f"{P}.train.end_to_end.*", {"train"}, ["train/end_to_end/*", "render"]),
    # who meets whom
    (
        f"{S}.transfer.feature_collision",
        {"train", "render"},
        ["train/transfer/feature_collision/adversarial_training/*", "render"],
    ),
    *(
        (
            f"{S}.transfer.{attack}",
            {"filter", "train", "render"},
            of_defence("l2_outliers", "transfer", attack),
        )
        for attack in ("convex_polytope", "bullseye_polytope", "gradient_matching")
    ),
    (
        f"{S}.dropout.attacks",
        {"craft", "render"},
        [*of_attack("convex_polytope"), "craft/convex_polytope_no_dropout/*"],
    ),
    (
        f"{S}.dropout.*",
        {"craft"},
        of_attack("feature_collision", "feature_collision_no_dropout"),
    ),
    *(
        (
            f"{S}.overlap.substitutes.{key}",
            {"pretrain", "craft", "evaluate", "render"},
            [*network("substitute_half", name), *of_attack("convex_polytope_half")],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    (
        f"{S}.overlap.victims",
        {"pretrain", "train", "evaluate", "render"},
        [
            *network("victim_half", f"{OTHER}-*"),
            *network("victim_disjoint", f"{OTHER}-*"),
            *(f"train/overlap_*/{OTHER}/*", "render"),
        ],
    ),
    *(
        (
            f"{S}.end_to_end.substitutes.{key}",
            {"pretrain", "craft", "train", "evaluate", "render"},
            [*network("substitute", name), *of_attack(*LAYERS), *S2],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    (f"{S}.end_to_end.attacks", {"craft", "train", "render"}, ["render"]),  # one less
    (f"{S}.end_to_end.victims", {"train", "render"}, [f"train/end_to_end/*/{OTHER}/*", "render"]),
    (f"{S}.end_to_end.targets", {"craft", "train"}, ["craft/multi_layer*", "train/end_to_end/*", "render"]),
    *(
        (
            f"{S}.imbalance.{key}",
            {"filter", "train", "render"},
            [f"filter/imbalance/{runs}", f"train/imbalance/{runs}", "render"],
        )
        for key, runs in (("attacks", "feature_collision/*"), ("victims", f"*/{OTHER}/*"))
    ),
    (f"{S}.imbalance.*", {"filter"}, ["filter/imbalance/*", "train/imbalance/*", "render"]),
    (f"{S}.white_box.attacks", {"craft", "train", "render"}, ["render"]),  # one less
    (f"{S}.white_box.victim", {"craft", "train", "render"}, of_attack("white_box_*")),
    (f"{S}.feature_plane.target", {"evaluate"}, ["evaluate/feature_plane/*", "render"]),
    (f"{S}.feature_plane.*", {"evaluate", "render"}, ["evaluate/feature_plane/*", "render"]),
    (f"{P}.evaluate.hull.*", {"evaluate"}, ["evaluate/hull/*", "render"]),
    (f"{P}.evaluate.*", {"evaluate"}, ["evaluate/robustness/*", "render"]),
    *GRADINIT,
]

# Values that a leaf can be flipped to where the next number will not do.
FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{P}.seeds": lambda seeds: [*seeds, 1],
    f"{P}.prepare.dataset": lambda name: {"digits": "cifar10", "cifar10": "digits"}[name],
    f"{P}.prepare.fine_tune_per_class": lambda n: n - 1,
    f"{P}.*.dropout": lambda value: [0.1] if isinstance(value, list) else not value,
    f"{P}.*.schedule": lambda name: {"cosine": "step", "step": "cosine"}[name],
    f"{P}.*.batch_size": lambda n: n - 1,
    f"{P}.*.milestones": lambda epochs: epochs[:-1],
    f"{P}.craft.targets": lambda n: n - 1,
    f"{P}.*.parameters": lambda name: {"head": "all", "all": "head"}[name],
    f"{P}.filter.deep_knn.sweep": lambda ks: ks[:-1],
    f"{P}.pretrain.victims.architectures": lambda names: [*names, NEW],
    f"{P}.*.architectures": lambda names: [*names, NEW],
    f"{S}.transfer.feature_collision": lambda names: [*names, "adversarial_training"],
    f"{S}.transfer.*": lambda names: [*names, "l2_outliers"],
    f"{S}.dropout.attacks": lambda names: [*names, "convex_polytope"],
    f"{S}.imbalance.attacks": lambda names: [*names, "feature_collision"],
    f"{S}.*.attacks": lambda names: names[:-1],
    f"{S}.feature_plane.attack": lambda name: "feature_collision",
    f"{S}.*.victims": lambda names: [*names, OTHER],
    f"{S}.*.victim": lambda name: OTHER,
    f"{S}.imbalance.class_sizes": lambda sizes: sizes[:-1],
    f"{P}.evaluate.pgd.eps": lambda values: values[:-1],
}
FLIPS |= {
    f"{G}.seeds": lambda seeds: [*seeds, 1],
    f"{G}.images.dataset": lambda name: "cifar10",
    f"{G}.corpus.dataset": lambda name: "multi30k",
    f"{G}.initialise.penalties": lambda values: values[:-1],
    f"{G}.probe.networks": lambda names: [*names, "ResNet-1202-BN"],
    f"{G}.first_steps.initialisations": lambda names: [*names, "metainit"],
    f"{G}.*networks*": lambda names: [*names, MORE],
    f"{G}.translation.network.dim": lambda n: 2 * n,
    f"{G}.translation.network.heads": lambda n: n // 2,
    f"{G}.translation.train.steps": lambda n: n - 1,
    f"{G}.imagenet.milestones": lambda epochs: epochs[:-1],
    f"{G}.translation.train.betas": lambda betas: [betas[0], 0.99],
    f"{G}.translation.runs": lambda names: names[:-1],
    f"{G}.translation.grid.runs": lambda names: [*names, "post_ln/xavier"],
    f"{G}.translation.grid.lr": lambda values: [*values, 0.001],
    f"{G}.translation.grid.beta2": lambda values: [*values, 0.99],
    f"{G}.translation.probe.runs": lambda names: [*names, "post_ln/gradinit"],
}
FIXED = {"scale", f"{S}.overlap.attack"}  # scale has a test of its own; of the other there is one value

# One of each kind for every run of the tests; all the others are slow together.
QUICK = {
    f"{P}.seeds",
    f"{P}.pretrain.substitutes.architectures",
    f"{P}.pretrain.training.epochs",
    f"{P}.harden.adversarial.steps",
    f"{P}.craft.targets",
    f"{A}.multi_layer.lr",
    f"{A}.convex_polytope.eps",
    f"{P}.filter.deep_knn.k",
    f"{P}.train.transfer.lr",
    f"{P}.train.end_to_end.epochs",
    f"{S}.dropout.watch_every",
    f"{S}.end_to_end.targets",
    f"{G}.initialise.eta",
    f"{G}.initialise.tau.{VGG}",
    f"{G}.train.lr",
    f"{G}.networks.gradinit_penalty",
    f"{G}.imagenet.size",
    f"{G}.first_steps.width",
    f"{G}.translation.adam.gamma",
    f"{G}.translation.grid.lr",
    f"{G}.probe.variance_draws",
}


def formula(text: str) -> str:
    return f"{text}\n\nONE_MORE = 1.0\n"


def comment(text: str) -> str:
    return "\n".join(f"{line}  # why" if line.startswith("import ") else line for line in text.splitlines())


# What is edited → file, edit, stages that it changes themselves, runs that are made again.
SOURCE_EDITS: dict[str, tuple[str, Callable[[str], str], set[str], list[str]]] = {
    "a defence": ("methods/l2_outliers.py", formula, {"filter"}, of_defence("l2_outliers")),
    "an attack of two runs": (
        "methods/white_box_collision.py",
        formula,
        {"craft"},
        of_attack("white_box_collision", "white_box_watermark"),
    ),
    "a victim's network": (
        "models/resnet.py",
        formula,
        STAGES - {"prepare", "craft"},
        [
            *network("victim", f"{OTHER}-*"),
            *(f"harden/robust/{OTHER}-*", f"evaluate/robustness/robust/{OTHER}-*"),
            *(f"filter/transfer/*/{OTHER}/*", f"train/transfer/*/{OTHER}/*", "render"),
        ],
    ),
    "adversarial training": (
        "methods/adversarial_training.py",
        formula,
        {"pretrain"},
        ["harden/*", "evaluate/robustness/robust/*", "train/transfer/*/adversarial_training/*", "render"],
    ),
    "parts of the data": (
        "steps/subset.py",
        formula,
        {"prepare"},
        [
            "subset/*",
            *(pattern for part in ("*_half", "victim_disjoint") for pattern in network(part, "*")),
            *("craft/convex_polytope_half/*", "train/overlap_half/*", "train/overlap_disjoint/*"),
            *("train/overlap_full/*", "render"),
        ],
    ),
    "the data set": (
        "data/digits.py",
        formula,
        {"prepare", DATA},
        [*WITH_DATA, f"{G}/prepare/*", *IMAGES],
    ),
    "GradInit": (
        "methods/gradinit/derivative.py",
        formula,
        {INIT},
        [*SGD_FORM, *FREE, *ADAM, *IMAGENET, *BY_GRADINIT],
    ),
}
# A comment, plumbing, another data set: nothing that counts.
IDLE_EDITS = {
    "methods/deep_knn.py": comment,
    "record.py": formula,
    "schema_rules.py": formula,
    "data/cifar10.py": formula,
}


# A smaller grid makes no run again but the report, which DVC must notice though no run has changed.
GRID_EDITS: dict[str, tuple[dict[str, Any], set[str], list[str]]] = {
    "fewer victims": (
        {f"{P}.pretrain.victims.architectures": [ALONE]},
        {"pretrain", "filter", "train", "evaluate", "render"},
        ["render"],
    ),
    "another scale": ({"scale": "small"}, STAGES | {"render", DATA, INIT, LEARN, PROBE}, ["*"]),
}


def leaves(value: Any, key: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {key: value}
    return {k: v for part in value for k, v in leaves(value[part], f"{key}.{part}" if key else part).items()}


LEAVES = leaves(yaml.safe_load((CHECKOUT / "params.yaml").read_text()))


def flipped(key: str, value: Any) -> Any:
    for pattern, flip in FLIPS.items():
        if fnmatchcase(key, pattern):
            return flip(value)
    if isinstance(value, bool):
        return not value
    return (
        value / 2 if isinstance(value, float) and value else value + (1 if isinstance(value, int) else 0.25)
    )


def touched(key: str) -> tuple[set[str], list[str]]:
    return next((steps, runs) for pattern, steps, runs in TOUCHES if fnmatchcase(key, pattern))


def matching(names: Iterable[str], patterns: list[str]) -> set[str]:
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def stage(step: str) -> str:
    if step == "render":
        return "render@all"
    name = STAGE_OF.get(step, step.removeprefix(f"{G}/"))
    return f"{name}@{G if step.startswith(G) else P}"


def step_of(name: str) -> str:
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == G else parts[0]


def faults(answer: dict[str, list[str]], steps: set[str], patterns: list[str]) -> list[str]:
    """What the two engines find against what the table says, in words; [] where all agree."""
    stale, expected = set(answer["jobs"]), matching(answer["all"], patterns)
    changed, stages = set(answer["stages"]), {stage(step) for step in steps}
    # No surprise: whatever Snakemake would run lies in a stage that `dvc repro` calls.
    uncalled = {stage(step_of(name)) for name in stale} - set(answer["called"])
    found = {
        "runs again without need": stale - expected,
        "is not run again": expected - stale,
        "idle line of the table": {pattern for pattern in patterns if not matching(stale, [pattern])},
        "stage changed without need": changed - stages,
        "stage not changed": stages - changed,
        "stage not called": uncalled,
    }
    return [f"{what}: {', '.join(sorted(which))}" for what, which in found.items() if which]


def check(scratch: Any, keys: Iterable[str]) -> None:
    """Ask both engines about each key of params.yaml and each edit of the source, in one process."""
    keys, values_of = list(keys), leaves(scratch.values())
    edits: list[dict[str, Any]] = [{}]
    expected: list[tuple[set[str], list[str]]] = [(set(), [])]
    for key in keys:
        if key in LEAVES:
            edits.append({"params": {key: flipped(key, values_of[key])}})
            expected.append(touched(key))
        elif key in GRID_EDITS:
            values, steps, patterns = GRID_EDITS[key]
            edits.append({"params": values})
            expected.append((steps, patterns))
        else:
            file, change, steps, patterns = SOURCE_EDITS.get(key, ("", formula, set(), []))
            changes = {file: change} if file else IDLE_EDITS
            paths = {f"src/relearn/{name}": how for name, how in changes.items()}
            edits.append(
                {"source": {path: how((scratch.root / path).read_text()) for path, how in paths.items()}}
            )
            expected.append((steps, patterns))
    answers = scratch.ask(edits)
    assert {step_of(name) for name in answers[0]["all"]} == STEPS | OF_GRADINIT | {"render"}
    found = {key: faults(*one) for key, *one in zip(["no edit", *keys], answers, *zip(*expected))}
    wrong = [f"{key}: {line}" for key, lines in found.items() for line in lines]
    assert not wrong, "\n".join(wrong)


def test_every_leaf_says_what_it_touches() -> None:
    known = {key for key in LEAVES if any(fnmatchcase(key, pattern) for pattern, _, _ in TOUCHES)}
    assert set(LEAVES) == known | FIXED
    assert set(LEAVES) >= QUICK | FIXED
    for pattern in [*(pattern for pattern, _, _ in TOUCHES), *FLIPS]:
        assert any(fnmatchcase(key, pattern) for key in LEAVES), pattern


def test_edits_touch_their_runs_and_no_others(scratch: Any) -> None:
    """One parameter of each kind, formulas, a comment, plumbing: the same runs in both engines."""
    check(scratch, [*(key for key in LEAVES if key in QUICK), *GRID_EDITS, *SOURCE_EDITS, "idle edits"])


@pytest.mark.slow
def test_every_parameter_touches_its_runs_and_no_others(scratch: Any) -> None:
    check(scratch, [key for key in LEAVES if key not in FIXED])
