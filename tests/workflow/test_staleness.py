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
from . import staleness_vision as vision
from .dotted import lay
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
P = "poisoning"
S = f"{P}.studies"
A = f"{P}.craft.attacks"
NEW = "GoogLeNet"  # in no list of the scratch checkout
ALONE, OTHER = "SENet18", "ResNet18"  # its victims; the first in every study, the second in one

STEPS = {
    *("prepare_images", "split_overlap", "pretrain", "adversarial_training", "craft", "filter", "train"),
    *("evaluate_networks", "feature_plane", "hull_proposition", "toy_example"),
}

NETWORKS = ["pretrain/*", "adversarial_training/*", "evaluate_networks/*", "feature_plane/*"]
BELOW = ["craft/*", "filter/*", "train/*", "render"]
WITH_NETWORKS = [*NETWORKS, *BELOW]
WITH_DATA = ["prepare_images/*", "split_overlap/*", *WITH_NETWORKS]
ON_S1 = [
    "feature_collision",
    "feature_collision_no_dropout",
    "convex_polytope",
    "bullseye_polytope",
    "gradient_matching",
    "adaptive_polytope",
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
        *(f"feature_plane/{name}/*" for name in plane),
        "render",
    ]


def of_attack(*names: str) -> list[str]:
    return [*(f"craft/{name}/*" for name in names), *below(*names)]


def of_defence(name: str, setting: str = "*", attack: str = "*") -> list[str]:
    return [*(f"{step}/{setting}/{attack}/{name}/*" for step in ("filter", "train")), "render"]


def network(role: str, name: str) -> list[str]:
    return [f"pretrain/{role}/{name}/*", f"evaluate_networks/{role}/{name}/*"]


