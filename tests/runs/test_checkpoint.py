"""Checkpoints come back exactly; a damaged newest one falls back, loudly, to the one before.

A complete safetensors file is distinguished from every truncated, extended or foreign one.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from relearn.runs.checkpoint import Checkpoint
from relearn.runs.tensors_file import fault_of

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
TENSORS = st.sampled_from(
    [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
).map(lambda kind: torch.arange(6).reshape(2, 3).T.to(kind))
STATES = st.recursive(
    PLAIN | TENSORS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or (one != one and other != other)


@settings(max_examples=50)
@given(state=st.dictionaries(st.text(max_size=3), STATES, max_size=3))
def test_what_is_saved_comes_back(tmp_path_factory: pytest.TempPathFactory, state: dict[str, Any]) -> None:
    checkpoint = Checkpoint(tmp_path_factory.mktemp("work"))
    assert checkpoint.load() is None
    checkpoint.save(state)
    assert same(checkpoint.load(), state)


def test_of_many_saves_the_last_comes_back_in_a_new_process_too(tmp_path: Path) -> None:
    for number in range(7):
        Checkpoint(tmp_path).save({"step": number})
        assert Checkpoint(tmp_path).load() == {"step": number}


def test_an_optimiser_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Whole-number keys and tuples of torch's own state survive; the next step is the same bit by bit."""

    def begin() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
        layer = torch.nn.Linear(3, 2)
        return layer, torch.optim.Adam(layer.parameters(), lr=0.1)

    def step(layer: torch.nn.Linear, optimiser: torch.optim.Optimizer, seed: int) -> None:
        optimiser.zero_grad()
        layer(torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
        optimiser.step()

    layer, optimiser = begin()
    step(layer, optimiser, 0)
    Checkpoint(tmp_path).save({"layer": layer.state_dict(), "optimiser": optimiser.state_dict()})
    state = Checkpoint(tmp_path).load()
    assert state is not None
    other, another = begin()
    other.load_state_dict(state["layer"])
    another.load_state_dict(state["optimiser"])
    step(layer, optimiser, 1)
    step(other, another, 1)
    assert torch.equal(layer.weight, other.weight) and torch.equal(layer.bias, other.bias)


@pytest.mark.parametrize("kind", ["json", "safetensors"])
@pytest.mark.parametrize("harm", ["cut", "flip", "remove"])
def test_a_damaged_newest_checkpoint_falls_back_with_a_warning(tmp_path: Path, kind: str, harm: str) -> None:
    checkpoint = Checkpoint(tmp_path)
    for step in range(3):
        checkpoint.save({"step": step, "x": torch.full((4,), float(step))})
    newest = tmp_path / f"0.{kind}"  # the slots take turns: 0, 1, 0
    content = bytearray(newest.read_bytes())
    content[-9] ^= 1
    if harm == "remove":
        newest.unlink()
    else:
        newest.write_bytes(content[:-20] if harm == "cut" else content)
    if (kind, harm) == ("json", "remove"):  # exactly what a kill within save leaves: nothing to warn of
        state = checkpoint.load()
    else:
        with pytest.warns(RuntimeWarning, match="checkpoint unusable"):
            state = checkpoint.load()
    assert state is not None and state["step"] == 1 and torch.equal(state["x"], torch.ones(4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save({"step": 3})  # over the damaged one, not over the sound one
        assert checkpoint.load() == {"step": 3}


def test_a_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    Checkpoint(tmp_path, "one").save({"step": 1})
    assert Checkpoint(tmp_path, "one").load() == {"step": 1}
    with (
        pytest.warns(RuntimeWarning, match="it belongs to 'one', not to 'other'"),
        pytest.warns(RuntimeWarning, match="no sound checkpoint is left, starting again"),
    ):
        assert Checkpoint(tmp_path, "other").load() is None


def test_what_cannot_be_kept_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="checkpoint /a/0: object"):
        Checkpoint(tmp_path).save({"a": [object()]})
    with pytest.raises(TypeError, match=r"key \(1, 2\)"):
        Checkpoint(tmp_path).save({"a": {(1, 2): 3}})


def whole() -> bytes:
    return save({"a": np.arange(5), "b": np.zeros((2, 3), np.uint8)}, {"relearn": "x"})


def test_what_the_library_writes_is_whole(tmp_path: Path) -> None:
    for number, content in enumerate((whole(), save({}), save({"empty": np.zeros((0, 3))}))):
        file = tmp_path / f"{number}.safetensors"
        file.write_bytes(content)
        assert fault_of(file) is None


def test_every_cut_is_seen(tmp_path: Path) -> None:
    content, file = whole(), tmp_path / "cut"
    for length in range(len(content)):
        file.write_bytes(content[:length])
        assert fault_of(file), length
    file.write_bytes(content + b"\0")
    assert fault_of(file) == f"{len(content) + 1} bytes, its header says {len(content)}"


@pytest.mark.parametrize(
    "content", [b"<html></html>", b"\x80\x04pickle", bytes(8), b"\x02" + bytes(7) + b"[]"]
)
def test_what_is_none_is_seen(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "foreign"
    file.write_bytes(content)
    assert fault_of(file)
