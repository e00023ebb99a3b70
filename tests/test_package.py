"""What the package itself offers: names that cost nothing until they are used."""

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import relearn

ROOT = Path(__file__).resolve().parents[1]


def test_importing_the_package_imports_nothing_and_a_name_imports_its_own_file():
    code = """
import sys
before = set(sys.modules)
import relearn
new = {name.partition(".")[0] for name in set(sys.modules) - before}
assert not new & {"torch", "numpy", "scipy", "timm", "transformers"}, new
assert {"DeepKNN", "gradinit", "freelb", "LongShortAttention", "L2Attention"} <= set(dir(relearn))
from relearn import DeepKNN, gradinit, freelb, LongShortAttention, L2Attention
assert "torch" in sys.modules and not {"timm", "transformers", "torchvision"} & set(sys.modules)
assert callable(gradinit) and callable(freelb) and L2Attention(4, 2) is not None
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize("name", relearn.LAZY)
def test_every_name_is_what_its_file_defines(name):
    module, _, attribute = relearn.LAZY[name].partition(":")
    assert attribute == name and getattr(relearn, name) is getattr(import_module(module), attribute)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(relearn.__file__).read_text())
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.asname: f"{one.module}:{alias.name}" for one in guarded.body for alias in one.names}
    assert seen == relearn.LAZY


def test_every_pinned_package_takes_the_oldest_python_that_is_promised():
    """Where one does not, pip only says that requirements conflict, and only on that Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    refusing, known = [], 0
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name = line.partition("==")[0]
        try:
            asked = metadata(name).get("Requires-Python")
        except (PackageNotFoundError, ValueError):
            continue
        known += 1
        if asked and oldest not in SpecifierSet(asked):
            refusing.append(f"{name} {asked}")
    assert known > 100 and not refusing, refusing


def test_an_unknown_name_is_answered_with_the_names():
    with pytest.raises(
        AttributeError, match=r"no attribute 'DeepKnn' .names: AsMultiheadAttention, .*DeepKNN"
    ):
        _ = relearn.DeepKnn
