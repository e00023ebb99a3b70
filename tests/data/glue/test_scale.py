"""Values have their scale, and a fault in a file says which file."""

from __future__ import annotations

from pathlib import Path

import pytest

from relearn.data import glue

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
