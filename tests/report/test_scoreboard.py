"""The scoreboard: which file counts, what a cell says, and the block of a page."""

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import scoreboard as verb
from relearn.report import claims, scoreboard, table_formats
from relearn.report.claims_formats import pairs
from relearn.studies.study import all_studies

CLAIMS = {
    "first": {
        "renamed": {"kind": "trained", "source": "a1", "says": "x | y", "predicate": "p", "formerly": "old"},
        "counted": {"kind": "exact", "source": "a2", "says": "all hold", "predicate": "p"},
    },
    "second": {"theorem": {"kind": "check", "source": "b", "says": "q", "predicate": "p"}},
}


CHANGED = {"changed": ["2026-11-29: a decides. Before, b did."]}


def judged(section: str, name: str, verdict: str, **more: Any) -> dict[str, Any]:
    return {"section": section, "id": name, "verdict": verdict, "n": {}, **more}


def write(root: Path, folder: str, *claims: dict[str, Any], age: float = 0) -> None:
    path = root / folder / "claims.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"scale": "mini", "claims": list(claims)}))
    os.utime(path, (1e9 - age, 1e9 - age))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    effect = {"effect": 0.1, "low": None, "high": 0.2, "unit": "nats", "cost": {"cpu_s": 7200.0}}
    write(
        tmp_path,
        "published/mini",
        judged("first", "renamed", "direction", **{**effect, "n": {"seeds": 3}}, provisional=True),
        judged("first", "counted", "contradicted", effect=0.25, n={"cases": 8}),
        judged("second", "theorem", "reproduced", effect=0.0, n={"cases": 5}),
    )
    write(
        tmp_path,
        "published/small",
        judged("first", "old", "reproduced", n={"targets": 20, "victims": 4}, design=CHANGED),
    )
    return tmp_path


def test_a_row_a_claim_and_a_cell_a_scale(results: Path) -> None:
    board = scoreboard.load(results, CLAIMS)
    assert [row.claim for row in board] == ["renamed", "counted", "theorem"]
    first, second, third = board
    assert first.cells["mini"].shown == "0.1 [none, 0.2] nats" and first.cells["mini"].cpu_h == 2.0
    assert first.word("mini") == "direction (provisional)" and first.word("paper") == "not judged"
    assert second.cells["mini"].shown == "6 of 8 cases hold"
    assert third.word("mini") == "check: holds"


@pytest.mark.parametrize(
    ("method", "shown"),
    [("difference paired by seed", "-1.5 [-2.5, none] points"), ("Clopper-Pearson", "-1.5 [-2.5, none] %")],
)
def test_numbers_of_an_earlier_version_are_shown_as_people_read_them(method: str, shown: str) -> None:
    old = judged(
        "first", "renamed", "direction", effect=-0.015, low=-0.025, high=None, unit="fraction", method=method
    )
    (row, *_) = scoreboard.rows(CLAIMS, {"mini": {"claims": [old]}})
    assert row.cells["mini"].shown == shown


def test_a_study_that_is_not_rerun_keeps_its_earlier_verdict_with_a_note(results: Path) -> None:
    seeds = {"n": {"seeds": 2}}
    write(
        results,
        "published/small_0.7",
        judged("first", "counted", "underpowered", **seeds),
        judged("first", "old", "inconclusive", **seeds),
        judged("second", "theorem", "not_run"),
    )
    first, second, third = board = scoreboard.load(results, CLAIMS)
    assert first.word("small") == "reproduced"  # the new run counts
    assert (second.word("small"), second.cells["small"].n) == ("underpowered (version 0.7)", "2 seeds")
    assert third.cells["small"].verdict == "not_run"
    assert scoreboard.counts(board, "small") == {"reproduced": 1, "underpowered": 1}
    assert "| mini | small (1 verdict from version 0.7) |" in scoreboard.short(board)
    assert [scoreboard.EARLIER in scoreboard.short(one) for one in (board, board[:1])] == [True, False]
    write(results, "published/small", judged("first", "renamed", "not_run"))
    assert scoreboard.load(results, CLAIMS)[0].word("small") == "inconclusive (version 0.7)"
    write(results, "published/small_0.10", judged("first", "renamed", "contradicted"))
    assert scoreboard.load(results, CLAIMS)[0].word("small") == "contradicted (version 0.10)"


