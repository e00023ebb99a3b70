"""The code version of the package itself: every module has one, and edits of a scratch copy reach the steps that they should."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from relearn.runs.code_version import PLUMBING, ROOT, closure, code_version, is_plumbing

from .moved_modules import edit, move


def names_in(root: Path) -> list[str]:
    return [
        ".".join(("relearn", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(root.rglob("*.py"))
    ]


def test_every_module_of_the_package_has_a_version() -> None:
    """No import leads nowhere or in a circle, and every name of the plumbing list is a room."""
    names = [name for name in names_in(ROOT) if not is_plumbing(name)]
    assert set(closure(names)) == set(names)
    code_version(*names)
    assert len(PLUMBING) == 4 and set(PLUMBING) <= set(names_in(ROOT))


def test_no_class_does_something_to_its_subclasses() -> None:
    """A class counts where it is named. A subclass that its base registers would count without being named."""
    hooks = ("__init_subclass__", "__set_name__")
    files = [path for path in ROOT.rglob("*.py") if path.name != "test_code_version.py"]
    assert [str(path) for path in files if any(f"def {hook}" in path.read_text() for hook in hooks)] == []


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    root = tmp_path / "relearn"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def stale(root: Path, change: Callable[[], None]) -> set[str]:
    """Return the steps of the package whose version a change changes."""
    files = [path for path in sorted(root.rglob("steps/**/*.py")) if "\ndef run(" in path.read_text()]
    steps = [".".join(("relearn", *path.relative_to(root).with_suffix("").parts)) for path in files]
    before = {step: code_version(step, root=root) for step in steps}
    change()
    return {step.rpartition(".")[2] for step in steps if code_version(step, root=root) != before[step]}


@pytest.mark.parametrize(
    ("name", "old", "new", "steps"),
    [
        # the image split: no other data set, no training
        ("data/split.py", "if pool_per_class <", "if pool_per_class <=", {"prepare_images"}),
        ("steps/prepare_images.py", "np.sort(", "np.unique(", {"prepare_images"}),
        ("steps/list_imagenet.py", '"test_count"', '"tested_count"', {"list_imagenet"}),
        # what nobody reaches: data parallel training, a definition that is new
        ("methods/parallel.py", "BUCKET = 2**23", "BUCKET = 2**20", set()),
        ("data/mirror.py", "def mirror_of", "def other() -> int:\n    return 3\n\n\ndef mirror_of", set()),
        (
            "steps/trained/chance.py",
            "0.98",
            "0.97",
            {"convert_roberta", "train_vision", "train_constrained", "train_lra", "evaluate_robustness"},
        ),
        # a score and the part of it that only one step takes
        ("measures/glue_scores.py", "def _score(", "def _score(_more=None, *, ", {"finetune", "ensemble"}),
        (
            "measures/glue_scores.py",
            "def entailment_answers(",
            "def entailment_answers(_more, ",
            {"ensemble"},
        ),
    ],
)
def test_an_edit_of_the_package_makes_its_steps_stale(
    scratch: Path, name: str, old: str, new: str, steps: set[str]
) -> None:
    assert stale(scratch, lambda: edit(scratch, name, old, new)) == steps


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps.trained.clock", "measures.clock"),
        ("studies.freelb.steps.finetune", "studies.freelb.steps.finetuning"),
        ("data.split", "data.image_split"),
        ("methods.fit_state", "loop.state"),
        ("models.files", "models.image_files"),
    ],
)
def test_a_moved_file_of_the_package_makes_nothing_stale(scratch: Path, old: str, new: str) -> None:
    names = [
        "relearn.methods.fit",
        "relearn.studies.poisoning.steps.train",
        "relearn.studies.freelb.steps.ensemble",
        "relearn.steps.prepare_images",
    ]
    names += [
        "relearn.studies.freelb.steps.pretrain_encoder",
        "relearn.studies.poisoning.steps.evaluate_networks",
        "relearn.studies.freelb.steps.train_images_adversarially",
    ]
    before = [code_version(name, root=scratch) for name in [*names, f"relearn.{old}"]]
    assert f"relearn.{old}" in closure(names, root=scratch)
    move(scratch, old, new)
    assert [code_version(name, root=scratch) for name in [*names, f"relearn.{new}"]] == before
