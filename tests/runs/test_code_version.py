"""An edit changes the code version of the runs that reach it, and of no others; a file's place and name play no part."""

import ast
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.runs import code_trees
from relearn.runs import code_version as module
from relearn.runs.code_version import closure, code_version

from .moved_modules import edit, move

FORMULA = '''"""A method."""

from relearn.maths import EPS, norm
from relearn.models.base import Base


def score(x, y, scale=EPS):
    """Say how far x is from y."""
    # squared, as the paper has it
    return scale * norm(x - y) ** 2


class Fast(Base):
    def step(self):
        from relearn.maths import halved
        return halved(self.rate())


def alone(x):
    return x + ALONE


ALONE = 3
'''

HOUSE = {
    "__init__.py": '__version__ = "1.0"\n',
    "maths.py": """import functools
from math import sqrt

EPS = 1e-8
TWO = 2
UNUSED = 7


def once(function):
    return functools.cache(function)


def root(x):
    return sqrt(x)


def norm(x):
    return root(x * x)


def halved(x):
    return x / TWO


def unused(x):
    return UNUSED * x
""",
    "runs/__init__.py": "",
    "runs/record.py": "def write(path):\n    return path\n",
    "models/__init__.py": "from relearn.models.base import Base as Exported\n",
    "models/base.py": "RATE = 0.1\n\n\nclass Base:\n    def rate(self):\n        return RATE\n\n\nclass Other:\n    pass\n",
    "methods/__init__.py": 'METHODS = {"one": "relearn.methods.one:score"}\n',
    "methods/one.py": FORMULA,
    "methods/two.py": "def score(x, y):\n    from . import apart\n    return -apart.K\n",
    "methods/apart.py": "K = 5\n",
    "steps/__init__.py": "",
    "steps/run.py": "import relearn.methods.one as one\nfrom relearn import maths\nfrom relearn.runs import record\n",
    "steps/small.py": "from relearn.methods.one import score\n\n\ndef run(x):\n    return score(x, 0)\n",
    "steps/classes.py": "from relearn.methods.one import Fast\n\n\ndef run():\n    return Fast().step()\n",
    "steps/exported.py": "from relearn.models import Exported\n\nNET = Exported\n",
    "steps/plain.py": "from relearn.maths import norm\n",
}
STEPS = ("run", "small", "classes", "exported", "plain")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    root = tmp_path / "relearn"
    for name, text in HOUSE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def versions(house: Path) -> dict[str, str]:
    return {step: code_version(f"relearn.steps.{step}", root=house) for step in STEPS}


def changed(house: Path, change: Callable[[], None]) -> set[str]:
    """Return the steps whose version a change of the house changes."""
    before = versions(house)
    change()
    return {step for step, version in versions(house).items() if version != before[step]}


ALL = {"run", "small", "plain", "classes"}  # all that import maths


NOTHING: set[str] = set()


