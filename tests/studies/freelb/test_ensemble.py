"""ensemble: means of the members' probabilities by hand, scores, the submission's tables, members that disagree or have no answers."""

import csv
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.studies.freelb.steps import ensemble
from relearn.studies.freelb.steps.ensemble import read, together
from relearn.studies.freelb.steps.finetune import ANSWERS

from .runs import Bench

Answer = tuple[str, str, str, str]


def answers(path: Path, rows: list[Answer]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([("part", "id", "label", "logits"), *rows])
    return path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "ensemble", {"members": []})


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def members(bench: Bench, name: str, tables: list[tuple[str, list[Answer]]], code: int = 0) -> dict[str, Any]:
    """A run over members ``(task, rows)``."""
    files = [
        answers(bench.runs.parent / f"{name}{place}.csv", rows) for place, (_, rows) in enumerate(tables)
    ]
    own = [{"task": task, "seed": seed} for seed, (task, _) in enumerate(tables)]
    return bench.run(name, code=code, inputs={"answers": files}, members=own)


@pytest.fixture(autouse=True)
def folders(bench: Bench) -> None:
    bench.runs.mkdir(parents=True)


def test_probabilities_are_averaged_and_not_votes(bench: Bench) -> None:
    """0.9, 0.4 and 0.4 for class 1: two of three say 0, their mean says 1; the mean of logits would, too, but not of 0.6, 0.6, 0.01."""

    def rows(first: float, second: float) -> list[Answer]:
        return [
            ("dev", "0", "1", f"0 {logit(first)}"),
            ("dev", "1", "0", f"0 {logit(second)}"),
            ("test", "0", "", f"0 {logit(first)}"),
            ("test", "1", "", f"5 {logit(second) + 5}"),
        ]

    done = members(
        bench, "mean", [("rte", rows(0.9, 0.6)), ("rte", rows(0.4, 0.6)), ("rte", rows(0.4, 0.01))]
    )
    found = done["metrics"]
    assert found["rte_dev_accuracy_frac"] == found["rte_dev_score_frac"] == 1.0
    assert found["members_count"] == 3 and found["answers_count"] == 2
    assert not [key for key in found if "test" in key]
    scores = {row["metric"]: row for row in bench.rows("mean", "scores.csv")}
    assert float(scores["accuracy"]["value"]) == 1.0 and scores["mcc"]["samples_count"] == "2"
    with zipfile.ZipFile(bench.runs / "mean/submission.zip") as packed:
        assert packed.namelist() == ["RTE.tsv"]
        assert packed.read("RTE.tsv").decode().splitlines() == [
            "index\tprediction",
            "0\tentailment",
            "1\tnot_entailment",
        ]
    assert any("MNLI-m.tsv" in note for note in done["notes"])


