"""An edited formula changes the code version of what depends on it; nothing else does."""

from __future__ import annotations

import ast
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn import code_version as module
from relearn.code_version import PLUMBING, ROOT, closure, code_version, imports_of

FORMULA = '''"""A method."""

from relearn.maths import norm


def score(x, y):
    """Say how far x is from y."""
    # squared, as the paper has it
    return norm(x - y) ** 2
'''

HOUSE = {
    "__init__.py": '__version__ = "1.0"\n',
    "maths.py": "def norm(x):\n    return abs(x)\n",
    "record.py": "def write(path):\n    return path\n",
    "methods/__init__.py": 'METHODS = {"one": "relearn.methods.one:score"}\n',
    "methods/one.py": FORMULA,
    "methods/two.py": "def score(x, y):\n    from . import one\n    return -one.score(x, y)\n",
    "methods/alone.py": "K = 5\n",
    "models/__init__.py": "",
    "models/left.py": "from .right import b\n\n\ndef a():\n    return b\n",
    "models/right.py": "def b():\n    from relearn.models.left import a\n    return a\n",
    "steps/__init__.py": "",
    "steps/run.py": "import relearn.methods.one as one\nfrom .. import maths, record\n",
}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    root = tmp_path / "relearn"
    for name, text in HOUSE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def edit(house: Path, name: str, old: str, new: str) -> None:
    text = (house / name).read_text()
    assert old in text
    (house / name).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("methods/one.py", "** 2", "** 3"),
        ("methods/one.py", "x - y", "x + y"),
        ("methods/one.py", "score(x, y)", "score(x, y=None)"),
        ("maths.py", "abs(x)", "max(x, -x)"),
        ("methods/__init__.py", "METHODS", "EPS = 0.1\nMETHODS"),
    ],
)
def test_an_edited_formula_changes_it(house: Path, name: str, old: str, new: str) -> None:
    before = code_version("relearn.methods.one", root=house)
    edit(house, name, old, new)
    assert code_version("relearn.methods.one", root=house) != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("methods/one.py", '"""A method."""', '"""A method of ours."""'),
        ("methods/one.py", '    """Say how far x is from y."""\n', ""),
        ("methods/one.py", "# squared, as the paper has it", "# why not"),
        ("methods/one.py", "norm(x - y) ** 2", "(\n        norm( x-y )**2\n    )"),
        ("maths.py", "def norm", "\n\n\ndef norm"),
        ("__init__.py", "1.0", "2.0"),
        ("methods/__init__.py", "METHODS = {", 'METHODS = {"new": "relearn.methods.alone:score", '),
        ("methods/alone.py", "5", "6"),
        ("methods/two.py", "return -", "return "),
        ("models/left.py", "return b", "return 2 * b"),
        ("record.py", "return path", "return None"),
    ],
)
def test_a_comment_or_another_room_does_not_change_it(house: Path, name: str, old: str, new: str) -> None:
    before = code_version("relearn.steps.run", root=house)
    edit(house, name, old, new)
    assert code_version("relearn.steps.run", root=house) == before


def test_closure_follows_every_kind_of_import(house: Path) -> None:
    assert imports_of("relearn.methods.two", root=house) == (
        "relearn",
        "relearn.methods",
        "relearn.methods.one",
    )
    assert closure(["relearn.methods.two"], root=house) == (
        "relearn",
        "relearn.maths",
        "relearn.methods",
        "relearn.methods.one",
        "relearn.methods.two",
    )
    assert "relearn.record" in imports_of("relearn.steps.run", root=house)
    assert "relearn.record" not in closure(["relearn.steps.run"], root=house)  # plumbing


def test_two_modules_that_import_each_other_have_one_closure(house: Path) -> None:
    both = closure(["relearn.models.left"], root=house)
    assert both == closure(["relearn.models.right"], root=house)
    assert {"relearn.models.left", "relearn.models.right"} <= set(both)
    before = code_version("relearn.models.left", root=house)
    edit(house, "models/right.py", "return a", "return 3 * a")
    assert code_version("relearn.models.left", root=house) != before


def test_the_order_of_modules_does_not_matter_and_their_set_does(house: Path) -> None:
    one, alone = "relearn.methods.one", "relearn.methods.alone"
    assert code_version(one, alone, root=house) == code_version(alone, one, one, root=house)
    assert len({code_version(one, root=house), code_version(alone, root=house)}) == 2
    assert len(code_version(one, root=house)) == 16
    assert set(code_version(one, root=house)) <= set("0123456789abcdef")


def test_a_moved_formula_changes_it(house: Path) -> None:
    """Two modules of swapped texts are not the same code."""
    before = code_version("relearn.methods.one", "relearn.methods.alone", root=house)
    (house / "methods/one.py").write_text(HOUSE["methods/alone.py"])
    (house / "methods/alone.py").write_text(HOUSE["methods/one.py"])
    assert code_version("relearn.methods.one", "relearn.methods.alone", root=house) != before


def test_what_only_a_type_checker_imports_is_not_followed(house: Path) -> None:
    guard = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from relearn.models import left\n"
    (house / "methods/alone.py").write_text(guard)
    assert closure(["relearn.methods.alone"], root=house) == (
        "relearn",
        "relearn.methods",
        "relearn.methods.alone",
    )


@pytest.mark.parametrize("wrong", ["relearn.methods.gone", "methods.one", "torch.nn", "relearn..one", ""])
def test_an_unknown_module_is_an_error(house: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match="no module") as caught:
        code_version(wrong, root=house)
    assert "\n" not in str(caught.value)


def test_a_deleted_module_is_an_error_that_names_its_importer(house: Path) -> None:
    (house / "maths.py").unlink()
    with pytest.raises(ValueError, match=r"relearn.methods.one, line 3: imports relearn.maths"):
        code_version("relearn.methods.one", root=house)


def test_no_module_and_broken_text_are_errors(house: Path) -> None:
    with pytest.raises(ValueError, match="no module given"):
        code_version(root=house)
    (house / "maths.py").write_text("def norm(:\n")
    with pytest.raises(ValueError, match=r"relearn\.maths does not parse"):
        code_version("relearn.maths", root=house)


@settings(deadline=None, max_examples=50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(string.printable),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(string.ascii_letters), inner),
    )
)
def test_the_dump_tells_apart_what_python_tells_apart(value: object) -> None:
    """Equal dumps if and only if equal trees, against ast.dump as the slow truth within one Python."""
    left, right = f"K = {value!r}", f"K = [{value!r}]"
    trees = {module._analyse(text.encode(), "m", "relearn")[0] for text in (left, right, left + "  # same")}
    truths = {ast.dump(ast.parse(text)) for text in (left, right, left + "  # same")}
    assert len(trees) == len(truths) == 2


def test_every_module_of_the_package_has_a_version() -> None:
    """No import of the package leads nowhere, and every name of the plumbing list is a single module's."""
    names = [
        ".".join(("relearn", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for path in ROOT.rglob("*.py")
    ]
    assert set(closure(names)) == {n for n in names if ".".join(n.split(".")[:2]) not in PLUMBING}
    code_version(*names)