@pytest.mark.parametrize(
    ("name", "old", "new", "steps"),
    [
        # formulas, by way of one file and of two
        ("methods/one.py", "** 2", "** 3", {"run", "small"}),
        ("methods/one.py", "x - y", "x + y", {"run", "small"}),
        ("maths.py", "sqrt(x)", "abs(x)", {"run", "small", "plain"}),
        # the same name from elsewhere
        ("maths.py", "from math import sqrt", "from cmath import sqrt", {"run", "small", "plain"}),
        # a default argument and the constant behind it
        ("methods/one.py", "scale=EPS", "scale=1", {"run", "small"}),
        ("maths.py", "1e-8", "1e-9", {"run", "small"}),
        # a base class, what it reads, and an import inside a method
        ("models/base.py", "return RATE", "return -RATE", {"run", "classes", "exported"}),
        ("models/base.py", "0.1", "0.2", {"run", "classes", "exported"}),
        ("methods/one.py", "Fast(Base)", "Fast", {"run", "classes"}),
        ("maths.py", "TWO = 2", "TWO = 3", {"run", "classes"}),
        ("maths.py", "x / TWO", "x * TWO", {"run", "classes"}),
        # a decorator, of the package and of elsewhere; of the package it runs when the module is imported
        ("maths.py", "def norm", "@functools.cache\ndef norm", {"run", "small", "plain"}),
        ("maths.py", "def halved", "@once\ndef halved", ALL),
        # statements that run when a module is imported: of the module, of its package, of what it imports
        ("maths.py", "TWO = 2", "TWO = 2\nprint(UNUSED)", ALL),
        ("maths.py", "TWO = 2", "TWO = 2\nFOUND = root(4)", ALL),
        ("maths.py", "TWO = 2", "TWO = 2\nnorm.scale = 2", ALL),
        ("maths.py", "TWO = 2", "TWO = 2\nTWO += 1", ALL),
        ("maths.py", "TWO = 2", "try:\n    TWO = 2\nexcept NameError:\n    TWO = 3", ALL),
        ("maths.py", "EPS =", "import seaborn  # draws otherwise once it is imported\n\nEPS =", ALL),
        ("methods/__init__.py", "METHODS", "import_all()\nMETHODS", {"run", "small", "classes"}),
        ("steps/__init__.py", "", "print()\n", set(STEPS)),
        # a conditional import
        (
            "maths.py",
            "from math import sqrt",
            "try:\n    from relearn.models.base import RATE as sqrt\nexcept ImportError:\n    from math import sqrt",
            ALL,
        ),
        # the name that a module defines twice
        ("maths.py", "def halved", "def root(x):\n    return x\n\n\ndef halved", {"run", "small", "plain"}),
        # what an __init__ hands on
        ("models/__init__.py", "base import Base as", "base import Other as", {"exported"}),
        # a step counts whole
        ("steps/small.py", "score(x, 0)", "score(x, 1)", {"small"}),
        ("steps/plain.py", "norm\n", "norm\n\n\ndef more():\n    pass\n", {"plain"}),
        ("steps/plain.py", "norm\n", "norm\nfrom math import sqrt\n", {"plain"}),
        # another Python
        ("maths.py", "import functools", "from __future__ import division\nimport functools", ALL),
        # words, or what nothing reaches
        ("methods/one.py", '"""A method."""', '"""A method of ours."""', NOTHING),
        ("methods/one.py", '    """Say how far x is from y."""\n', "", NOTHING),
        ("methods/one.py", "# squared, as the paper has it", "# why not", NOTHING),
        ("methods/one.py", "norm(x - y) ** 2", "(\n        norm( x-y )**2\n    )", NOTHING),
        ("maths.py", "def norm", "\n\n\ndef norm", NOTHING),
        ("__init__.py", "1.0", "2.0", NOTHING),
        ("methods/__init__.py", "METHODS = {", 'METHODS = {"new": "relearn.methods.apart:score", ', NOTHING),
        ("methods/apart.py", "5", "6", NOTHING),
        ("methods/two.py", "return -", "return ", NOTHING),
        ("runs/record.py", "return path", "return None", NOTHING),
        ("models/base.py", "class Other:\n    pass", "class Other(Base):\n    more = 1", NOTHING),
        # another order of definitions
        ("maths.py", "TWO = 2\nUNUSED = 7", "UNUSED = 7\nTWO = 2", NOTHING),
        # an import of a module without effects, or for a type checker
        ("steps/__init__.py", "", "from relearn.methods import apart\n", NOTHING),
        (
            "maths.py",
            "TWO = 2",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from relearn.methods import apart\nTWO = 2",
            NOTHING,
        ),
        # the same import written in another way
        (
            "maths.py",
            "import functools\nfrom math import sqrt",
            "from math import sqrt\nimport functools",
            NOTHING,
        ),
    ],
)
def test_an_edit_reaches_the_runs_that_reach_it(
    house: Path, name: str, old: str, new: str, steps: set[str]
) -> None:
    def change() -> None:
        if old:
            edit(house, name, old, new)
        else:
            (house / name).write_text(new)

    assert changed(house, change) == steps


@pytest.mark.parametrize(
    ("old", "new"),
    [("= 7", "= 8"), ("UNUSED * x", "-UNUSED * x"), ("def unused", "def other"), ("functools.cache", "id")],
)
def test_an_unused_definition_counts_for_those_that_take_the_whole_module(
    house: Path, old: str, new: str
) -> None:
    """``run`` imports the module, the others take names from it."""
    assert changed(house, lambda: edit(house, "maths.py", old, new)) == {"run"}


@pytest.mark.parametrize(
    "all_of_it",
    [
        "from relearn.maths import *\n",
        "import relearn.maths\n",
        "import relearn.maths as m\n",
        "from relearn import maths as m\n",
        "from .. import maths\n",
        "def run():\n    import relearn.maths\n",
        "from relearn.maths import made_by_an_effect\n",
        "from relearn.methods.apart import K\n",  # which looks its names up, see below
    ],
)
def test_an_import_of_a_module_takes_all_of_it(house: Path, all_of_it: str) -> None:
    (house / "methods/apart.py").write_text("from relearn import maths\n\nK = list(globals())\n")
    (house / "steps/plain.py").write_text(all_of_it)
    assert "plain" in changed(house, lambda: edit(house, "maths.py", "UNUSED * x", "-UNUSED * x"))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("methods/apart.py", "return 1", "return 2"),  # a definition
        ("methods/apart.py", "from math import", "from cmath import"),  # a name from elsewhere
        ("maths.py", "UNUSED * x", "-UNUSED * x"),  # a name from the package
    ],
)
def test_a_function_that_looks_names_up_takes_all_of_its_module(
    house: Path, name: str, old: str, new: str
) -> None:
    text = "def one():\n    return 1\n\n\ndef pick(name):\n    return globals()[name]\n"
    imports = "from math import sin\n\nfrom relearn.maths import unused\n\n\n"
    (house / "methods/apart.py").write_text(imports + text)
    (house / "steps/plain.py").write_text("from relearn.methods.apart import pick\n")
    assert changed(house, lambda: edit(house, name, old, new)) - {"run"} == {"plain"}