@settings(max_examples=20)
@given(
    st.lists(
        st.lists(st.floats(-30, 30), min_size=3, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_a_mean_is_a_distribution(outputs: list[list[float]]) -> None:
    found = ensemble.mean("ranking", outputs)
    assert sum(found) == pytest.approx(1.0) and min(found) >= 0
    slow = [
        sum(math.exp(one[place]) / sum(map(math.exp, one)) for one in outputs) / len(outputs)
        for place in range(3)
    ]
    assert found == pytest.approx(slow)
    shifted = [[one + 7 for one in row] for row in outputs]
    assert ensemble.mean("ranking", shifted) == pytest.approx(found)
    assert ensemble.mean("regression", outputs) == pytest.approx(
        [sum(row[place] for row in outputs) / len(outputs) for place in range(3)]
    )


def test_values_and_candidates(bench: Bench) -> None:
    """STS-B: the mean value, cut to the scale in the submission alone; QNLI: the best candidate is entailed, the others are not."""

    def values(more: float) -> list[Answer]:
        dev: list[Answer] = [("dev", str(one), str(float(one)), str(one + more * one)) for one in range(4)]
        return [*dev, ("test", "0", "4.0", str(7 + more)), ("test", "1", "2.5", "2.25")]

    def choices(first: str, second: str) -> list[Answer]:
        return [("dev", "0+1", "1", first), ("test", "0+2", "", first), ("test", "1+3+train:4", "", second)]

    found = members(
        bench,
        "both",
        [
            ("stsb", values(0.5)),
            ("qnli", choices("1 3", "2 1 9")),
            ("stsb", values(-0.5)),
            ("qnli", choices("1 0", "2 1 9")),
        ],
    )["metrics"]
    assert found["stsb_dev_pearson"] == pytest.approx(1.0) and found["stsb_test_spearman"] == pytest.approx(
        1.0
    )
    assert found["qnli_dev_accuracy_frac"] == 1.0 and found["answers_count"] == 2 + 4
    with zipfile.ZipFile(bench.runs / "both/submission.zip") as packed:
        tables = {name: packed.read(name).decode().split("\n")[1:-1] for name in packed.namelist()}
    assert tables["STS-B.tsv"] == ["0\t5.000", "1\t2.250"]
    entailed = [line.split("\t")[1] for line in tables["QNLI.tsv"]]
    assert entailed == ["not_entailment", "not_entailment", "entailment", "not_entailment"]


def test_parts_of_other_genres_and_other_tasks(bench: Bench) -> None:
    rows: list[Answer] = [
        ("dev", "0", "2", "0 0 1"),
        ("dev_mismatched", "0", "1", "0 0 1"),
        ("test", "0", "", "1 0 0"),
        ("test_mismatched", "0", "", "0 1 0"),
        ("ax", "0", "", "0 0 1"),
    ]
    done = members(bench, "genres", [("mnli", rows)])
    assert done["metrics"]["mnli_dev_score_frac"] == 1.0
    assert done["metrics"]["mnli_dev_mismatched_accuracy_frac"] == 0.0
    with zipfile.ZipFile(bench.runs / "genres/submission.zip") as packed:
        told = {name: packed.read(name).decode().split()[-1] for name in packed.namelist()}
    assert told == {"MNLI-m.tsv": "entailment", "MNLI-mm.tsv": "neutral", "AX.tsv": "contradiction"}
    assert (
        ensemble.sheet_of("qnli_pairs", "test") == "qnli"
        and ensemble.sheet_of("mnli", "dev_mismatched") == ""
    )


def test_a_task_of_ones_own_is_not_submitted(bench: Bench) -> None:
    rows: list[Answer] = [("dev", "a", "1", "0 1"), ("test", "b", "0", "0 1")]
    done = members(bench, "own", [("acceptability", rows)])
    assert done["metrics"]["acceptability_test_accuracy_frac"] == 0.0
    with zipfile.ZipFile(bench.runs / "own/submission.zip") as packed:
        assert packed.namelist() == []


def test_a_member_without_answers_is_left_out(bench: Bench) -> None:
    good: list[Answer] = [("dev", "0", "1", "0 1")]
    none: list[Answer] = [("dev", "0", "1", "")]
    done = members(bench, "one", [("rte", good), ("rte", none)])
    assert done["metrics"]["members_count"] == 1 and done["metrics"]["rte_dev_score_frac"] == 1.0
    assert "rte: 1 of 2 members without answers" in done["notes"]
    done = members(bench, "none", [("rte", none)])
    assert done["outcome"] == "diverged" and done["metrics"]["members_count"] == 0


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ([("dev", "1", "1", "0 1")], "answers: members of rte answered other samples"),
        ([("dev", "0", "0", "0 1")], "answers: members of rte answered other samples"),
        (
            [("dev", "0", "1", "0 1"), ("test", "0", "", "0 1")],
            "answers: members of rte answered other samples",
        ),
    ],
)
def test_members_that_disagree(
    bench: Bench, other: list[Answer], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    members(bench, "two", [("rte", [("dev", "0", "1", "0 1")]), ("rte", other)], code=2)
    assert said in capsys.readouterr().err.strip().splitlines()[-1]


def test_wrong_arguments_are_refused(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.run("nobody", code=2)
    assert "members: 0 with 0 answers.csv (allowed: as many, at least 1)" in capsys.readouterr().err
    members(bench, "unknown", [("sums", [("dev", "0", "1", "0 1")])], code=2)
    assert "task: 'sums' (allowed: cola" in capsys.readouterr().err
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    bench.run(
        "columns", code=2, inputs={"answers": [tmp_path / "other.csv"]}, members=[{"task": "rte", "seed": 0}]
    )
    assert "columns ['a', 'b'] (allowed: part, id, label, logits)" in capsys.readouterr().err


# tables of answers that cannot be voted on; each control is the same table put right


def table(folder, *logits, name="answers.csv"):
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(ANSWERS)
        rows.writerows(["dev", str(number), "1", said] for number, said in enumerate(logits))
    return path


@pytest.mark.parametrize("said", ["1 x", "nan 2", "1 inf", " "])
def test_logits_that_are_not_finite_are_refused(tmp_path, said):
    expected = re.escape(f"dev 1: logits {said!r} (allowed: finite numbers)")
    with pytest.raises(ValueError, match=f"{expected}$"):
        read(table(tmp_path, "1 2", said))
    assert read(table(tmp_path, "1 2", "1 0"))["dev"].outputs == [[1, 2], [1, 0]]


def test_answers_to_some_samples_alone_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"dev: 1 answers to 2 samples \(allowed: one to each, or none\)$"):
        read(table(tmp_path, "1 2", ""))
    assert read(table(tmp_path, "", ""))["dev"].outputs == []


def test_members_that_chose_among_other_classes_are_refused(tmp_path):
    two, three = (read(table(tmp_path, words, name=words)) for words in ("1 2", "1 2 3"))
    with pytest.raises(ValueError, match=r"^answers: members of rte chose among other classes or candidates"):
        together("rte", "classification", [two, three])
    assert together("rte", "classification", [two, two])["dev"][0] == ["0"]
