"""Texts: what a line may be, the registry and its errors, nothing heavy on the way.

Samples of texts: what fits together is kept, what does not is refused.
"""

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relearn.data import TEXTS, module_of
from relearn.data.examples import Examples, Row
from relearn.data.text_lines import Text, load_text


def text(**changes: list[str]) -> Text:
    return Text(**({"train": ["a b", "c"], "valid": ["d"], "test": ["é"]} | changes), source={"from": "here"})


def test_the_source_gets_a_checksum_a_part() -> None:
    got = text().source
    assert got["from"] == "here" and set(got["sha256"]) == {"train", "valid", "test"}
    assert got["sha256"]["train"] == hashlib.sha256(b"a b\nc\n").hexdigest()
    assert text(train=["a", "b c"]).source["sha256"]["train"] != got["sha256"]["train"]


@pytest.mark.parametrize("line", ["", " a", "a ", "a\nb", "a\u2028b", "\t"])
def test_what_is_no_line_is_refused(line: str) -> None:
    with pytest.raises(
        ValueError, match=r"valid: line 1: .*; allowed: one line, not empty, no blanks around it"
    ):
        text(valid=["fine", line])


def test_an_empty_part_is_refused() -> None:
    with pytest.raises(ValueError, match="test: no lines; allowed: at least one"):
        text(test=[])


def test_the_registry_names_modules() -> None:
    assert {name: module_of(name, TEXTS) for name in TEXTS} == {
        "pydoc_topics": "relearn.data.pydoc_topics",
        "ptb": "relearn.data.ptb",
    }
    with pytest.raises(ValueError, match="text 'text8' is unknown; allowed: pydoc_topics, ptb"):
        load_text("text8")
    assert load_text("pydoc_topics").source["from"].startswith("pydoc_data.topics")


THREE: list[list[Row]] = [[("a", None)], [("b", "c"), ("b", "d")], [("e", "")]]


@given(st.lists(st.integers(0, 2), max_size=3, unique=True))
def test_a_part_is_the_samples_of_its_numbers(numbers: list[int]) -> None:
    found = Examples(THREE, torch.tensor([1, 1, 0]), ["x", "y", "z"]).part(numbers)
    assert found.rows == [THREE[one] for one in numbers]
    assert found.ids == ["xyz"[one] for one in numbers]
    assert found.labels is not None and found.labels.tolist() == [[1, 1, 0][one] for one in numbers]
    assert found.labels.dtype == torch.int64


def test_labels_may_be_unknown_or_values() -> None:
    assert Examples(THREE, None, ["x", "y", "z"]).part([2]).labels is None
    found = Examples(THREE, torch.tensor([0.5, -1, 3]), ["x", "y", "z"]).part([1, 0]).labels
    assert found is not None and found.dtype == torch.float32 and found.tolist() == [-1, 0.5]


@pytest.mark.parametrize(
    ("rows", "labels", "ids", "said"),
    [
        (THREE, None, ["x"], "ids: 1 (allowed: 3, one per sample)"),
        (THREE, None, ["x", "y", "x"], "ids: 'x' occurs twice (allowed: all different)"),
        ([[]], None, ["x"], "rows: sample x has none (allowed: at least one)"),
        ([[(" ", "")]], None, ["x"], "rows: sample x has a row without a text (allowed: a text)"),
        (THREE, torch.ones(3, 1), ["x", "y", "z"], r"labels: shape (3, 1) (allowed: (3,), one per sample)"),
        (
            THREE,
            torch.ones(3, dtype=torch.int32),
            ["x", "y", "z"],
            "labels: torch.int32 (allowed: int64, or float32 for regression)",
        ),
        (
            THREE,
            torch.tensor([0, 2, 0]),
            ["x", "y", "z"],
            "labels: 2 of sample y (allowed: at most 1, its last candidate)",
        ),
        (THREE, torch.tensor([-1, 0, 0]), ["x", "y", "z"], "labels: -1 of sample x (allowed: at least 0)"),
        (
            THREE,
            torch.tensor([0, float("nan"), 0]),
            ["x", "y", "z"],
            "labels: nan of sample y (allowed: a finite value)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    rows: list[list[Row]], labels: torch.Tensor | None, ids: list[str], said: str
) -> None:
    with pytest.raises(ValueError) as fault:
        Examples(rows, labels, ids)
    assert str(fault.value) == said


def test_a_number_no_sample_has_is_refused() -> None:
    samples = Examples(THREE, None, ["x", "y", "z"])
    with pytest.raises(ValueError, match="numbers: -1"):
        samples.part([-1])
    with pytest.raises(IndexError):
        samples.part([3])