@pytest.mark.parametrize("name", ["Base", "sqrt", "NETWORKS"])  # of the package, of elsewhere, a registry
def test_a_name_that_a_module_hands_on_takes_nothing_else_of_it(house: Path, name: str) -> None:
    (house / "models/__init__.py").write_text(
        "from math import sqrt\n\nfrom relearn.models.base import Base\n\n"
        'NETWORKS = {"one": "relearn.methods.one:score"}\n\n\ndef other():\n    return 1\n'
    )
    (house / "steps/plain.py").write_text(f"from relearn.models import {name}\n")
    assert "plain" not in changed(house, lambda: edit(house, "models/__init__.py", "return 1", "return 2"))


def test_a_package_may_import_its_own_modules(house: Path) -> None:
    edit(house, "methods/__init__.py", "METHODS", "from relearn.methods import apart\n\nMETHODS")
    (house / "steps/plain.py").write_text("from relearn.methods import apart\n")
    assert changed(house, lambda: edit(house, "methods/apart.py", "5", "6")) == {"plain"}


def test_what_an_imported_module_does_counts_though_nobody_reads_it(house: Path) -> None:
    edit(house, "maths.py", "import functools", "import functools\nfrom relearn.methods import apart")
    assert changed(house, lambda: edit(house, "methods/apart.py", "5", "5\nprint()")) == ALL


def test_what_a_call_at_import_imports_counts_with_what_that_does(house: Path) -> None:
    """``two.score`` imports ``apart`` in its body, and nobody else does."""
    (house / "steps/__init__.py").write_text("from relearn.methods.two import score\n\nscore(1, 2)\n")
    assert "relearn.methods.apart" in closure(["relearn.steps.plain"], root=house)
    assert changed(house, lambda: edit(house, "methods/apart.py", "5", "5\nprint()")) == set(STEPS)


@pytest.mark.parametrize(
    ("line", "name", "old"),
    [
        ("from relearn.methods.apart import f", "maths.py", "x * x"),  # f may read any name of the star
        ("from relearn.methods.apart import *", "methods/apart.py", "norm(x)"),
    ],
)
def test_a_star_import_counts_in_the_module_that_has_it(house: Path, line: str, name: str, old: str) -> None:
    (house / "methods/apart.py").write_text(
        "from relearn.maths import *\n\n\ndef f(x):\n    return norm(x)\n"
    )
    (house / "steps/plain.py").write_text(line + "\n")
    assert "plain" in changed(house, lambda: edit(house, name, old, f"-{old}"))


def test_two_swapped_definitions_are_other_code(house: Path) -> None:
    def swap() -> None:
        text = (house / "maths.py").read_text()
        text = (
            text.replace("def root", "def kept")
            .replace("def halved", "def root")
            .replace("def kept", "def halved")
        )
        (house / "maths.py").write_text(text)

    assert changed(house, swap) == {"run", "small", "classes", "plain"}


def test_two_swapped_modules_are_other_code(house: Path) -> None:
    """What they define has the same name, so that only the content says which is which."""
    for name, sign in (("left", ""), ("right", "-")):
        (house / f"methods/{name}.py").write_text(f"def f(x):\n    return {sign}x\n")
    (house / "steps/small.py").write_text(
        "from relearn.methods.left import f as a\nfrom relearn.methods.right import f as b\n\n"
        "def run(x):\n    return a(b(x), x)\n"
    )
    before = versions(house)
    assert changed(house, lambda: edit(house, "steps/small.py", "a(b(x), x)", "b(a(x), x)")) == {"small"}
    edit(house, "steps/small.py", "b(a(x), x)", "a(b(x), x)")
    assert versions(house) == before

    def swap() -> None:
        (house / "methods/left.py").rename(house / "methods/kept.py")
        (house / "methods/right.py").rename(house / "methods/left.py")
        (house / "methods/kept.py").rename(house / "methods/right.py")

    assert changed(house, swap) == {"small"}


@pytest.mark.parametrize("new", ["methods.first", "elsewhere.one", "one"])
def test_a_moved_file_keeps_every_version(house: Path, new: str) -> None:
    assert changed(house, lambda: move(house, "methods.one", new)) == set()
    assert not (house / "methods/one.py").exists()


