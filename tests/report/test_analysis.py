"""Analyses are found by claim and scale, refused when incomplete, and out of date when the verdict moves."""

import re
import subprocess
from dataclasses import replace

import pytest
import yaml

from relearn.report import analysis, claims, claims_formats

from .conftest import FOLDERS, SECTIONS

ENTRY = {"date": "2026-11-20", "commit": "1234567", "verdict": "direction", "cause": "scale", "text": "Few."}


@pytest.fixture(scope="module")
def judged(evidence):
    return claims.judge_all(claims.load(FOLDERS), {"poisoning": evidence}, SECTIONS)


def write(folder, entry, claim="cp_beats_fc", scale="mini"):
    (folder / "analysis.yaml").write_text(yaml.safe_dump({claim: {scale: entry}}))
    return {"poisoning": folder}


def test_the_file_can_be_read_and_speaks_of_known_claims():
    known = {(study, name) for study, section in claims.load(FOLDERS).items() for name in section}
    assert {(study, claim) for study, claim, _ in analysis.load(FOLDERS)} <= known


def test_no_file_is_no_analysis(tmp_path):
    assert analysis.load({"poisoning": tmp_path}) == {}


def test_what_did_not_come_out_is_listed_with_its_text(judged, tmp_path):
    missed = [claim.id for claim in judged if claim.parts and claim.verdict != "reproduced"]
    assert missed and "knn_beats_baselines" in missed
    texts = analysis.load(write(tmp_path, ENTRY, "knn_beats_baselines"))
    found = {one.claim.id: one for one in analysis.explain(judged, texts, "mini")}
    assert list(found) == missed
    assert found["knn_beats_baselines"].analysis.text == "Few."
    assert all(one.analysis is None for name, one in found.items() if name != "knn_beats_baselines")
    elsewhere = analysis.explain(judged, texts, "small")
    assert all(one.analysis is None for one in elsewhere)
    others = analysis.explain([replace(claim, section="freelb") for claim in judged], texts, "mini")
    assert all(one.analysis is None for one in others)


def test_a_reproduced_claim_with_a_text_is_listed_without_a_cause(judged, tmp_path):
    claim = replace(judged[0], verdict="reproduced")
    texts = analysis.load(write(tmp_path, {**ENTRY, "verdict": "reproduced", "cause": "none"}, claim.id))
    (lines,) = analysis.paragraphs(analysis.explain([claim], texts, "mini")).values()
    assert lines == ["Analysis: Few.", "Written 2026-11-20, commit 1234567."]
    assert not analysis.explain([claim], texts, "small")


def test_a_text_for_another_verdict_is_out_of_date(judged, tmp_path):
    claim = replace(judged[0], verdict="direction")
    texts = analysis.load(write(tmp_path, ENTRY, claim.id))
    assert not analysis.explain([claim], texts, "mini")[0].stale
    moved = analysis.explain([replace(claim, verdict="contradicted")], texts, "mini")
    (lines,) = analysis.paragraphs(moved).values()
    assert moved[0].stale and lines[0] == "Out of date: written for the verdict direction."


def test_a_claim_has_its_analysis_in_its_own_details(judged, tmp_path):
    named = next(claim for claim in judged if claim.id == "knn_beats_baselines")
    texts = analysis.load(write(tmp_path, ENTRY, named.id))
    explained = analysis.explain(judged, texts, "mini")
    page = claims_formats.markdown(judged, "mini", why=analysis.paragraphs(explained))
    details = page.partition(f"### {named.id}: ")[2].partition("\n### ")[0]
    assert "\nAnalysis: Few.\n" in details and page.count("Analysis: ") == 1
    assert page.count(analysis.NONE_WRITTEN) == len(explained) - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": None}, "cp_beats_fc.mini: found cause, commit, date, verdict, allowed"),
        ({"mood": "good"}, "found cause, commit, date, mood"),
        ({"cause": "weather"}, "cp_beats_fc.mini.cause: found weather, allowed: scale"),
    ],
)
def test_an_incomplete_text_is_refused(tmp_path, change, message):
    entry = {key: value for key, value in {**ENTRY, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=re.escape(message)):
        analysis.load(write(tmp_path, entry))


def test_runs_that_differ_in_one_name_are_one_line() -> None:
    runs = ["runs/a/x/seed0", "runs/a/y/seed3", "runs/a/x/seed2", "runs/a/count"]
    assert claims_formats.folded(runs) == ["runs/a/x/seed{0,2}", "runs/a/y/seed3", "runs/a/count"]
    assert claims_formats.folded([]) == []
    assert claims_formats.folded(f"a/seed{seed}" for seed in (0, 1, 10, 2)) == ["a/seed{0,1,2,10}"]


def test_folded_runs_unfold_to_the_same_runs() -> None:
    """The truth is the shell's own expansion of braces; a grid becomes one line, and a cell that is missing splits it."""
    grid = [
        f"runs/{attack}/none/{victim}/seed{seed}"
        for attack in "pq"
        for victim in ("R18", "D-121")
        for seed in (0, 10)
    ]
    assert claims_formats.folded(grid) == ["runs/{p,q}/none/{R18,D-121}/seed{0,10}"]
    for runs in (grid, grid[1:], [*grid[:3], *grid[5:], "runs/p/none", "runs/q/none", "runs/lone"]):
        lines = claims_formats.folded(runs)
        unfolded = subprocess.run(
            ["bash", "-c", f"echo {' '.join(lines)}"], capture_output=True, text=True, check=True
        )
        assert len(lines) < len(runs)
        assert sorted(unfolded.stdout.split()) == sorted(runs)


def test_a_number_that_rounds_to_a_thousand_has_no_exponent() -> None:
    assert [claims_formats.three(value) for value in (999.4, 999.7, -999.7, 1e6)] == [
        "999",
        "1,000",
        "-1,000",
        "1e+06",
    ]
