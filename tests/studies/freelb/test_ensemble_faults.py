"""Tables of answers that cannot be voted on are refused in a line; each control is the same table put right."""

import csv
import re

import pytest

from relearn.studies.freelb.steps.ensemble import read, together
from relearn.studies.freelb.steps.finetune import ANSWERS


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
