"""ListOps: results by a reader of the printed form, what trees may look like, how they are drawn, and that a seed fixes them."""

import hashlib
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.lra import PARTS, listops, task
from relearn.data.lra.listops import apply, make, trees, words

SHORT = {"min_length": 10, "max_length": 60, "max_depth": 4, "max_args": 5, "operator_frac": 0.4}
BY_NAME = {
    "MIN": min,
    "MAX": max,
    "MED": lambda found: int(np.median(found)),
    "SM": lambda found: sum(found) % 10,
}


def read(text: str) -> tuple[int, int, list[int], int]:
    """The printed form with a stack: (result, depth, numbers of arguments, words)."""
    stack: list[tuple[str, list[int]]] = [("root", [])]
    depth, arities = 1, []
    for word in text.split():
        if word.startswith("["):
            stack.append((word[1:], []))
            depth = max(depth, len(stack))
        elif word == "]":
            name, arguments = stack.pop()
            arities.append(len(arguments))
            stack[-1][1].append(BY_NAME[name](arguments))
        else:
            stack[-1][1].append(int(word))
            depth = max(depth, len(stack))
    ((_, results),) = stack
    (result,) = results
    return result, depth, arities, len(text.split())


def test_the_slow_reader_of_this_file_reads_known_trees() -> None:
    assert read("[MAX 2 9 [MIN 4 7 ] 0 ]") == (9, 3, [2, 4], 9)
    assert read("[SM 7 8 [MED 3 6 ] ]") == (9, 3, [2, 3], 8)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    low=st.integers(0, 25),
    more=st.integers(20, 60),
    depth=st.integers(2, 6),
    args=st.integers(3, 8),
)
def test_trees_are_what_they_say(seed: int, low: int, more: int, depth: int, args: int) -> None:
    form = {"min_length": min(low, 2 * depth), "max_length": low + more, "max_depth": depth, "max_args": args}
    rows, results = trees(20, seed=seed, operator_frac=0.4, **form)
    assert len(set(rows)) == 20
    for row, result in zip(rows, results):
        value, deepest, arities, length = read(words(row))
        assert value == result
        assert deepest <= depth and form["min_length"] < length == len(row) < form["max_length"]
        assert all(2 <= one <= args for one in arities)


def test_published_trees_are_long_and_as_deep_as_allowed() -> None:
    rows, results = trees(60)
    read_ = [read(words(row)) for row in rows]
    assert [one[0] for one in read_] == results
    assert all(500 < one[3] < 2000 for one in read_)
    assert max(one[1] for one in read_) == 10 and {n for one in read_ for n in one[2]} == set(range(2, 11))


def test_even_medians_are_cut() -> None:
    assert apply(12, [1, 2]) == 1 and apply(12, [9, 0, 4, 4]) == 4 and apply(12, [8, 1, 3]) == 3
    assert apply(13, [9, 9, 9]) == 7 and apply(10, [3, 2]) == 2 and apply(11, [3, 2]) == 3


def test_nodes_are_drawn_uniformly() -> None:
    """Trees before any is thrown away: five standard errors."""
    grow = listops._grower(random.Random(3).random, 10**9, 2, 6, 0.25)
    rows = []
    for _ in range(8000):
        row = bytearray()
        grow(row, 1)
        rows.append(bytes(row))
    operators = [row for row in rows if len(row) > 1]
    assert abs(len(operators) / len(rows) - 0.25) < 5 * (0.25 * 0.75 / len(rows)) ** 0.5
    for values, kinds in (
        ([row[0] for row in operators], 4),
        ([len(row) - 2 for row in operators], 5),
        ([value for row in operators for value in row[1:-1]], 10),
    ):
        counts, share = Counter(values), 1 / kinds
        assert len(counts) == kinds
        for count in counts.values():
            assert abs(count / len(values) - share) < 5 * (share * (1 - share) / len(values)) ** 0.5


def test_a_seed_fixes_the_set() -> None:
    rows, results = trees(30, **SHORT)
    assert trees(30, **SHORT) == (rows, results)
    assert trees(12, **SHORT) == (rows[:12], results[:12])
    assert not set(rows) & set(trees(30, seed=1, **SHORT)[0])


def test_the_set_of_today_is_the_set_of_tomorrow() -> None:
    """The version: whoever changes the generator changes the numbers of every run on it."""
    rows, results = trees(20)
    digest = hashlib.sha256(b"".join(row + bytes([result]) for row, result in zip(rows, results)))
    assert digest.hexdigest()[:16] == "39dc8da91505b4e1"


