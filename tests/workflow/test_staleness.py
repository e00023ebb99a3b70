"""Which jobs Snakemake runs and which stages DVC finds changed after an edit of params.yaml or of the source.

Every leaf of params.yaml stands in `TOUCHES`, with the steps whose own settings or grid it changes and the
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

CHECKOUT = Path(__file__).resolve().parents[2]
P = "poisoning"
NEW = "GoogLeNet"  # in no list of the scratch checkout
DOWN_FROM_CRAFT = ["craft/*", "filter/*", "train/convex_polytope/*", "train/feature_collision/*", "render"]
WITH_DATA = ["prepare/*", "pretrain/*", "craft/*", "filter/*", "train/*", "evaluate/accuracy/*", "render"]
WITH_NETWORKS = WITH_DATA[1:]


def of_attack(name: str) -> list[str]:
    return [f"craft/{name}/*", f"filter/{name}/*", f"train/{name}/*", "render"]


def of_defence(name: str, attack: str = "*") -> list[str]:
    return [f"filter/{attack}/{name}/*", f"train/{attack}/{name}/*", "render"]


STEPS = {"prepare", "pretrain", "craft", "filter", "train", "evaluate"}

# Key pattern → steps that it changes themselves, runs that are made again. The first that fits counts.
TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (f"{P}.seeds", STEPS - {"prepare"} | {"render"}, ["*/seed1", "render"]),
    (
        f"{P}.prepare.dataset",
        STEPS,  # a folder of another name is read
        WITH_DATA,
    ),
    (f"{P}.prepare.*", {"prepare"}, WITH_DATA),
    (
        f"{P}.pretrain.substitutes.architectures",  # the train stage asks whether a victim is a grey box
        {"pretrain", "craft", "train", "evaluate", "render"},
        [f"pretrain/substitute/{NEW}-*", f"evaluate/accuracy/substitute/{NEW}-*", *DOWN_FROM_CRAFT],
    ),
    (
        f"{P}.pretrain.substitutes.dropout",
        {"pretrain", "craft", "evaluate", "render"},
        ["pretrain/substitute/*-drop0.1/*", "evaluate/accuracy/substitute/*-drop0.1/*", *DOWN_FROM_CRAFT],
    ),
    (
        f"{P}.pretrain.victims.architectures",
        {"pretrain", "filter", "train", "evaluate", "render"},
        [
            f"pretrain/victim/{NEW}-*",
            f"evaluate/accuracy/victim/{NEW}-*",
            f"filter/*/{NEW}/*",
            f"train/*/{NEW}/*",
            "render",
        ],
    ),
    (f"{P}.pretrain.*", {"pretrain"}, WITH_NETWORKS),
    (f"{P}.craft.attacks.feature_collision.eps", {"craft", "train"}, of_attack("feature_collision")),
    (f"{P}.craft.attacks.convex_polytope.eps", {"craft", "train"}, of_attack("convex_polytope")),
    (f"{P}.craft.attacks.feature_collision.*", {"craft"}, of_attack("feature_collision")),
    (f"{P}.craft.attacks.convex_polytope.*", {"craft"}, of_attack("convex_polytope")),
    (f"{P}.craft.*", {"craft", "filter", "train"}, ["craft/*", "filter/*", "train/*", "render"]),
    (
        f"{P}.filter.random_eviction.feature_collision_fraction",
        {"filter"},
        of_defence("random_eviction", "feature_collision"),
    ),
    (
        f"{P}.filter.random_eviction.convex_polytope_fraction",
        {"filter"},
        of_defence("random_eviction", "convex_polytope"),
    ),
    (f"{P}.filter.deep_knn.*", {"filter"}, of_defence("deep_knn")),
    (f"{P}.filter.l2_outliers.*", {"filter"}, of_defence("l2_outliers")),
    (f"{P}.filter.one_class_svm.*", {"filter"}, of_defence("one_class_svm")),
    (f"{P}.train.*", {"train"}, ["train/*", "render"]),
    (f"{P}.evaluate.calibration_bins", {"evaluate"}, ["evaluate/accuracy/*", "render"]),
    (f"{P}.evaluate.hull.*", {"evaluate"}, ["evaluate/hull/*", "render"]),
]

# Values that a leaf can be flipped to where the next number will not do.
FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{P}.seeds": lambda seeds: [*seeds, 1],
    f"{P}.prepare.dataset": lambda name: {"digits": "cifar10", "cifar10": "digits"}[name],
    f"{P}.prepare.fine_tune_per_class": lambda n: n - 1,
    f"{P}.pretrain.substitutes.dropout": lambda values: [0.1],
    f"{P}.pretrain.training.schedule": lambda name: {"cosine": "step", "step": "cosine"}[name],
    f"{P}.pretrain.training.batch_size": lambda n: n - 1,
    f"{P}.craft.targets": lambda n: n - 1,
    f"{P}.filter.deep_knn.sweep": lambda ks: ks[:-1],
    f"{P}.train.milestones": lambda epochs: epochs[:-1],
    f"{P}.train.batch_size": lambda n: n - 1,
}
FIXED = {"scale", f"{P}.train.setting"}  # scale has a test of its own; of the other there is one value today

# One of each kind for every run of the tests; all the others are slow together.
QUICK = {
    f"{P}.seeds",
    f"{P}.prepare.pool_per_class",
    f"{P}.pretrain.substitutes.architectures",
    f"{P}.pretrain.victims.architectures",
    f"{P}.pretrain.training.epochs",
    f"{P}.craft.poisons",
    f"{P}.craft.attacks.convex_polytope.eps",
    f"{P}.craft.attacks.feature_collision.lr",
    f"{P}.filter.deep_knn.k",
    f"{P}.filter.random_eviction.feature_collision_fraction",
    f"{P}.train.lr",
    f"{P}.evaluate.hull.problems",
}


def formula(text: str) -> str:
    return f"{text}\n\nONE_MORE = 1.0\n"


def comment(text: str) -> str:
    return "\n".join(f"{line}  # why" if line.startswith("import ") else line for line in text.splitlines())


# What is edited → file, edit, steps that it changes themselves, runs that are made again.
SOURCE_EDITS: dict[str, tuple[str, Callable[[str], str], set[str], list[str]]] = {
    "a defence": ("methods/deep_knn.py", formula, {"filter"}, of_defence("deep_knn")),
    "an attack": ("methods/feature_collision.py", formula, {"craft"}, of_attack("feature_collision")),
    "a network": (
        "models/senet.py",
        formula,
        STEPS - {"prepare"},
        [
            "pretrain/*/SENet18-*",
            "evaluate/accuracy/*/SENet18-*",
            "train/clean/none/SENet18/*",
            *DOWN_FROM_CRAFT,  # it is the only substitute
        ],
    ),
    "the data set": ("data/digits.py", formula, {"prepare"}, WITH_DATA),
    "a comment": ("methods/deep_knn.py", comment, set(), []),
    "plumbing": ("record.py", formula, set(), []),
    "another data set": ("data/cifar10.py", formula, set(), []),
}


# A smaller grid makes no run again but the report, which DVC must notice though no run has changed.
GRID_EDITS: dict[str, tuple[dict[str, Any], set[str], list[str]]] = {
    "fewer victims": (
        {f"{P}.pretrain.victims.architectures": ["SENet18"]},
        {"pretrain", "filter", "train", "evaluate", "render"},
        ["render"],
    ),
    "another scale": ({"scale": "small"}, STEPS | {"render"}, ["*"]),
}


def leaves(value: Any, key: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {key: value}
    return {k: v for part in value for k, v in leaves(value[part], f"{key}.{part}" if key else part).items()}


LEAVES = leaves(yaml.safe_load((CHECKOUT / "params.yaml").read_text()))


def flipped(key: str) -> Any:
    value = LEAVES[key]
    if key.endswith(".architectures"):  # the scratch checkout has a smaller grid
        return ["SENet18", "ResNet18", NEW] if "victims" in key else ["SENet18", NEW]
    if key in FLIPS:
        return FLIPS[key](value)
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
    return "render@all" if step == "render" else f"{step}@poisoning"


def step_of(name: str) -> str:
    return name.partition("/")[0]


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
    keys = list(keys)
    edits: list[dict[str, Any]] = [{}]
    expected: list[tuple[set[str], list[str]]] = [(set(), [])]
    for key in keys:
        if key in LEAVES:
            edits.append({"params": {key: flipped(key)}})
            expected.append(touched(key))
        elif key in GRID_EDITS:
            values, steps, patterns = GRID_EDITS[key]
            edits.append({"params": values})
            expected.append((steps, patterns))
        else:
            file, change, steps, patterns = SOURCE_EDITS[key]
            path = f"src/relearn/{file}"
            edits.append({"source": {path: change((scratch.root / path).read_text())}})
            expected.append((steps, patterns))
    answers = scratch.ask(edits)
    assert {step_of(name) for name in answers[0]["all"]} == STEPS | {"render"}
    assert {key: faults(*one) for key, *one in zip(["no edit", *keys], answers, *zip(*expected))} == {
        key: [] for key in ["no edit", *keys]
    }


def test_every_leaf_says_what_it_touches() -> None:
    known = {key for key in LEAVES if any(fnmatchcase(key, pattern) for pattern, _, _ in TOUCHES)}
    assert set(LEAVES) == known | FIXED
    assert set(LEAVES) >= QUICK | FIXED | set(FLIPS)


def test_edits_touch_their_runs_and_no_others(scratch: Any) -> None:
    """One parameter of each kind, formulas, a comment, plumbing: the same runs in both engines."""
    check(scratch, [*(key for key in LEAVES if key in QUICK), *GRID_EDITS, *SOURCE_EDITS])


@pytest.mark.slow
def test_every_parameter_touches_its_runs_and_no_others(scratch: Any) -> None:
    check(scratch, [key for key in LEAVES if key not in FIXED])
