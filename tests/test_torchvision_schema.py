"""Most cases in a process of their own: what is declared cannot be taken back within one."""

import inspect
import subprocess
import sys

import pytest
import torch

from relearn import torchvision_schema


def run(code: str, *, check: bool = True) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, check=check, capture_output=True, text=True)


@pytest.fixture(scope="module")
def alone() -> subprocess.CompletedProcess:
    """What the import does without us: it works where torch is the one that torchvision was built for."""
    return run("import torchvision", check=False)


def test_timm_works_after_declare_which_acts_exactly_where_it_must(alone):
    code = """
import torch
from relearn import torchvision_schema
first = torchvision_schema.declare()
assert torchvision_schema.declare() is False
import timm, torchvision
from torchvision.transforms import v2
x = torch.rand(1, 3, 32, 32)
assert timm.create_model('resnet18', num_classes=3).eval()(x).shape == (1, 3)
assert torchvision.models.resnet18(num_classes=3).eval()(x).shape == (1, 3)
assert v2.CenterCrop(8)(x).shape == (1, 3, 8, 8)
assert torchvision_schema.declare() is False
print(first)
"""
    declared = run(code).stdout.split()[-1]
    assert declared == str(alone.returncode != 0)


def test_one_line_before_timm_and_transformers_is_enough():
    run("""
import relearn.torchvision_ready
import timm
from transformers import RobertaConfig, RobertaModel
RobertaModel(RobertaConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8))
""")


def test_without_declare_the_import_fails_where_the_library_does_not_load(alone):
    if alone.returncode == 0:
        pytest.skip("torchvision's compiled library loads here")
    assert "torchvision::nms does not exist" in alone.stderr


def test_nothing_is_declared_where_the_library_loads():
    # a library that loads registers its operators: stand in for it by doing just that
    run("""
import torch
from relearn import torchvision_schema as s
kept = torch.library.Library('torchvision', 'DEF')
loaded = []
def load(path):
    loaded.append(path)
    for schema in s.SCHEMAS.values():
        kept.define(schema)
torch.ops.load_library = load
assert s.declare() is False and not s._declared
assert s.declare() is False
assert len(loaded) == 1 and '_C' in loaded[0]
""")


def test_declared_schemas_are_those_that_torchvision_describes():
    torchvision_schema.declare()
    from torchvision import _meta_registrations as meta

    for name, described in (("nms", meta.meta_nms), ("qnms", meta.meta_qnms)):
        arguments = getattr(torch.ops.torchvision, name).default._schema.arguments
        assert [argument.name for argument in arguments] == list(inspect.signature(described).parameters)


def test_no_torchvision_nothing_to_do(monkeypatch):
    monkeypatch.setattr(torchvision_schema, "find_spec", lambda name: None)
    assert torchvision_schema._compiled_library() is None
    assert torchvision_schema.declare() is False
