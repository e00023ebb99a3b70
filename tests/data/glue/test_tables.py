"""Rows of the benchmark's tables: tabs and line feeds part them, and nothing else does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.glue.tables import column, examples, read

FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=5), st.booleans(), st.booleans(), st.booleans())
def test_any_text_survives(rows: list[tuple[str, str]], bom: bool, windows: bool, last: bool) -> None:
    """Quotation marks, form feeds, line separators of Unicode: letters like any other."""
    end = "\r\n" if windows else "\n"
    text = end.join(["a\tb", *("\t".join(row) for row in rows)]) + (end if last else "")
    table = read(text.encode("utf-8-sig" if bom else "utf-8"), "x.tsv")
    assert table.names == ("a", "b") and table.left_out == 0
    assert [tuple(row) for row in table.rows] == rows and table.lines == list(range(len(rows)))


def test_quotation_marks_do_not_join_rows() -> None:
    content = b'sentence\tlabel\n"An open one\t1\nand another"\t0\n'
    table = read(content, "train.tsv")
    found = examples(table, "train.tsv", ("sentence", None), "label", ("0", "1"))
    assert found.rows == [[('"An open one', None)], [('and another"', None)]]
    assert found.labels is not None and found.labels.tolist() == [1, 0] and found.ids == ["0", "1"]


def test_short_rows_are_left_out_where_that_is_allowed() -> None:
    content = b"id\tq\tlabel\n7\ta\t1\n8\tcut\n9\tb\t0\n"
    table = read(content, "train.tsv", drop_short=True)
    assert table.left_out == 1 and table.lines == [0, 2]
    found = examples(table, "train.tsv", ("q", None), "label", ("0", "1"))
    assert found.ids == ["0", "2"]  # numbers of the rows, the one that is gone counted
    with pytest.raises(ValueError, match=r"train.tsv: line 3: 2 fields \(allowed: 3, id q label\)"):
        read(content, "train.tsv")
    with pytest.raises(ValueError, match="line 2: 4 fields"):
        read(b"id\tq\tlabel\n7\ta\tb\t1\n", "train.tsv", drop_short=True)


def test_samples_are_called_as_a_submission_calls_them() -> None:
    for name in ("index", "id"):
        table = read(f"{name}\tq\n5\ta\n3\tb\n".encode(), "test.tsv")
        found = examples(table, "test.tsv", ("q", None), "label", ("0", "1"))
        assert found.ids == ["5", "3"] and found.labels is None
    assert examples(read(b"q\na\n", "t"), "t", ("q", None), "label", ("0", "1")).ids == ["0"]


def test_values_and_words() -> None:
    table = read(b"a\tb\ts\nx\ty\t2.5\nx\tz\t0\n", "train.tsv")
    found = examples(table, "train.tsv", ("a", "b"), "s", ())
    assert (
        found.labels is not None and found.labels.dtype == torch.float32 and found.labels.tolist() == [2.5, 0]
    )
    table = read(b"a\ts\nx\tyes\ny\tno \n", "train.tsv")
    found = examples(table, "train.tsv", ("a", None), "s", ("no", "yes"))
    assert found.labels is not None and found.labels.dtype == torch.int64 and found.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"q\tlabel\na\t2\n", r"t.tsv: row 0: label '2' \(allowed: 0, 1\)"),
        (b"q\tlabel\n", r"t.tsv: no rows"),
        (b"q\tlabel\na\t1\n\n", r"t.tsv: line 3: 1 fields"),
        (b"q\tlabel\n\xff\t1\n", r"t.tsv: not UTF-8 at byte 8"),
        (b"s\tlabel\na\t1\n", r"t.tsv: no column 'q' \(found: s label\)"),
        (b"q\tlabel\n\t1\n", r"rows: sample 0 has a row without a text"),
    ],
)
def test_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said) as fault:
        examples(read(content, "t.tsv"), "t.tsv", ("q", None), "label", ("0", "1"))
    assert "\n" not in str(fault.value)


def test_a_value_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"t.tsv: row 0: label 'x' \(allowed: a number\)"):
        examples(read(b"q\ts\na\tx\n", "t.tsv"), "t.tsv", ("q", None), "s", ())


def test_names_from_outside() -> None:
    table = read(b"gj04\t1\t\tA sentence.\n", "train.tsv", ("source", "label", "mark", "sentence"))
    assert column(table, "sentence", "train.tsv") == ["A sentence."] and len(table.rows) == 1
