"""The last lines of a run."""

import os
from pathlib import Path

import pytest

from relearn.report import claims_formats, verdict_words
from relearn.report.claims import Claim
from relearn.report.closing import closing_words
from relearn.report.verdicts import ORDER


def claim(name: str, verdict: str) -> Claim:
    said = {"source": "somewhere", "says": "something", "predicate": "a > b"}
    return Claim(section="poisoning", id=name, kind="trained", verdict=verdict, **said)


def test_it_repeats_the_count_of_the_claims_page_and_names_the_report(tmp_path: Path) -> None:
    claims = [claim("one", "not_run"), claim("two", "not_run"), claim("three", "underpowered")]
    (tmp_path / "claims.md").write_text(claims_formats.markdown(claims, "mini"))
    assert closing_words(tmp_path) == []  # there is no report yet
    (tmp_path / "report.html").touch()
    first, report, _ = closing_words(tmp_path)
    assert first.startswith("3 claims: ") and "2 not run" in first and "1 underpowered" in first
    assert report == f"report: {tmp_path / 'report.html'}"
    (tmp_path / "claims.json").write_text(claims_formats.as_json(claims, "mini"))
    header = "artefact,cells_measured,cells_defined,addition"
    (tmp_path / "coverage.csv").write_text(f"{header}\na,3,4,0\nb,0,5,0\nc,7,7,1\n")
    assert closing_words(tmp_path)[1] == (
        "not run: 2 claims (poisoning/one, poisoning/two); 3 of 9 published cells have a number"
    )
    record = tmp_path / "runs/poisoning/record.json"
    record.parent.mkdir(parents=True)
    record.touch()
    page = tmp_path / "report.html"
    for seconds, older in ((60, False), (-60, True)):  # the page was made after the run, and before it
        os.utime(page, (now := record.stat().st_mtime + seconds, now))
        assert (f"{page} is older than these runs" in closing_words(tmp_path)[0]) is older
    os.utime(page)
    (tmp_path / "claims.md").write_text("torn")
    assert closing_words(tmp_path) == []


# The words of the verdicts: explained once, and wherever they stand.

DOCS = Path(__file__).parents[2] / "docs"


def test_every_verdict_has_one_line_and_the_strongest_comes_first() -> None:
    assert set(verdict_words.MEANINGS) == {*ORDER, "underpowered", "partial", "not_run"}
    assert next(iter(verdict_words.MEANINGS)) == "reproduced"
    assert all("\n" not in meaning and len(meaning) < 110 for meaning in verdict_words.MEANINGS.values())


def test_the_page_on_verdicts_has_the_same_words() -> None:
    assert verdict_words.markdown(provisional=True) in (DOCS / "verdicts.md").read_text(encoding="utf-8")


def test_only_the_words_that_stand_on_a_page_are_explained() -> None:
    found = verdict_words.explanations(["not_run", "reproduced", "not_run"], provisional=True)
    assert [word for word, _ in found] == ["reproduced", "not run", "provisional"]
    with pytest.raises(KeyError, match="found proven, allowed: reproduced"):
        verdict_words.explanations(["proven"])
