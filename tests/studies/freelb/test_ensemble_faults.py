"""Tables of answers that cannot be voted on are refused in a line; each control is the same table put right."""

import csv
import re

import pytest

from relearn.studies.freelb.steps.ensemble import read, together
from relearn.studies.freelb.steps.finetune import ANSWERS
from relearn.studies.freelb.steps.finetune_start import check


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


# Settings of finetune that YAML reads as something else than whole numbers are refused in a line.

RIGHT = {
    "method": {"kind": "freelb", "passes": 2},
    "steps": 1,
    "evaluations": 1,
    "batch_size": 4,
    "accumulate": 2,
}


@pytest.mark.parametrize("value", ["2", 2.5, None, True, [2]])
@pytest.mark.parametrize("key", ["method.passes", "steps", "evaluations", "batch_size", "accumulate"])
def test_numbers_that_are_not_whole_are_refused(key, value):
    check(RIGHT)
    wrong = {"method": {"kind": "freelb", "passes": value}} if key == "method.passes" else {key: value}
    with pytest.raises(
        ValueError, match=rf"^{key}: {re.escape(repr(value))} \(allowed: a whole number, at least 1\)$"
    ):
        check(RIGHT | wrong)


def test_plain_training_has_no_passes():
    check(RIGHT | {"method": {"kind": "vanilla"}})