def test_a_claim_is_found_by_its_former_name(results: Path) -> None:
    cell = scoreboard.load(results, CLAIMS)[0].cells["small"]
    assert (cell.verdict, cell.n) == ("reproduced", "20 targets x 4 victims")
    assert pairs({"targets": 16, "victims": 4, "pairs": 64}) == "16 targets x 4 victims"
    assert pairs({"targets": 16, "victims": 4, "pairs": 23}) == "23 pairs of 16 targets and 4 victims"


@pytest.mark.parametrize(("age", "word"), [(-10, "contradicted"), (10, "direction")])
def test_own_results_count_where_they_are_newer(results: Path, age: float, word: str) -> None:
    write(results, "mini", judged("first", "renamed", "contradicted"), age=age)
    assert scoreboard.load(results, CLAIMS)[0].cells["mini"].verdict == word


def test_a_cell_says_what_is_claimed_of_what(results: Path) -> None:
    """The claimed range has no unit, which the effect has, unless the units of a row differ."""
    said = {"shown": "+9.0 [+3.0, +15.1] points", "claimed_side": "> 0 points", "comparison": "A - B"}
    one = judged("first", "renamed", "reproduced", unit="fraction", effect=0.09, **said)
    two = judged(
        "first", "renamed", "direction", unit="nats", effect=0.1, **said | {"claimed_side": "in [-1, 1] nats"}
    )
    cases = judged(
        "first", "counted", "reproduced", effect=0.0, n={"cases": 3}, claimed_side="all cases", comparison="C"
    )
    board = scoreboard.rows(CLAIMS, {"mini": {"claims": [one, cases]}})
    text = scoreboard.markdown(board)
    assert "reproduced; +9.0 [+3.0, +15.1] points, claimed > 0 (A - B) |" in text
    assert "reproduced; 3 of 3 cases hold |" in text
    both = scoreboard.of_study(
        scoreboard.rows(CLAIMS, {"mini": {"claims": [one]}, "small": {"claims": [two]}}), "first"
    )
    assert "claimed > 0 points (A - B) |" in both and "claimed in [-1, 1] nats (A - B) |" in both


def test_a_rule_that_was_changed_after_runs_is_marked(results: Path) -> None:
    board = scoreboard.load(results, CLAIMS)
    assert [line[-1] for line in scoreboard.table(board)] == [0, 1, 0, 0]
    assert "reproduced; 20 targets x 4 victims; rule changed after runs |" in scoreboard.of_study(
        board, "first"
    )


def test_the_csv_has_a_line_for_each_claim_and_scale(results: Path) -> None:
    board = scoreboard.load(results, CLAIMS)
    lines = list(
        csv.DictReader(io.StringIO(table_formats.csv_text(scoreboard.FIELDS, scoreboard.table(board))))
    )
    assert [(one["claim"], one["scale"], one["verdict"]) for one in lines] == [
        ("renamed", "mini", "direction"),
        ("renamed", "small", "reproduced"),
        ("counted", "mini", "contradicted"),
        ("theorem", "mini", "reproduced"),
    ]
    assert (lines[0]["effect"], lines[0]["low"], lines[0]["cpu_h"], lines[0]["provisional"]) == (
        "0.1",
        "",
        "2.0",
        "1",
    )


def test_checks_are_not_counted_and_words_are_explained(results: Path) -> None:
    board = scoreboard.load(results, CLAIMS)
    assert scoreboard.counts(board, "mini") == {"direction": 1, "contradicted": 1}
    whole = scoreboard.markdown(board)
    assert "- mini: 2 claims: 1 direction, 1 contradicted\n" in whole and "- paper: not run\n" in whole
    assert "x \\| y" in whole and "| contradicted | the whole interval lies on the other side" in whole
    assert "direction (provisional); 0.1 [none, 0.2] nats; 3 seeds; 2 CPU h" in whole
    short = scoreboard.short(board)
    assert (
        short.startswith("| verdict | mini | small | meaning |\n")
        and "| reproduced | 0 | 1 | the whole" in short
    )
    assert short.endswith(
        "\n\nOf the reproduced, exact: 0 (mini), 0 (small), and of these as errata correct them: 0, 0. Provisional, of all: 1, 0.\n"
    )
    (counted,) = (row for row in board if row.kind == "exact")
    held = replace(counted, cells={"mini": replace(counted.cells["mini"], verdict="reproduced")})
    exact = "Of the reproduced, exact: 1 (mini), and of these as errata correct them: {}. "
    assert exact.format(0) in scoreboard.short([held])
    corrected = replace(held, corrected="Q9")
    assert exact.format(1) in scoreboard.short([corrected])
    assert (held.word("mini"), corrected.word("mini")) == ("reproduced", "reproduced as corrected (Q9)")
    fails = replace(corrected, cells={"mini": replace(counted.cells["mini"], verdict="contradicted")})
    assert fails.word("mini") == "contradicted"


