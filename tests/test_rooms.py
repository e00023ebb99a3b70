"""The house's plan: who may import whom, what no room imports at top level, how large a file may be."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

import pytest

from relearn.methods import DEFENCES
from relearn.studies import STUDIES
from relearn.studies.study import all_studies

SOURCE = Path(__file__).resolve().parents[1] / "src"
ROOT = SOURCE / "relearn"

# Room -> what it may import from the package, besides its own files. What is not written here may import nothing; a new room fails
# the test until it has a line. Every study is a room of its own, below `studies`, which holds what all of them share.
MATHEMATICS = {"maths", "data", "layers", "models", "methods", "measures"}
A_STUDY = "studies.*"
MAY_IMPORT: dict[str, set[str]] = {
    # the mathematics
    "maths": set(),
    "data": set(),
    "layers": {"maths"},
    "methods": {"maths", "torchvision_schema"},
    "measures": {"maths"},
    "models": {"layers", "maths", "torchvision_schema"},
    "torchvision_schema": set(),
    "torchvision_ready": {"torchvision_schema"},
    "": MATHEMATICS,  # the package itself, only when one of its lazy names is used
    # the machine: nothing of the mathematics but the sizes of data sets
    "runs": set(),
    "params": {"data"},
    "tracking": {"runs"},
    "report": {"runs"},
    # the experiments
    "steps": {*MATHEMATICS, "runs", "torchvision_schema"},
    "studies": {"params", "data", "models"},
    A_STUDY: {*MATHEMATICS, "runs", "params", "report", "steps", "studies", "torchvision_schema"},
    # what the plans will cost; torch only to count networks and to calibrate
    "forecast": {"studies", "runs", "data"},
    # the command line, which reaches the studies through STUDIES
    "cli": {
        *(*MATHEMATICS, "runs", "params", "tracking", "report", "steps", "studies", "forecast"),
        "torchvision_schema",
    },
    "__main__": {"cli"},
    # the contracts of methods, for the tests of other packages
    "testing": {"models"},
    # every step on a GPU against the CPU; in a checkout it chooses the jobs as `relearn pack` does
    "gpu_check": {*MATHEMATICS, "runs", "cli"},
}
# From these rooms only these files, which import no torch.
ONLY = {("params", "data"): {"relearn.data.facts"}}
# These arrows go to a single study, by intent: the verb `relearn robustness` is that study's measurement for a network of the user's,
# and the study robustness evaluates the networks that long_short trains.
BY_INTENT = {
    ("relearn.cli.robustness", "relearn.studies.robustness.steps"),
    ("relearn.cli.robustness_table", "relearn.studies.robustness.steps"),
    ("relearn.cli.evaluate_filter", "relearn.studies.poisoning"),
    ("relearn.cli.evaluate_poisons", "relearn.studies.poisoning"),
    ("relearn.cli.public_poisons", "relearn.studies.poisoning"),
    ("relearn.cli.evaluate_text", "relearn.studies.freelb"),
    ("relearn.studies.robustness.params", "relearn.studies.long_short.params_images"),
}
EVERYBODY = {""}  # the package's own __init__, which holds the version

# A file of methods imports no other method, but for the loops, the types of augmentation, the stack of linear heads, and the neighbour
# search and vote they share.
SHARED_METHODS = {
    f"relearn.methods{one}"
    for one in (
        "",
        ".fit",
        ".augmentation",
        ".crafting",
        ".detector",
        ".dropout_masks",
        ".equal_sets",
        ".neighbours",
        ".deep_knn",
        ".pgd",
        ".transfer",
        ".initialised",
        ".learned_scales",
        ".variance_scaling",
        # adversarial training: what its strategies share
        *(
            ".perturbation",
            ".embedding_space",
            ".pixel_space",
            ".adversarial_base",
            ".dropout_masks",
            ".freelb",
        ),
        ".batch_source",
        ".fit_arguments",
    )
}

IMPORT_MLFLOW = ("relearn.tracking.connection", "relearn.tracking.importer")
# Costly, or absent on a machine with a GPU and no network: imported at top level only where they are the
# purpose, by the modules that begin so; () = by nobody.
TOP_LEVEL: dict[str, tuple[str, ...]] = {
    "mlflow": IMPORT_MLFLOW,
    "pandas": ("relearn.report",),
    "seaborn": ("relearn.report", "relearn.studies."),
    "matplotlib": ("relearn.report", "relearn.studies."),
    "jinja2": ("relearn.report",),
    "pydantic": ("relearn.params.types", "relearn.params.vision", "relearn.studies."),
    "sklearn": (),
    "torchvision": (),
    "timm": ("relearn.models",),
    "transformers": ("relearn.methods.freelb_trainer",),
    "pooch": (),
    "faiss": (),
    "pyarrow": (),
    "snakemake": (),
    "dvc": (),
}
ANYWHERE = {"mlflow": IMPORT_MLFLOW}  # not even inside a function of another file
FORBIDDEN_NAMES = {"utils", "util", "common", "core", "config", "helpers", "misc"}
LINES = 400


class Import(NamedTuple):
    importer: str
    target: str
    line: int
    top_level: bool

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: imports {self.target}"


def modules(root: Path) -> dict[str, Path]:
    named = {}
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        named[".".join(parts).removesuffix(".__init__")] = path
    return named


def imports(root: Path) -> list[Import]:
    named = modules(root)
    return [found for name, path in named.items() for found in imports_of(name, path, named)]


def imports_of(name: str, path: Path, named: dict[str, Path]) -> Iterator[Import]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node, top in walk(ast.parse(path.read_text()), True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, alias.name, node.lineno, top)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            submodules = [f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in named]
            # "from relearn import maths" is an arrow to maths, not to the package.
            for target in submodules or [base]:
                yield Import(name, target, node.lineno, top)


def walk(node: ast.AST, top: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every node, with whether it runs when the module is imported."""
    for child in ast.iter_child_nodes(node):
        yield child, top
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        yield from walk(child, top and not inside and not guarded)


