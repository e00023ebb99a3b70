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

from ..studies.freelb import staleness as freelb
from ..studies.gradinit import staleness as gradinit
from ..studies.gradinit.staleness import (
    ADAM,
    BY_GRADINIT,
    DATA,
    FREE,
    IMAGENET,
    IMAGES,
    INIT,
    LEARN,
    OF_GRADINIT,
    PROBE,
    SGD_FORM,
    G,
)
from ..studies.l2_attention import staleness as l2_attention
from ..studies.l2_attention.staleness import STEPS as OF_L2_ATTENTION
from ..studies.l2_attention.staleness import L
from ..studies.lipsformer import staleness as lipsformer
from ..studies.lipsformer.staleness import STEPS as OF_LIPSFORMER
from ..studies.lipsformer.staleness import Q, Y
from ..studies.long_short import staleness as long_short
from ..studies.long_short.staleness import STEPS as OF_LONG_SHORT
from . import staleness_vision as vision
from .staleness_vision import STEPS as OF_VISION
from .staleness_vision import T

STAGE_OF = {"subset": "prepare", "harden": "pretrain"}
STAGE_OF |= {
    f"gradinit/{step}": "data" for step in ("prepare_images", "list_imagenet", "prepare_translation")
}
STAGE_OF |= {"gradinit/train_translation": "train_from_init"}
STAGE_OF |= {f"gradinit/{step}": "gradient_statistics" for step in ("check_batch_norm", "count_params")}
STAGE_OF |= {f"{study}/examine": "construct" for study in ("lipsformer", "lrformer")}
STAGE_OF |= {
    f"{study}/prepare": "classify" for study in ("lipsformer", "layer_scale", "lrformer", "long_short")
}
STAGE_OF |= {"long_short/sequences": "understand", "long_short/stream": "predict"}
OTHERS = (
    G,
    L,
    Q,
    T,
    Y,
    long_short.S,
    long_short.R,
    freelb.F,
)  # studies whose runs are named with them before the step
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
    *gradinit.TOUCHES,
    *l2_attention.TOUCHES,
    *lipsformer.TOUCHES,
    *vision.TOUCHES,
    *long_short.TOUCHES,
    *freelb.TOUCHES,
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
FLIPS |= gradinit.FLIPS | l2_attention.FLIPS | lipsformer.FLIPS | vision.FLIPS
FLIPS |= long_short.FLIPS | freelb.FLIPS
FIXED = {"scale", f"{S}.overlap.attack"}  # scale has a test of its own; of the other there is one value
FIXED |= long_short.FIXED

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
}
QUICK |= gradinit.QUICK | l2_attention.QUICK | lipsformer.QUICK | vision.QUICK
QUICK |= long_short.QUICK | freelb.QUICK


def formula(text: str) -> str:
    """A statement that runs wherever the module is imported."""
    return f"{text}\n\nabs(1.0)\n"


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
        STAGES - {"prepare", "craft"} | {freelb.IMAGES},
        [
            *network("victim", f"{OTHER}-*"),
            *(f"harden/robust/{OTHER}-*", f"evaluate/robustness/robust/{OTHER}-*"),
            *(f"filter/transfer/*/{OTHER}/*", f"train/transfer/*/{OTHER}/*", "render"),
            f"{freelb.IMAGES}/*",
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
        {
            *("prepare", DATA, *vision.PREPARE.values(), long_short.PREPARE, long_short.SEQUENCES),
            freelb.PREPARE,
        },
        [
            *WITH_DATA,
            f"{G}/prepare_images/*",
            *IMAGES,
            *vision.ON_DIGITS,
            *long_short.ON_DIGITS,
            *long_short.OF_DIGITS,
            *freelb.MADE,
        ],
    ),
    "GradInit": (
        "methods/gradinit/derivative.py",
        formula,
        {INIT},
        [*SGD_FORM, *FREE, *ADAM, *IMAGENET, *BY_GRADINIT],
    ),
    "a bound": (
        "maths/l2_bounds.py",
        formula,
        l2_attention.BY_A_BOUND[0] | lipsformer.BY_A_BOUND[0],
        [*l2_attention.BY_A_BOUND[1], *lipsformer.BY_A_BOUND[1]],
    ),
    "an adversarial gradient": ("methods/pgd_training.py", formula, *freelb.BY_PGD),
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
    "another scale": (
        {"scale": "small"},
        STAGES
        | {"render", DATA, INIT, LEARN, PROBE}
        | OF_L2_ATTENTION
        | OF_LIPSFORMER
        | OF_VISION
        | OF_LONG_SHORT
        | freelb.STEPS,
        ["*"],
    ),
    **long_short.TIED,
    **freelb.TIED,
}


def leaves(value: Any, key: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {key: value}
    return {k: v for part in value for k, v in leaves(value[part], f"{key}.{part}" if key else part).items()}


PARTS = 2
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
    study = step.partition("/")[0] if "/" in step else P
    return f"{STAGE_OF.get(step, step.removeprefix(f'{study}/'))}@{study}"


def step_of(name: str) -> str:
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] in OTHERS else parts[0]


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
    ours = STEPS | OF_GRADINIT | OF_L2_ATTENTION | OF_LIPSFORMER | OF_VISION | OF_LONG_SHORT
    ours |= freelb.STEPS | {"render"}
    assert {step_of(name) for name in answers[0]["all"]} == ours
    found = {key: faults(*one) for key, *one in zip(["no edit", *keys], answers, *zip(*expected))}
    wrong = [f"{key}: {line}" for key, lines in found.items() for line in lines]
    assert not wrong, "\n".join(wrong)


def test_every_leaf_says_what_it_touches() -> None:
    known = {key for key in LEAVES if any(fnmatchcase(key, pattern) for pattern, _, _ in TOUCHES)}
    assert set(LEAVES) == known | FIXED
    assert set(LEAVES) >= QUICK | FIXED
    for pattern in [*(pattern for pattern, _, _ in TOUCHES), *FLIPS]:
        assert any(fnmatchcase(key, pattern) for key in LEAVES), pattern


@pytest.mark.parametrize("part", range(PARTS))
def test_edits_touch_their_runs_and_no_others(scratch: Any, part: int) -> None:
    """One parameter of each kind, formulas, a comment, plumbing: the same runs in both engines.

    In parts: each edit takes seconds of both engines, and two workers share them.
    """
    keys = [*(key for key in LEAVES if key in QUICK), *GRID_EDITS, *SOURCE_EDITS, "idle edits"]
    check(scratch, keys[part::PARTS])


@pytest.mark.slow
def test_every_parameter_touches_its_runs_and_no_others(scratch: Any) -> None:
    check(scratch, [key for key in LEAVES if key not in FIXED])
