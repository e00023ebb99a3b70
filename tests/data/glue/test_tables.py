"""Rows of the benchmark's tables: tabs and line feeds part them, and nothing else does.

Values have their scale, and a fault in a file says which file.
"""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data import glue
from relearn.data.glue.tables import column, examples, read

FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1, max_size=8)


@settings(max_examples=50)
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
def test_a_damaged_table_is_refused_in_one_line(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said) as fault:
        examples(read(content, "t.tsv"), "t.tsv", ("q", None), "label", ("0", "1"))
    assert "\n" not in str(fault.value)


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"t.tsv: row 0: label 'x' \(allowed: a number\)"):
        examples(read(b"q\ts\na\tx\n", "t.tsv"), "t.tsv", ("q", None), "s", ())


def test_names_from_outside() -> None:
    table = read(b"gj04\t1\t\tA sentence.\n", "train.tsv", ("source", "label", "mark", "sentence"))
    assert column(table, "sentence", "train.tsv") == ["A sentence."] and len(table.rows) == 1


HEAD = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
TEST = f"{HEAD}\n0\tm\tf\t2012\t3\tn\tn\tA dog.\tA cat.\n"


def similar(folder: Path, first: str, public: str = "2.5") -> glue.Glue:
    """STS-B with two scores of the training part, and one public score of the test part."""
    own = folder / "STS-B"
    own.mkdir()
    row = "m\tf\t2012\t1\tn\tn\tA plane.\tA kite."
    for part, scores in (("train", (first, "0")), ("dev", ("5", "0.0"))):
        rows = "".join(f"{number}\t{row}\t{score}\n" for number, score in enumerate(scores))
        (own / f"{part}.tsv").write_text(f"{HEAD}\tscore\n{rows}", encoding="utf-8")
    (own / "test.tsv").write_text(TEST, encoding="utf-8")
    (own / "sts-test.csv").write_text(f"m\tf\t2012\t3\t{public}\tA dog.\tA cat.\n", encoding="utf-8")
    return glue.load("stsb", folder, official=False)


def test_the_ends_of_the_scale_are_on_it(tmp_path: Path) -> None:
    found = similar(tmp_path, "5.000", "0")
    assert found.train.labels is not None and found.train.labels.tolist() == [5, 0]
    assert found.test.labels is not None and found.test.labels.tolist() == [0]


@pytest.mark.parametrize("score", ["5.2", "-0.1", "nan", "inf", "high"])
def test_a_value_outside_of_it_is_refused(tmp_path: Path, score: str) -> None:
    with pytest.raises(ValueError, match=rf"^train.tsv: row 0: label '{score}' \(allowed: 0 to 5\)$"):
        similar(tmp_path, score)


@pytest.mark.parametrize("score", ["7", "nan", ""])
def test_a_public_score_outside_of_it_is_refused(tmp_path: Path, score: str) -> None:
    with pytest.raises(ValueError, match=r"^sts-test.original.csv: a row without a score \(allowed: 0 to 5"):
        similar(tmp_path, "1", score)


def test_a_duplicate_sample_is_reported_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "RTE").mkdir()
    head = "index\tsentence1\tsentence2"
    for part in ("train", "dev"):
        (tmp_path / "RTE" / f"{part}.tsv").write_text(f"{head}\tlabel\n0\tA.\tB.\tentailment\n")
    (tmp_path / "RTE/test.tsv").write_text(f"{head}\n4\tA.\tB.\n4\tA.\tC.\n")
    with pytest.raises(ValueError, match=r"^test.tsv: ids: '4' occurs twice"):
        glue.load("rte", tmp_path, official=False)