def room(module: str) -> str:
    parts = module.split(".")[1:]
    if (
        parts[:1] == ["studies"]
        and len(parts) > 1
        and ((ROOT / "studies" / parts[1]).is_dir() or parts[1] == "one")
    ):
        return ".".join(parts[:2])
    return ".".join(parts[:1])


def forbidden_arrows(found: list[Import]) -> list[str]:
    wrong = []
    for one in found:
        if one.target.split(".")[0] != "relearn":
            continue
        here, there = room(one.importer), room(one.target)
        if here == there or there in EVERYBODY:
            continue
        if any(one.importer == importer and one.target.startswith(to) for importer, to in BY_INTENT):
            continue
        if there not in MAY_IMPORT.get(A_STUDY if "." in here else here, set()):
            wrong.append(str(one))
        only = ONLY.get((here, there))
        if only is not None and one.target not in only:
            wrong.append(str(one))
    return wrong


def method(module: str) -> str:
    """A method may be a package: its files count as one."""
    return ".".join(module.split(".")[:3])


def methods_that_import_methods(found: list[Import]) -> list[str]:
    return [
        str(one)
        for one in found
        if room(one.importer) == "methods" == room(one.target)
        and method(one.importer) != method(one.target)
        and method(one.importer) not in SHARED_METHODS
        and method(one.target) not in SHARED_METHODS
    ]


def heavy_imports(found: list[Import]) -> list[str]:
    wrong = []
    for one in found:
        library = one.target.split(".")[0]
        places = ANYWHERE.get(library) or (TOP_LEVEL.get(library) if one.top_level else None)
        if places is not None and not one.importer.startswith(places):
            wrong.append(str(one))
    return wrong


@pytest.fixture(scope="module")
def ours() -> list[Import]:
    return imports(ROOT)


