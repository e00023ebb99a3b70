"""Which jobs Snakemake runs and which stages DVC finds changed after an edit of params.yaml or of the source.

Every leaf of params.yaml is in `TOUCHES`, with the steps whose own settings or grid it changes (their studies are the stages that
DVC finds changed) and the runs that must be made again (patterns over the ends of their folders). A leaf without a line fails: a new
parameter says here what it touches.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from relearn.forecast import planned
from relearn.studies import parameters

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
    SGD_FORM,
    STATISTICS,
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
from ..studies.poisoning import staleness as poisoning
from ..studies.poisoning.staleness import ALONE, OTHER, WITH_DATA, P, network, of_attack, of_defence
from . import staleness_vision as vision
from .fake_job import lay
from .staleness_vision import STEPS as OF_VISION
from .staleness_vision import T

OTHERS = (
    G,
    L,
    Q,
    T,
    Y,
    long_short.S,
    long_short.R,
    freelb.F,
)  # their runs are named with the study before the step
CHECKOUT = Path(__file__).resolve().parents[2]

TABLES = (poisoning, gradinit, l2_attention, lipsformer, vision, long_short, freelb)
# Key pattern → stages that it changes themselves, runs that are made again. The first that fits counts. A pattern
# of a run that the scratch checkout does not have at all is idle and left out.
TOUCHES: list[tuple[str, set[str], list[str]]] = [line for table in TABLES for line in table.TOUCHES]
# Values that a leaf can be flipped to where the next number will not do.
FLIPS: dict[str, Callable[[Any], Any]] = {key: flip for table in TABLES for key, flip in table.FLIPS.items()}
# Leaves without another value; scale has a test of its own.
FIXED = {"scale"} | poisoning.FIXED | long_short.FIXED | vision.FIXED | freelb.FIXED
# One leaf of each kind for every run of the tests, and one edit of each; all the others are slow together.
QUICK: set[str] = set().union(*(table.QUICK for table in TABLES))
QUICK_EDITS = (
    "fewer victims",
    "another scale",
    "a defence",
    "the data set",
    "GradInit",
    "a bound",
    "an adversarial gradient",
)


def formula(text: str) -> str:
    """A statement that runs wherever the module is imported."""
    return f"{text}\n\nabs(1.0)\n"


def comment(text: str) -> str:
    return "\n".join(f"{line}  # why" if line.startswith("import ") else line for line in text.splitlines())


# What is edited → file, edit, stages that it changes themselves, runs that are made again.
SOURCE_EDITS: dict[str, tuple[str, Callable[[str], str], set[str], list[str]]] = {
    "a defence": ("methods/l2_outliers.py", formula, {P}, of_defence("l2_outliers")),
    "an attack of two runs": (
        "methods/white_box_collision.py",
        formula,
        {P},
        of_attack("white_box_collision", "white_box_watermark"),
    ),
    "a victim's network": (
        "models/resnet.py",
        formula,
        {P, freelb.IMAGES},
        [
            *network("victim", f"{OTHER}-*"),
            *(f"adversarial_training/robust/{OTHER}-*", f"evaluate_networks/robust/{OTHER}-*"),
            *(f"filter/transfer/*/{OTHER}/*", f"train/transfer/*/{OTHER}/*", "render"),
            f"{freelb.IMAGES}/*",
        ],
    ),
    "adversarial training": (
        "methods/adversarial_training.py",
        formula,
        {P},
        [
            "adversarial_training/*",
            "evaluate_networks/robust/*",
            "train/transfer/*/adversarial_training/*",
            "render",
        ],
    ),
    "parts of the data": (
        "studies/poisoning/steps/split_overlap.py",
        formula,
        {P},
        [
            "split_overlap/*",
            *(pattern for part in ("*_half", "victim_disjoint") for pattern in network(part, "*")),
            *("craft/convex_polytope_half/*", "train/overlap_half/*", "train/overlap_disjoint/*"),
            *("train/overlap_full/*", "render"),
        ],
    ),
    "the data set": (
        "data/digits.py",
        formula,
        {
            *(P, DATA, *vision.PREPARE.values(), long_short.PREPARE, long_short.SEQUENCES),
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
    "runs/record.py": formula,
    "params/conflicts.py": formula,
    "data/cifar10.py": formula,
}


# A smaller grid makes no run again but the report, which DVC must notice though no run has changed.
GRID_EDITS: dict[str, tuple[dict[str, Any], set[str], list[str]]] = {
    "fewer victims": (
        {f"{P}.pretrain.victims.architectures": [ALONE]},
        {P, "render"},
        ["render"],
    ),
    "another scale": (
        {"scale": "small"},
        {P, "render", DATA, INIT, LEARN, STATISTICS}
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
    """The stage of a step: its study; a step without a study is one of poisoning."""
    study = step.partition("/")[0]
    return study if study in (*OTHERS, "render") else P


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


Edit = tuple[str, dict[str, Any], set[str], list[str]]
"""What an edit is called, the edit as engines.py takes it, and the steps and runs that it touches."""


def edit_of(scratch: Any, key: str, value: Any) -> Edit:
    """The edit behind a key of params.yaml, or behind a name of GRID_EDITS or SOURCE_EDITS."""
    if key in LEAVES:
        return key, {"params": {key: flipped(key, value)}}, *touched(key)
    if key in GRID_EDITS:
        values, steps, patterns = GRID_EDITS[key]
        return key, {"params": values}, steps, patterns
    file, change, steps, patterns = SOURCE_EDITS.get(key, ("", formula, set(), []))
    changes = {file: change} if file else IDLE_EDITS
    paths = {f"src/relearn/{name}": how for name, how in changes.items()}
    texts = {path: how((scratch.root / path).read_text()) for path, how in paths.items()}
    return key, {"source": texts}, steps, patterns


def heads(patterns: list[str]) -> set[str]:
    """What is fixed at the start of each pattern of a run."""
    return {pattern.partition("*")[0] for pattern in patterns if pattern != "render"}


def apart(one: Edit, other: Edit) -> bool:
    """Whether nothing can be touched by both edits but the report, by neither alone: so neither hides what the other fails to do.
    Keys of one section may do together what neither does alone, and so may a key that adds or removes runs and any of its study."""
    if one[0] in LEAVES and other[0] in LEAVES:
        if one[0].rpartition(".")[0] == other[0].rpartition(".")[0]:
            return False
        if one[0].split(".")[0] == other[0].split(".")[0] and "render" in one[2] | other[2]:
            return False
    ours, theirs = heads(one[3]), heads(other[3])
    reported = "render" in one[3] and "render" in other[3]
    return (bool(ours and theirs) or not reported) and not any(
        a.startswith(b) or b.startswith(a) for a in ours for b in theirs
    )


def together(edits: list[Edit], allows: Callable[[dict[str, Any]], bool]) -> list[Edit]:
    """Edits of one key or of the source that touch different runs as one: what they touch is the union, and the engines are asked less
    often. ``allows`` says whether values by dotted key may stand together in params.yaml."""
    found = [edit for edit in edits if edit[0] not in {*LEAVES, *SOURCE_EDITS}]
    batches: list[list[Edit]] = []
    for edit in (edit for edit in edits if edit[0] in {*LEAVES, *SOURCE_EDITS}):
        batch = next(
            (
                some
                for some in batches
                if all(apart(edit, other) for other in some) and allows(values_of([*some, edit]))
            ),
            None,
        )
        if batch is None:
            batches.append(batch := [])
        batch.append(edit)
    for batch in batches:
        names, changes, steps, patterns = zip(*batch)
        texts = {file: text for change in changes for file, text in change.get("source", {}).items()}
        found.append(
            (
                " and ".join(names),
                {"params": values_of(batch), "source": texts},
                set().union(*steps),
                [*chain(*patterns)],
            )
        )
    return found


def values_of(batch: Iterable[Edit]) -> dict[str, Any]:
    """The values of all edits of params.yaml, by dotted key."""
    return {key: value for _, change, _, _ in batch for key, value in change.get("params", {}).items()}


def check(scratch: Any, keys: Iterable[str]) -> None:
    """Ask both engines about each key of params.yaml and each edit of the source, in one process."""
    values = leaves(scratch.values())
    edits = together([edit_of(scratch, key, values.get(key)) for key in keys], scratch.allows)
    edits.insert(0, ("no edit", {}, set(), []))
    answers = scratch.ask([edit for _, edit, _, _ in edits])
    ours = poisoning.STEPS | OF_GRADINIT | OF_L2_ATTENTION | OF_LIPSFORMER | OF_VISION | OF_LONG_SHORT
    ours |= freelb.STEPS | {"render"}
    assert {step_of(name) for name in answers[0]["all"]} == ours - {"freelb/merge_scores"}  # of ARC alone
    wrong = [
        f"{name}: {line}"
        for (name, _, steps, patterns), answer in zip(edits, answers, strict=True)
        for line in faults(answer, steps, patterns)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_leaf_says_what_it_touches() -> None:
    known = {key for key in LEAVES if any(fnmatchcase(key, pattern) for pattern, _, _ in TOUCHES)}
    assert set(LEAVES) == known | FIXED
    assert set(LEAVES) >= QUICK | FIXED
    assert {*GRID_EDITS, *SOURCE_EDITS} >= set(QUICK_EDITS)
    for key, value in LEAVES.items():
        if key not in FIXED:
            flipped(key, value)  # a value of a new kind has its own line among the FLIPS
    for pattern in [*(pattern for pattern, _, _ in TOUCHES), *FLIPS]:
        assert any(fnmatchcase(key, pattern) for key in LEAVES), pattern


def test_edits_touch_their_runs_and_no_others(scratch: Any) -> None:
    """One parameter of each kind, formulas, a comment, plumbing: the same runs in both engines."""
    check(scratch, [*(key for key in LEAVES if key in QUICK), *QUICK_EDITS, "idle edits"])


@pytest.mark.slow
def test_every_parameter_touches_its_runs_and_no_others(scratch: Any) -> None:
    check(scratch, [*(key for key in LEAVES if key not in FIXED), *GRID_EDITS, *SOURCE_EDITS])


@pytest.mark.slow
def test_a_parameter_changes_the_report_itself_where_it_adds_or_removes_runs(scratch: Any) -> None:
    """Asked for each key alone, of the plan: among edits made together, another may change the report."""
    values = leaves(scratch.values())

    def folders(edit: dict[str, Any]) -> set[str]:
        params = scratch.values()
        lay(edit, params)
        return set(planned.jobs_of(parameters.load(scratch.root / "params.yaml", overrides=params)))

    before = folders({})
    edits = [edit_of(scratch, key, values.get(key)) for key in LEAVES if key not in FIXED]
    changing = {key for key, edit, _, _ in edits if folders(edit["params"]) != before}
    assert changing == {key for key, _, steps, _ in edits if "render" in steps}
