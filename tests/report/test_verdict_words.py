"""The words of the verdicts: explained once, and wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from relearn.report import verdict_words
from relearn.report.verdicts import CODES, VERDICTS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_verdict_has_one_line_and_the_strongest_comes_first() -> None:
    assert set(verdict_words.MEANINGS) == set(VERDICTS) == set(CODES)
    assert next(iter(verdict_words.MEANINGS)) == "reproduced"
    assert all("\n" not in meaning and len(meaning) < 110 for meaning in verdict_words.MEANINGS.values())


def test_the_page_on_verdicts_has_the_same_words() -> None:
    assert verdict_words.markdown(provisional=True) in (DOCS / "verdicts.md").read_text(encoding="utf-8")


def test_only_the_words_that_stand_on_a_page_are_explained() -> None:
    found = verdict_words.explained(["not_run", "reproduced", "not_run"], provisional=True)
    assert [word for word, _ in found] == ["reproduced", "not run", "provisional"]
    with pytest.raises(KeyError, match="found proven, allowed: reproduced"):
        verdict_words.explained(["proven"])
