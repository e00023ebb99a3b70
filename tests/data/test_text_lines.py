"""Texts: what a line may be, the registry and its errors, nothing heavy on the way."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from relearn.data import TEXTS
from relearn.data.text_lines import Text, load_text, text_module_of


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
    assert {name: text_module_of(name) for name in TEXTS} == {
        "pydoc_topics": "relearn.data.pydoc_topics",
        "ptb": "relearn.data.ptb",
    }
    for ask in (text_module_of, load_text):
        with pytest.raises(ValueError, match="text 'text8' is unknown; allowed: pydoc_topics, ptb"):
            ask("text8")
    assert load_text("pydoc_topics").source["from"].startswith("pydoc_data.topics")


def test_asking_the_registry_is_cheap() -> None:
    code = """
import sys
from relearn.data.text_lines import text_module_of
text_module_of("ptb")
heavy = {"torch", "numpy", "relearn.data.ptb", "relearn.data.pydoc_topics", "pydoc_data.topics"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
