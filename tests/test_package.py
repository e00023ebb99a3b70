"""What the package itself offers: names that cost nothing until they are used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import relearn


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


def test_an_unknown_name_is_answered_with_the_names():
    with pytest.raises(
        AttributeError, match=r"no attribute 'DeepKnn' .names: AsMultiheadAttention, .*DeepKNN"
    ):
        _ = relearn.DeepKnn