def test_parts_follow_one_another() -> None:
    made = make({"train": 10, "valid": 3, "test": 5}, seed=2, **SHORT)
    rows, results = trees(18, seed=2, **SHORT)
    assert made.train.rows + made.valid.rows + made.test.rows == rows
    assert made.train.labels + made.valid.labels + made.test.labels == results
    assert (made.values, made.classes, made.pairs, made.written) == (15, 10, False, False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_length": 60}, "min_length, max_length"),
        ({"min_length": -1}, "min_length, max_length"),
        ({"max_args": 1}, "max_depth, max_args"),
        ({"max_depth": 0}, "max_depth, max_args"),
        ({"operator_frac": 0.0}, "operator_frac is 0.0"),
        ({"max_depth": 1}, "after 0 of 5"),
    ],
)
def test_impossible_settings_are_refused(changes: dict, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listops, "TRIES", 2000)
    with pytest.raises(ValueError, match=said) as fault:
        trees(5, **{**SHORT, **changes})
    assert "\n" not in str(fault.value)


def test_a_negative_number_of_samples() -> None:
    with pytest.raises(ValueError, match="samples is -1"):
        make({"train": 5, "valid": -1, "test": 1}, **SHORT)


def released(folder: Path) -> Path:
    """The layout of the arena's archive: round brackets around every binary branch, a head, tabs."""
    place = folder / "lra_release" / "listops-1000"
    place.mkdir(parents=True)
    rows = (
        ("( ( ( [MAX 2 ) 9 ) ] )", 9),
        ("( ( ( ( [SM 7 ) ( ( ( [MIN 8 ) 4 ) ] ) ) 5 ) ] )", 6),
        ("( ( ( [MED 3 ) 6 ) ] )", 4),
    )
    for name in ("train", "val", "test"):
        lines = ["Source\tTarget", *(f"{source}\t{target}" for source, target in rows)]
        (place / f"basic_{name}.tsv").write_text("\n".join(lines) + "\n")
    return place


def test_the_released_tables_are_read_with_and_without_closing_brackets(tmp_path: Path) -> None:
    released(tmp_path)
    every = {"train": 0, "valid": 0, "test": 1}
    for folder in (tmp_path, tmp_path / "lra_release", tmp_path / "lra_release/listops-1000"):
        made = task.make("listops", "lra_release", samples=every, max_length=2000, folder=folder)
        assert [listops.words(row) for row in made.train.rows] == [
            "[MAX 2 9 ]",
            "[SM 7 [MIN 8 4 ] 5 ]",
            "[MED 3 6 ]",
        ]
        assert made.valid.labels == [9, 6, 4] and made.test.labels == [9] and made.values == 15
    how = {"max_length": 2000, "folder": tmp_path, "form": {"closing": False}}
    open_ended = task.make("listops", "lra_release", samples=every, **how)
    assert listops.words(open_ended.train.rows[1]) == "[SM 7 [MIN 8 4 5" and open_ended.values == 14


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Target\tSource\n", "line 1: .*; allowed: Source and Target"),
        ("Source\tTarget\n[MAX 2 9 ]\n", "line 2: allowed: a tree and a digit"),
        ("Source\tTarget\n[MAX 2 9 ]\t12\n", "line 2: allowed: a tree and a digit"),
        ("Source\tTarget\n[MAX 2 9 ]\t9\n[AVG 1 2 ]\t1\n", r"line 3: '\[AVG'; allowed: 0, 1"),
    ],
)
def test_a_wrong_line_of_a_table_is_named(tmp_path: Path, text: str, said: str) -> None:
    (released(tmp_path) / "basic_train.tsv").write_text(text)
    with pytest.raises(ValueError, match=said) as fault:
        task.make("listops", "lra_release", samples=dict.fromkeys(PARTS, 0), max_length=9, folder=tmp_path)
    assert "\n" not in str(fault.value)


def test_without_closing_brackets_the_trees_are_the_same_but_for_them() -> None:
    counts = {"train": 20, "valid": 2, "test": 2}
    form = {"min_length": 5, "max_length": 40, "max_depth": 3}
    whole, cut = (listops.make(counts, seed=1, closing=closing, **form) for closing in (True, False))
    assert [row.replace(bytes([listops.CLOSE]), b"") for row in whole.train.rows] == cut.train.rows
    assert whole.train.labels == cut.train.labels and (whole.values, cut.values) == (15, 14)
