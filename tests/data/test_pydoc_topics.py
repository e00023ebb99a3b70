"""The documentation's text: the rule on made-up topics, the real ones of this Python, no line in two parts, no chance."""

import os
import subprocess
import sys
from importlib import import_module
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.pydoc_topics import SHARES, load, part_of, parts_of

# Names whose parts are known, found by asking: any other test of the rule would repeat it.
NAMES: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
for number in range(200):
    NAMES[part_of(f"t{number}")].append(f"t{number}")


def test_lines_of_a_topic() -> None:
    train, valid = NAMES["train"][0], NAMES["valid"][0]
    topics = {
        train: 'The "if"\n********\n\nIt  chooses\n   if x:\n      y\n+---+----+\n| a | 1  |\n',
        valid: "ß\n--\n…\n5\n",
    }
    got = parts_of(topics)
    assert got["train"] == ['The "if"', "It chooses", "if x:", "y", "| a | 1 |"]
    assert got["valid"] == ["ß", "5"] and got["test"] == []


def test_a_line_stays_with_the_longest_topic_that_has_it() -> None:
    """A topic that is a chapter of another one must not put its lines into another part."""
    whole, chapter, more = max(NAMES["train"]), min(NAMES["test"]), min(NAMES["valid"])
    assert chapter < more < whole, "by name, the longest topic would come last"
    topics = {
        chapter: "the while\nloops\n",
        more: "loops\nnew here\nloops\n",
        whole: "compound\nthe while\n   loops\nthe end of it\n",
    }
    got = parts_of(topics)
    assert got == {
        "train": ["compound", "the while", "loops", "the end of it"],
        "valid": ["new here"],
        "test": [],
    }
    assert parts_of(dict(reversed(topics.items()))) == got, "the order of the topics must not matter"


LINE = st.text("ab .*", max_size=4)


@given(st.dictionaries(st.sampled_from([*chain(*NAMES.values())]), st.lists(LINE, max_size=6), max_size=8))
@settings(max_examples=60)
def test_every_line_once_in_the_part_of_a_topic_that_has_it(topics: dict[str, list[str]]) -> None:
    got = parts_of({name: "\n".join(lines) for name, lines in topics.items()})
    flat = [line for part in got.values() for line in part]
    assert len(flat) == len(set(flat))
    wanted = {" ".join(line.split()) for lines in topics.values() for line in lines}
    assert set(flat) == {line for line in wanted if "a" in line or "b" in line}
    for part, lines in got.items():
        own = {" ".join(line.split()) for name in topics if part_of(name) == part for line in topics[name]}
        assert set(lines) <= own


def test_the_shares_of_the_parts() -> None:
    names = [f"name {i}" for i in range(4000)]
    for part in ("valid", "test"):
        count = sum(part_of(name) == part for name in names)
        assert (
            abs(count - 4000 / SHARES) < 5 * (4000 * 0.1 * 0.9) ** 0.5
        )  # binomial, five standard deviations


def test_the_topics_of_this_python() -> None:
    from pydoc_data.topics import topics

    got = load()
    parts = {"train": got.train, "valid": got.valid, "test": got.test}
    flat = [line for lines in parts.values() for line in lines]
    assert len(flat) == len(set(flat)) > 5000
    assert all(len(lines) > 100 for lines in parts.values()) and len(got.train) > 0.6 * len(flat)
    version = ".".join(map(str, sys.version_info[:3]))
    assert got.source["python"] == version and got.source["from"] == f"pydoc_data.topics of Python {version}"
    # Nothing is lost: every line with a letter or digit is somewhere, and nothing else is.
    wanted = {" ".join(line.split()) for text in topics.values() for line in text.split("\n")}
    assert set(flat) == {line for line in wanted if any(c.isalnum() for c in line)}
    assert max(map(len, flat)) <= 288, "kim2020's limit would leave lines out"


@pytest.mark.parametrize("module", ["number_words", "pydoc_topics"])
def test_another_process_makes_the_same_text(module: str) -> None:
    code = f"from relearn.data.{module} import load; print(load().source['sha256'])"
    asked = [sys.executable, "-c", code]
    seen = {
        subprocess.check_output(asked, env=os.environ | {"PYTHONHASHSEED": seed}, text=True).strip()
        for seed in ("1", "2")
    }
    assert seen == {str(import_module(f"relearn.data.{module}").load().source["sha256"])}


def test_a_python_without_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(
        OSError, match=r"pydoc_topics: Python 3\S* has no module pydoc_data.topics; allowed: a Python"
    ):
        load()
