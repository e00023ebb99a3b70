"""Texts and pairs from what comes with Python: no document in two parts, balance, passages, partners."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.data.lra import PARTS, python_documents, retrieval, text
from relearn.data.lra.python_documents import Document, documents, part_of, passages

SOME = {"train": 40, "valid": 10, "test": 20}


@pytest.fixture(scope="module")
def every() -> list[Document]:
    return documents()


def test_no_line_is_in_two_documents(every: list[Document]) -> None:
    lines = [line for document in every for line in document.lines]
    assert len(lines) == len(set(lines)) > 10_000
    assert all(line == " ".join(line.split()) and any(map(str.isalnum, line)) for line in lines)
    assert {document.kind for document in every} == {"documentation", "code"}
    assert len({(document.kind, document.name) for document in every}) == len(every)
    for document in every:
        assert document.part == part_of(document.kind, document.name)
    sizes = {part: sum(document.part == part for document in every) for part in PARTS}
    assert sizes["train"] > 3 * sizes["valid"] > 0 and sizes["test"] > 0


@given(
    lines=st.lists(
        st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=30), min_size=1
    ),
    longest=st.integers(3, 40),
)
def test_passages_are_whole_lines_of_at_most_so_many_bytes(lines: list[str], longest: int) -> None:
    found = passages(Document("code", "one", "train", lines), longest)
    assert all(0 < len(one) <= longest for one in found)
    assert b"\n".join(found) == "\n".join(line[:longest] for line in lines).encode()
    for one, following in pairwise(found):  # none could have taken the next line, too
        assert len(one) + 1 + len(following.split(b"\n")[0]) > longest


def test_text_has_as_much_of_both(every: list[Document]) -> None:
    made = text.make("python", SOME, max_length=100)
    kinds = {
        part: {
            kind: {one for d in every if (d.kind, d.part) == (kind, part) for one in passages(d, 100)}
            for kind in python_documents.KINDS
        }
        for part in PARTS
    }
    for part, count in SOME.items():
        samples = getattr(made, part)
        assert len(samples.rows) == count and sum(samples.labels) == count // 2
        for row, label in zip(samples.rows, samples.labels):
            assert row in kinds[part][python_documents.KINDS[label]]
    everything = text.make("python", dict.fromkeys(PARTS, 0), max_length=100)
    for part in PARTS:
        fewer = min(len(kinds[part][kind]) for kind in python_documents.KINDS)
        assert len(getattr(everything, part).rows) == 2 * fewer
    with pytest.raises(ValueError, match=r"test is 1000000; allowed: at most \d+"):
        text.make("python", {**SOME, "test": 1_000_000}, max_length=100)


@pytest.mark.parametrize("dataset", ["python_kinds", "python_documents"])
def test_every_other_pair_belongs_together(dataset: str, every: list[Document]) -> None:
    made = retrieval.make(dataset, SOME, max_length=80)
    assert made.pairs and made.written
    for part, count in SOME.items():
        group = {
            one: (d.kind if dataset == "python_kinds" else f"{d.kind} {d.name}")
            for d in every
            if d.part == part
            for one in passages(d, 80)
        }
        samples = getattr(made, part)
        assert samples.labels == [number % 2 for number in range(count)]
        for number, label in enumerate(samples.labels):
            first, second = samples.rows[2 * number : 2 * number + 2]
            assert first != second and (group[first] == group[second]) == bool(label)
    assert retrieval.make(dataset, SOME, max_length=80) == made
    assert retrieval.make(dataset, SOME, max_length=80, seed=1).train != made.train


@pytest.mark.parametrize("longest", [64, 512])
def test_kinds_are_not_told_by_one_text_of_a_pair(longest: int, every: list[Document]) -> None:
    made = retrieval.make("python_kinds", dict.fromkeys(PARTS, 0), max_length=longest)
    for part in PARTS:
        samples = getattr(made, part)
        code = {one for d in every if (d.kind, d.part) == ("code", part) for one in passages(d, longest)}
        for side in (0, 1):
            right = [(row in code) == label for row, label in zip(samples.rows[side::2], samples.labels)]
            assert abs(sum(right) / len(right) - 0.5) < 3 * 0.5 / len(right) ** 0.5


@given(
    sizes=st.lists(st.integers(0, 5), min_size=2, max_size=6).filter(lambda s: sum(n > 1 for n in s) > 1),
    wanted=st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_pairs_of_any_groups(sizes: list[int], wanted: int, seed: int) -> None:
    groups = {str(g): [f"{g} {i}".encode() for i in range(size)] for g, size in enumerate(sizes)}
    got = retrieval.pairs(groups, wanted, random.Random(seed))
    assert len(got.labels) == (wanted or sum(size for size in sizes if size > 1))
    for number, label in enumerate(got.labels):
        first, second = got.rows[2 * number : 2 * number + 2]
        assert first != second and (first.split()[0] == second.split()[0]) == bool(label)
    twice = retrieval.pairs(groups, 2 * sum(size for size in sizes if size > 1), random.Random(seed))
    both = Counter(zip(twice.rows[::2], twice.labels))
    assert both == {(first, label): 1 for first in twice.rows[::2] for label in (0, 1)}


def test_pairs_of_one_document_are_refused() -> None:
    with pytest.raises(ValueError, match="1 documents with two passages"):
        retrieval.pairs({"a": [b"1", b"2"], "b": [b"3"]}, 0, random.Random(0))