def test_the_verb_writes_both_files_and_the_block_of_a_page(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = results / "page.md"
    begin, end = "<!-- scoreboard{}: begin -->\n", "<!-- scoreboard{}: end -->\n"
    page.write_text(
        "before\n"
        + "".join(begin.format(of) + "old\n" + end.format(of) for of in ("", " of first"))
        + "after\n"
    )
    monkeypatch.setattr("relearn.report.claims.load", lambda _: CLAIMS)
    assert cli.main(["scoreboard", "--results", str(results), "--pages", str(page)]) == 0
    assert {path.name for path in (results / "published").glob("score*")} == {
        "scoreboard.csv",
        "scoreboard.md",
    }
    text = page.read_text()
    assert text.startswith(f"before\n{begin.format('')}| verdict |") and text.endswith(
        end.format(" of first") + "after\n"
    )
    assert f"{begin.format(' of first')}| claim | says | mini | small |\n" in text and "theorem" not in text
    assert "\nold\n" not in text
    assert (
        cli.main(["scoreboard", "--results", str(results), "--pages", str(page)]) == 0
        and page.read_text() == text
    )


@pytest.mark.parametrize("fault", ["nothing", "torn", "page", "pair", "study"])
def test_what_cannot_be_read_is_one_line(
    results: Path, fault: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relearn.report.claims.load", lambda _: CLAIMS)
    arguments = ["scoreboard", "--results", str(results)]
    if fault == "nothing":
        arguments[-1] = str(results / "elsewhere")
    elif fault == "torn":
        (results / "published/mini/claims.json").write_text("{")
    else:
        begin, end = "<!-- scoreboard of {}: begin -->\n", "<!-- scoreboard of {}: end -->\n"
        text = {"page": "", "pair": begin + end + begin, "study": (begin + end).replace("{}", "third")}[fault]
        (results / "page.md").write_text(text.replace("{}", "first"))
        arguments += ["--out", str(results / "new"), "--pages", str(results / "page.md")]
    assert cli.main(arguments) == (3 if fault == "torn" else 2)
    assert not (results / "new").exists()
    said = capsys.readouterr().err
    expected = {
        "nothing": "found no claims.json",
        "torn": "render it again: relearn render --scale mini",
        "page": "page.md: found 0 marks and 0 pairs",
        "pair": "page.md: found 3 marks and 1 pairs",
        "study": "page.md: found a table of 'third', allowed: of first, second",
    }
    assert expected[fault] in said and said.count("\n") == 1


def test_a_file_is_no_folder(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relearn.report.claims.load", lambda _: CLAIMS)
    (results / "file").write_text("x")
    for out in ("file", "file/below"):
        assert cli.main(["scoreboard", "--results", str(results), "--out", str(results / out)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"relearn scoreboard: --out {results / out}: found a file")
        assert said.endswith("allowed: a folder\n") and said.count("\n") == 1


@pytest.mark.parametrize(
    "page", ["README.md", *(f"src/relearn/studies/{study.name}/README.md" for study in all_studies())]
)
def test_the_tables_of_a_page_are_those_of_the_published_sets(page: str, tmp_path: Path) -> None:
    checkout = Path(__file__).resolve().parents[2]
    (tmp_path / "published").symlink_to(checkout / "results/published")
    board = scoreboard.load(tmp_path, claims.load({study.name: study.reported for study in all_studies()}))
    assert verb.with_blocks(checkout / page, board) == (checkout / page).read_text(encoding="utf-8")
