"""What a table of a step looks like on disk."""

import math

import pytest

from relearn.steps.csv_rows import write_rows


def test_truth_is_a_number_and_what_does_not_exist_is_empty(tmp_path) -> None:
    rows = [{"b": True, "a": 0.1}, {"a": None, "b": False, "more": 3}, (math.inf, "x"), (math.nan, 2)]
    write_rows(tmp_path / "t.csv", ("a", "b"), rows)
    assert (tmp_path / "t.csv").read_bytes() == b"a,b\n0.1,1\n,0\n,x\n,2\n"


def test_a_row_without_a_column_is_refused(tmp_path) -> None:
    with pytest.raises(KeyError, match="b"):
        write_rows(tmp_path / "t.csv", ("a", "b"), [{"a": 1}])