def test_imports_go_one_way(ours: list[Import]) -> None:
    assert forbidden_arrows(ours) == []


def test_a_method_imports_no_other_method(ours: list[Import]) -> None:
    assert methods_that_import_methods(ours) == []


def test_costly_libraries_stay_in_their_rooms(ours: list[Import]) -> None:
    assert heavy_imports(ours) == []


def test_every_room_is_on_the_plan() -> None:
    rooms = {room(name) for name in modules(ROOT)} - EVERYBODY
    assert {A_STUDY if "." in one else one for one in rooms} <= set(MAY_IMPORT)
    assert {one.partition(".")[2] for one in rooms if "." in one} == set(STUDIES)


def test_the_top_of_the_package_holds_rooms_only() -> None:
    files = {path.name for path in ROOT.glob("*.py")}
    own = {"testing.py"}  # `from relearn.testing import DefenceContract`, for the tests of other packages
    assert files == {"__init__.py", "__main__.py", "torchvision_ready.py", "torchvision_schema.py"} | own


# Program -> libraries that it must not load: what is asked for often, and without any of their work, answers at once.
STEP = """
import tempfile
from pathlib import Path
from types import SimpleNamespace
from relearn.runs.settings import read
from {step} import NEEDS_TORCH, Settings, run
assert not NEEDS_TORCH
folder = Path(tempfile.mkdtemp())
run(SimpleNamespace(output=lambda name: folder / name, finish=lambda metrics, notes: None), read(Settings, {settings}), {{}}, "cpu", "fp32")
assert list(folder.iterdir())
"""
IMAGES = {"dataset": "digits", "pretrain_per_class": 70, "fine_tune_per_class": 50, "pool_per_class": 70}
PAIRS = {"dataset": "number_words", "vocabulary": 100, "max_length": 60, "train_pairs": 500, "test_pairs": 40}
TEXT = {"dataset": "pydoc_topics", "max_length": 70}
TEXT |= {"train_sentences": 300, "valid_sentences": 40, "test_sentences": 50}
FIGURES = (module for study in all_studies() for module in study.figures.values())
SPARED = {
    **{f"import relearn.studies.{name}.plan": {"torch", "pydantic"} for name in STUDIES},
    "import relearn.cli": {"torch", "numpy", "mlflow", "pandas", "pydantic"},
    f"import relearn.cli.render, relearn.report.claims, relearn.report.page, {', '.join(FIGURES)}": {
        *("pandas", "seaborn", "matplotlib", "jinja2", "mlflow", "torch", "scipy")
    },
    f"import {', '.join(place.partition(':')[0] for place in DEFENCES.values())}": {
        *("sklearn", "pandas", "scipy.stats")
    },
    "import relearn.runs.devices": {"torch"},
    "import relearn.data.download": {"pooch", "requests", "torch"},
    "import relearn.data.facts, relearn.data.class_folders, relearn.models.layer_scale_start": {
        *("torch", "numpy", "pydantic", "safetensors")
    },
    "from relearn import data; data.load('digits')": {"sklearn", "torch"},
    "from relearn.data import TEXTS, module_of; module_of('ptb', TEXTS)": {
        *("torch", "numpy", "relearn.data.ptb", "relearn.data.pydoc_topics", "pydoc_data.topics")
    },
    "from relearn.models.vision import modules_of; assert modules_of('lipsformer_cswin_tiny')": {
        *("timm", "torch", "torchvision")
    },
    STEP.format(step="relearn.steps.prepare_images", settings=IMAGES): {
        *("torch", "sklearn", "pandas", "pooch", "pydantic")
    },
    STEP.format(step="relearn.studies.gradinit.steps.prepare_translation", settings=PAIRS): {
        *("torch", "sklearn", "pandas", "pooch", "pydantic", "transformers")
    },
    STEP.format(step="relearn.studies.l2_attention.steps.prepare_ptb_lines", settings=TEXT): {
        *("torch", "tokenizers", "sklearn", "pandas", "pooch", "pydantic", "scipy")
    },
}


