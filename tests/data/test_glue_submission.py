"""The server's tables: names, header, indices and words, column by column; the zip is the same bytes each time."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from relearn.data.glue_submission import SHEETS, table, write

# As the benchmark's sample submission has them, written down apart from the code: file, samples, what may stand in the second column.
WANTED = {
    "CoLA.tsv": (1063, {"0", "1"}),
    "SST-2.tsv": (1821, {"0", "1"}),
    "MRPC.tsv": (1725, {"0", "1"}),
    "STS-B.tsv": (1379, None),
    "QQP.tsv": (390965, {"0", "1"}),
    "MNLI-m.tsv": (9796, {"entailment", "neutral", "contradiction"}),
    "MNLI-mm.tsv": (9847, {"entailment", "neutral", "contradiction"}),
    "QNLI.tsv": (5463, {"entailment", "not_entailment"}),
    "RTE.tsv": (3000, {"entailment", "not_entailment"}),
    "WNLI.tsv": (146, {"0", "1"}),
    "AX.tsv": (1104, {"entailment", "neutral", "contradiction"}),
}


def answers(task: str) -> dict[str, float]:
    """An answer a sample, every class at least once, not in the order of the indices."""
    sheet = SHEETS[task]
    every = reversed(range(sheet.count))
    return {str(index): index % len(sheet.words) if sheet.words else index / 100 - 1 for index in every}


def test_a_whole_submission(tmp_path: Path) -> None:
    path = tmp_path / "submission.zip"
    assert write(path, {task: answers(task) for task in SHEETS}) == []
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(WANTED)  # no folder, nothing else
        for name, (count, words) in WANTED.items():
            text = archive.read(name).decode()
            assert text.endswith("\n") and "\r" not in text
            header, *lines = text.removesuffix("\n").split("\n")
            assert header == "index\tprediction"
            columns = [line.split("\t") for line in lines]
            assert [index for index, _ in columns] == [str(index) for index in range(count)]
            if words is None:
                assert all(0 <= float(value) <= 5 and len(value) == 5 for _, value in columns)
            else:
                assert {word for _, word in columns} == words


def test_words_map_to_their_classes() -> None:
    entailed = table("rte", {"1": 0, "0": 1}, official=False)
    assert entailed == "index\tprediction\n0\tentailment\n1\tnot_entailment\n"
    three = table("mnli_mismatched", {"0": 0, "1": 1, "2": 2}, official=False)
    assert [line.split("\t")[1] for line in three.splitlines()[1:]] == [
        "entailment",
        "neutral",
        "contradiction",
    ]
    assert table("cola", {"10": 1, "9": 0.0}, official=False) == "index\tprediction\n9\t0\n10\t1\n"


def test_values_are_moved_into_their_scale() -> None:
    given = {"0": -0.3, "1": 5.0004, "2": 2.34567, "3": 7.0, "4": 0.0, "5": 4.9996}
    values = [line.split("\t")[1] for line in table("stsb", given, official=False).splitlines()[1:]]
    assert values == ["0.000", "5.000", "2.346", "5.000", "0.000", "5.000"]


def test_the_same_answers_are_the_same_bytes(tmp_path: Path) -> None:
    small = {"rte": {"0": 1, "1": 0}, "cola": {"0": 1}}
    absent = write(tmp_path / "a.zip", small, official=False)
    assert "RTE.tsv" not in absent and "CoLA.tsv" not in absent and len(absent) == 9
    turned = {"cola": {"0": 1.0}, "rte": {"1": 0.0, "0": 1.0}}
    write(tmp_path / "b.zip", turned, official=False)
    content = (tmp_path / "a.zip").read_bytes()
    assert content == (tmp_path / "b.zip").read_bytes()
    # Bytes that no clock, no packer and no system has a say in.
    assert (
        hashlib.sha256(content).hexdigest()
        == "734547c130b002e062a3f0af4bd0e02e1ec071798e01a877e24c30194ae79450"
    )
    write(tmp_path / "b.zip", {**small, "cola": {"0": 0}}, official=False)
    assert content != (tmp_path / "b.zip").read_bytes()


@pytest.mark.parametrize(
    ("task", "given", "official", "said"),
    [
        ("snli", {"0": 1}, False, r"task: snli \(allowed: cola, sst2"),
        ("cola", {"x": 1}, False, r"CoLA.tsv: id 'x' \(allowed: a test sample's index\)"),
        ("cola", {"01": 1}, False, "id '01'"),
        ("cola", {"0": 2}, False, r"CoLA.tsv: class 2 for 0 \(allowed: 0 to 1\)"),
        ("cola", {"0": 0.5}, False, r"class 0.5 for 0"),
        ("cola", {"0": -1}, False, r"class -1 for 0"),
        ("stsb", {"0": float("nan")}, False, r"STS-B.tsv: nan for 0 \(allowed: a finite value\)"),
        ("wnli", {"0": 1}, True, r"WNLI.tsv: 1 answers \(allowed: 146, 0 to 145\)"),
        ("wnli", {str(index): 1 for index in range(1, 147)}, True, r"WNLI.tsv: 146 answers"),
    ],
)
def test_wrong_answers_are_refused_in_one_line(
    task: str, given: dict[str, float], official: bool, said: str
) -> None:
    with pytest.raises(ValueError, match=said) as fault:
        table(task, given, official=official)
    assert "\n" not in str(fault.value)


def test_nothing_is_written_without_answers_or_with_wrong_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"answers: no task \(allowed: cola"):
        write(tmp_path / "a.zip", {})
    with pytest.raises(ValueError, match="class 3"):
        write(tmp_path / "a.zip", {"cola": {"0": 1}, "rte": {"0": 3}}, official=False)
    assert not list(tmp_path.iterdir())