# Key pattern → stages that it changes themselves, runs that are made again. The first that fits counts. A pattern
# of a run that the scratch checkout does not have at all is idle and left out here.
TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (f"{P}.seeds", {P, "render"}, ["*/seed1", "render"]),
    (f"{P}.prepare.dataset", {P, "render"}, WITH_DATA),  # a folder of another name is read
    (f"{P}.prepare.*", {P}, WITH_DATA),
    *(
        (
            f"{P}.pretrain.substitutes.{key}",  # the train stage asks whether a victim is a grey box
            {P, "render"},
            [*network("substitute", name), *of_attack(*ON_S1), *S2],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    (
        f"{P}.pretrain.victims.architectures",
        {P, "render"},
        [
            *network("victim", f"{NEW}-*"),
            *(f"adversarial_training/robust/{NEW}-*", f"evaluate_networks/robust/{NEW}-*"),
            *(f"filter/transfer/*/{NEW}/*", f"train/transfer/*/{NEW}/*", "render"),
        ],
    ),
    (f"{P}.pretrain.network.half_depth", {P}, []),  # of a network that is not here
    (f"{P}.pretrain.*", {P}, WITH_NETWORKS),
    (
        f"{P}.adversarial_training.*",
        {P},
        [
            "adversarial_training/*",
            "evaluate_networks/robust/*",
            "train/transfer/*/adversarial_training/*",
            "render",
        ],
    ),
    # attacks
    (f"{A}.feature_collision.dropout", {P}, of_attack("feature_collision")),  # the other one has none
    *(
        (f"{A}.{attack}.*", {P}, of_attack(*runs))
        for attack, runs in (
            ("feature_collision", ["feature_collision", "feature_collision_no_dropout"]),
            ("convex_polytope", ["convex_polytope", "convex_polytope_half"]),
            *(
                (name, [name])
                for name in (*LAYERS, "bullseye_polytope", "gradient_matching", "adaptive_polytope")
            ),
            *((name, [name]) for name in ("white_box_collision", "white_box_watermark")),
        )
    ),
    (
        f"{P}.craft.targets",  # an end-to-end study has a number of its own, and poisons of its own layers' attacks
        {P},
        [
            *(f"craft/{attack}/*" for attack in (*ON_S1, "convex_polytope_half", "white_box_*")),
            *("filter/*", "train/transfer/*", "train/overlap_*", "train/imbalance/*"),
            *("train/end_to_end/convex_polytope/*", "feature_plane/*", "render"),
        ],
    ),
    (
        f"{P}.craft.*",
        {P},
        [*BELOW, "feature_plane/*"],
    ),
    # defences
    (
        f"{P}.filter.random_eviction.feature_collision_fraction",
        {P},
        of_defence("random_eviction", attack="feature_collision"),
    ),
    (
        f"{P}.filter.random_eviction.fraction",
        {P},
        of_defence("random_eviction", attack="convex_polytope"),
    ),
    (  # the imbalance study has a k of its own
        f"{P}.filter.deep_knn.k",
        {P},
        [*of_defence("deep_knn", "transfer"), "feature_plane/*"],
    ),
    (f"{P}.filter.deep_knn.sweep", {P}, of_defence("deep_knn", "transfer")),
    (
        f"{P}.filter.deep_knn.include_self",
        {P},
        [*of_defence("deep_knn"), "feature_plane/*"],
    ),
    (f"{P}.filter.deep_knn.label_ties", {P}, [*of_defence("deep_knn"), "feature_plane/*"]),
    (f"{P}.filter.l2_outliers.*", {P}, of_defence("l2_outliers")),
    (f"{P}.filter.one_class_svm.*", {P}, of_defence("one_class_svm")),
    (f"{P}.filter.spectral_signatures.*", {P}, of_defence("spectral_signatures")),
    (f"{P}.filter.activation_clustering.*", {P}, of_defence("activation_clustering")),
    (f"{P}.filter.epic.*", {P}, of_defence("epic")),
    # fine-tuning: two recipes
    (
        f"{P}.train.transfer.*",
        {P},
        ["train/transfer/*", "train/overlap_*", "train/imbalance/*", "render"],
    ),
    (f"{P}.train.end_to_end.*", {P}, ["train/end_to_end/*", "render"]),
    *(
        (f"{P}.train.{defence}.*", {P}, [f"train/{setting}/*/{defence}/*", "render"])
        for defence, setting in (
            ("partition_aggregation", "transfer"),
            ("mixup", "end_to_end"),
            ("cutmix", "end_to_end"),
        )
    ),
    # who meets whom
    (
        f"{S}.transfer.feature_collision",
        {P, "render"},
        ["train/transfer/feature_collision/adversarial_training/*", "render"],
    ),
    *(
        (
            f"{S}.transfer.{attack}",
            {P, "render"},
            of_defence("l2_outliers", "transfer", attack),
        )
        for attack in ("convex_polytope", "bullseye_polytope", "gradient_matching", "adaptive_polytope")
    ),
    (
        f"{S}.dropout.attacks",
        {P, "render"},
        [*of_attack("convex_polytope"), "craft/convex_polytope_no_dropout/*"],
    ),
    (
        f"{S}.dropout.*",
        {P},
        of_attack("feature_collision", "feature_collision_no_dropout"),
    ),
    (f"{S}.left_out", {P, "render"}, ["render"]),  # one less
    (f"{S}.overlap.shared", {P, "render"}, ["render"]),  # one less
    *(
        (
            f"{S}.overlap.substitutes.{key}",
            {P, "render"},
            [*network("substitute_half", name), *of_attack("convex_polytope_half")],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    (
        f"{S}.overlap.victims",
        {P, "render"},
        [
            *network("victim_half", f"{OTHER}-*"),
            *network("victim_disjoint", f"{OTHER}-*"),
            *(f"train/overlap_*/{OTHER}/*", "render"),
        ],
    ),
    *(
        (
            f"{S}.end_to_end.substitutes.{key}",
            {P, "render"},
            [*network("substitute", name), *of_attack(*LAYERS), *S2],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    *((f"{S}.end_to_end.{key}", {P, "render"}, ["render"]) for key in ("attacks", "defences")),  # one less
    (f"{S}.end_to_end.victims", {P, "render"}, [f"train/end_to_end/*/{OTHER}/*", "render"]),
    (f"{S}.end_to_end.targets", {P}, ["craft/multi_layer*", "train/end_to_end/*", "render"]),
    *(
        (
            f"{S}.imbalance.{key}",
            {P, "render"},
            [f"filter/imbalance/{runs}", f"train/imbalance/{runs}", "render"],
        )
        for key, runs in (("attacks", "feature_collision/*"), ("victims", f"*/{OTHER}/*"))
    ),
    (f"{S}.imbalance.*", {P}, ["filter/imbalance/*", "train/imbalance/*", "render"]),
    (f"{S}.white_box.attacks", {P, "render"}, ["render"]),  # one less
    (f"{S}.white_box.victim", {P, "render"}, of_attack("white_box_*")),
    (f"{S}.feature_plane.target", {P}, ["feature_plane/*", "render"]),
    (f"{S}.feature_plane.*", {P, "render"}, ["feature_plane/*", "render"]),
    (f"{P}.evaluate.hull.*", {P}, ["hull_proposition/*", "render"]),
    (f"{P}.evaluate.*", {P}, ["evaluate_networks/*", "render"]),
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
    f"{P}.prepare.pretrain_per_class": lambda n: n - 1,
    f"{P}.*.target_dropout": lambda name: {"resampled": "fixed", "fixed": "off", "off": "resampled"}[name],
    f"{P}.filter.deep_knn.label_ties": lambda name: {"keep": "smallest", "smallest": "keep"}[name],
    f"{P}.*.dropout": lambda value: [0.1] if isinstance(value, list) else not value,
    f"{P}.*.schedule": lambda name: {"cosine": "step", "step": "cosine"}[name],
    f"{P}.*.batch_size": lambda n: n - 1,
    f"{P}.*.milestones": lambda epochs: epochs[:-1],
    f"{P}.craft.targets": lambda n: n - 1,
    f"{P}.*.parameters": lambda name: {"head": "all", "all": "head"}[name],
    f"{P}.filter.deep_knn.sweep": lambda ks: ks[:-1],
    f"{P}.pretrain.victims.architectures": lambda names: [*names, NEW],
    f"{P}.*.architectures": lambda names: [*names, NEW],
    f"{P}.pretrain.network.half_depth": lambda names: [NEW],
    f"{S}.left_out": lambda names: ["gradient_matching"],
    f"{S}.overlap.shared": lambda names: names[:-1],
    f"{S}.transfer.feature_collision": lambda names: [*names, "adversarial_training"],
    f"{S}.transfer.*": lambda names: [*names, "l2_outliers"],
    f"{S}.dropout.attacks": lambda names: [*names, "convex_polytope"],
    f"{S}.imbalance.attacks": lambda names: [*names, "feature_collision"],
    f"{S}.*.attacks": lambda names: names[:-1],
    f"{S}.end_to_end.defences": lambda names: names[:-1],
    f"{S}.feature_plane.attack": lambda name: "feature_collision",
    f"{S}.*.victims": lambda names: [*names, OTHER],
    f"{S}.*.victim": lambda name: OTHER,
    f"{S}.imbalance.class_sizes": lambda sizes: sizes[:-1],
    f"{P}.evaluate.pgd.eps": lambda values: values[:-1],
}
FLIPS |= gradinit.FLIPS | l2_attention.FLIPS | lipsformer.FLIPS | vision.FLIPS
FLIPS |= long_short.FLIPS | freelb.FLIPS
FIXED = {"scale", f"{S}.overlap.attack"}  # scale has a test of its own; of the other there is one value
FIXED |= long_short.FIXED | vision.FIXED

# One of each kind for every run of the tests; all the others are slow together.
QUICK = {
    f"{P}.seeds",
    f"{P}.pretrain.substitutes.architectures",
    f"{P}.pretrain.training.epochs",
    f"{P}.adversarial_training.adversarial.steps",
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
    """Edits of params.yaml that touch different runs as one: what they touch is the union, and the engines are asked less often.
    ``allows`` says whether values by dotted key may stand together in params.yaml."""
    found = [edit for edit in edits if edit[0] not in LEAVES]
    batches: list[list[Edit]] = []
    for edit in (edit for edit in edits if edit[0] in LEAVES):
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
        names, _, steps, patterns = zip(*batch)
        found.append(
            (" and ".join(names), {"params": values_of(batch)}, set().union(*steps), [*chain(*patterns)])
        )
    return found


def values_of(batch: Iterable[Edit]) -> dict[str, Any]:
    """The values of all edits of params.yaml, by dotted key."""
    return {key: value for _, change, _, _ in batch for key, value in change["params"].items()}


def check(scratch: Any, keys: Iterable[str]) -> None:
    """Ask both engines about each key of params.yaml and each edit of the source, in one process."""
    values = leaves(scratch.values())
    edits = together([edit_of(scratch, key, values.get(key)) for key in keys], scratch.allows)
    edits.insert(0, ("no edit", {}, set(), []))
    answers = scratch.ask([edit for _, edit, _, _ in edits])
    ours = STEPS | OF_GRADINIT | OF_L2_ATTENTION | OF_LIPSFORMER | OF_VISION | OF_LONG_SHORT
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
    for key, value in LEAVES.items():
        if key not in FIXED:
            flipped(key, value)  # a value of a new kind has its own line among the FLIPS
    for pattern in [*(pattern for pattern, _, _ in TOUCHES), *FLIPS]:
        assert any(fnmatchcase(key, pattern) for key in LEAVES), pattern


def test_edits_touch_their_runs_and_no_others(scratch: Any) -> None:
    """One parameter of each kind, formulas, a comment, plumbing: the same runs in both engines."""
    check(scratch, [*(key for key in LEAVES if key in QUICK), *GRID_EDITS, *SOURCE_EDITS, "idle edits"])


@pytest.mark.slow
def test_every_parameter_touches_its_runs_and_no_others(scratch: Any) -> None:
    check(scratch, [key for key in LEAVES if key not in FIXED])


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