@pytest.mark.parametrize("program", SPARED)
def test_a_costly_library_is_not_loaded_where_nothing_needs_it(program: str) -> None:
    code = f"{program}\nimport sys; print(sorted({SPARED[program]} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout.splitlines()[-1:], done.stderr) == (["[]"], "")


def test_no_file_is_called_by_a_word_without_meaning() -> None:
    assert [name for name in modules(ROOT) if FORBIDDEN_NAMES & set(name.split("."))] == []


def test_files_are_small() -> None:
    long = {name: len(path.read_text().splitlines()) for name, path in modules(ROOT).items()}
    assert {name: lines for name, lines in long.items() if lines > LINES} == {}


def test_files_that_are_no_modules_are_shipped() -> None:
    with open(SOURCE.parent / "pyproject.toml", "rb") as file:
        patterns = tomllib.load(file)["tool"]["setuptools"]["package-data"]["relearn"]
    others = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    matched = {pattern: {path for path in others if PurePath(path).match(pattern)} for pattern in patterns}
    assert others == set().union(*matched.values())
    assert [pattern for pattern, files in matched.items() if not files] == []


@pytest.mark.parametrize(
    ("name", "text", "caught_by"),
    [
        ("layers/a.py", "from relearn.models import b\n", forbidden_arrows),
        ("layers/a.py", "def f():\n    from ..models import b\n", forbidden_arrows),
        ("maths.py", "from relearn import runs\n", forbidden_arrows),
        ("methods/a.py", "import relearn.measures.b as b\n", forbidden_arrows),
        ("report/a.py", "from relearn.steps import b\n", forbidden_arrows),
        ("new_room/a.py", "from relearn import maths\n", forbidden_arrows),
        ("tracking/a.py", "from relearn.report import b\n", forbidden_arrows),
        ("report/a.py", "from relearn.models import b\n", forbidden_arrows),
        ("params/a.py", "from relearn.data import b\n", forbidden_arrows),
        ("studies/one/a.py", "from relearn.studies.poisoning import plan\n", forbidden_arrows),
        ("steps/a.py", "from relearn.studies.poisoning import plan\n", forbidden_arrows),
        ("report/a.py", "from relearn.studies import study\n", forbidden_arrows),
        ("methods/a.py", "from . import b\n", methods_that_import_methods),
        ("measures/a.py", "import pandas as pd\n", heavy_imports),
        (
            "measures/a.py",
            "try:\n    from sklearn.svm import SVC\nexcept ImportError:\n    pass\n",
            heavy_imports,
        ),
        ("steps/a.py", "def run():\n    import mlflow\n", heavy_imports),
        ("steps/a.py", "class A:\n    import seaborn\n", heavy_imports),
    ],
)
def test_a_wrong_arrow_is_seen(tmp_path: Path, name: str, text: str, caught_by: object) -> None:
    """The negative control: a scratch package with one wrong import, and the same without it."""
    root = tmp_path / "relearn"
    for path in (
        "maths.py",
        "runs/__init__.py",
        "runs/b.py",
        "studies/study.py",
        "studies/poisoning/plan.py",
        "models/b.py",
        "data/b.py",
        "measures/b.py",
        "steps/b.py",
        "report/b.py",
        "methods/b.py",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("import math\nfrom . import c\n" if name == "methods/a.py" else "import math\n")
    assert callable(caught_by)
    assert caught_by(imports(root)) == []
    (root / name).write_text(text)
    assert len(caught_by(imports(root))) == 1


def test_an_import_inside_a_function_is_not_at_top_level(tmp_path: Path) -> None:
    root = tmp_path / "relearn"
    root.mkdir()
    (root / "a.py").write_text("def f():\n    import pandas\n\nimport sklearn\n")
    assert [one.top_level for one in imports(root)] == [False, True]