def test_a_step_keeps_its_version_under_another_name(house: Path) -> None:
    before = code_version("relearn.steps.small", root=house)
    move(house, "steps.small", "studies.own.steps.small")
    assert code_version("relearn.studies.own.steps.small", root=house) == before


def test_closure_names_the_modules_that_are_reached(house: Path) -> None:
    assert closure(["relearn.steps.plain"], root=house) == ("relearn.maths", "relearn.steps.plain")
    assert closure(["relearn.steps.classes"], root=house) == tuple(
        f"relearn.{name}" for name in ("maths", "methods.one", "models.base", "steps.classes")
    )
    whole = closure(["relearn.steps.run"], root=house)
    assert "relearn.methods.one" in whole and "relearn.runs.record" not in whole  # plumbing


def test_a_circle_of_definitions_in_two_modules_is_refused(house: Path) -> None:
    (house / "models/left.py").write_text("from .right import b\n\n\ndef a():\n    return b\n")
    (house / "models/right.py").write_text("def b():\n    from relearn.models.left import a\n    return a\n")
    with pytest.raises(ValueError, match="imports go in a circle: relearn") as caught:
        code_version("relearn.models.left", root=house)
    assert "\n" not in str(caught.value)


def test_a_circle_inside_a_module_is_none(house: Path) -> None:
    text = (
        "def even(n):\n    return n == 0 or odd(n - 1)\n\n\ndef odd(n):\n    return n != 0 and even(n - 1)\n"
    )
    (house / "steps/plain.py").write_text("from relearn.maths import even\n")
    (house / "maths.py").write_text(HOUSE["maths.py"] + text)
    assert changed(house, lambda: edit(house, "maths.py", "n != 0", "n > 0")) == {"run", "plain"}


def test_the_order_of_modules_does_not_matter_and_their_set_does(house: Path) -> None:
    one, apart = "relearn.methods.one", "relearn.methods.apart"
    assert code_version(one, apart, root=house) == code_version(apart, one, one, root=house)
    assert len({code_version(*names, root=house) for names in ((one,), (apart,), (one, apart))}) == 3
    assert len(code_version(one, root=house)) == 16
    assert set(code_version(one, root=house)) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "wrong", ["relearn.methods.gone", "methods.one", "torch.nn", "relearn..maths", "relearn.", ""]
)
def test_an_unknown_module_is_an_error(house: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"not a module of|no module") as caught:
        code_version(wrong, root=house)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "from relearn.runs.record import write",
        "from relearn.runs import record",
        "from relearn import runs",
        "import relearn.runs.record",
    ],
)
def test_plumbing_that_is_imported_counts_nowhere(house: Path, line: str) -> None:
    """Neither its definitions nor what it does when it is imported."""
    (house / "steps/plain.py").write_text(line + "\n")

    def change() -> None:
        edit(house, "runs/record.py", "return path", "return None\n\n\nprint()")
        (house / "runs/__init__.py").write_text("print()\n")

    assert changed(house, change) == set()


@pytest.mark.parametrize("name", ["relearn.runs.record", "relearn.cli"])
def test_plumbing_has_no_version(house: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is plumbing"):
        code_version(name, root=house)


def test_a_deleted_module_is_an_error_that_names_its_importer(house: Path) -> None:
    (house / "maths.py").unlink()
    with pytest.raises(ValueError, match=r"relearn.methods.one, line (3|15): imports relearn.maths"):
        code_version("relearn.methods.one", root=house)


def test_no_module_and_broken_text_are_errors(house: Path) -> None:
    with pytest.raises(ValueError, match="no module given"):
        code_version(root=house)
    (house / "maths.py").write_text("def norm(:\n")
    with pytest.raises(ValueError, match=r"relearn\.maths does not parse"):
        code_version("relearn.maths", root=house)


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(string.printable),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(string.ascii_letters), inner),
    )
)
def test_the_dump_distinguishes_whatever_python_distinguishes(value: object) -> None:
    """Equal dumps if and only if equal trees, against ast.dump as the slow truth within one Python."""
    texts = (f"K = {value!r}", f"K = [{value!r}]", f"K = {value!r}  # same")
    trees = {
        code_trees.tree_of(text.encode(), "m", "relearn", "relearn").definitions["K"][0].text
        for text in texts
    }
    truths = {ast.dump(ast.parse(text)) for text in texts}
    assert len(trees) == len(truths) == 2


def test_a_plan_has_the_versions_of_one_moment(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package itself is read once, until a new reading is requested."""
    monkeypatch.setattr(module, "ROOT", house)
    module.forget()
    try:
        first = code_version("relearn.steps.small")
        edit(house, "methods/one.py", "** 2", "** 3")
        assert code_version("relearn.steps.small") == first
        module.forget()
        assert code_version("relearn.steps.small") != first
    finally:
        module.forget()
