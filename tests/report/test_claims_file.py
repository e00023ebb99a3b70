"""Damaged claims.json and tables: `relearn compare` and `relearn scoreboard` name the file and the claim in one line, status 3."""

import json
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.report import changes, claims_file, scoreboard

GOOD: dict[str, Any] = {"section": "s", "id": "c", "verdict": "direction", "n": {"seeds": 3}, "effect": 0.5}
HEAD = "artefact,row,column,unit,status,mean,members_count"
CLAIM = "claim s/c: "
DAMAGE: list[tuple[Any, str]] = [
    ("{", "Expecting property name"),
    ("\udcff", "can't decode"),
    ("[" * 100_000, "nested too deeply"),
    ([], "found [], allowed: a mapping with scale and claims"),
    (None, "found nothing, allowed: a mapping with scale and claims"),
    ({"scale": "mini"}, "the key claims is missing"),
    ({"claims": []}, "the key scale is missing"),
    ({"scale": 1, "claims": []}, "scale is 1, allowed: text"),
    ({"scale": "mini", "claims": {}}, "claims is {}, allowed: a list"),
    ([5], "claim 1: found 5, allowed: a mapping"),
    ([GOOD, [GOOD]], "claim 2: found [{"),
    ([{"id": "c"}], "claim 1: the key section is missing"),
    ([{**GOOD, "id": None}], "claim 1: id is nothing, allowed: text"),
    ([{"section": "s", "id": "c"}], CLAIM + "the key verdict is missing"),
    ([{**GOOD, "verdict": "splendid"}], CLAIM + "verdict is 'splendid', allowed: reproduced, direction"),
    ([{**GOOD, "verdict": ["direction"]}], CLAIM + "verdict is ['direction'], allowed: text"),
    ([{**GOOD, "n": None}], CLAIM + "n is nothing, allowed: a mapping"),
    ([{**GOOD, "n": [1]}], CLAIM + "n is [1], allowed: a mapping"),
    ([{**GOOD, "n": {"seeds": "3"}}], CLAIM + "n.seeds is '3', allowed: a whole number"),
    ([{**GOOD, "n": {"targets": 3}}], CLAIM + "n has targets and no victims"),
    ([{**GOOD, "n": {"cases": 5}, "effect": float("nan")}], CLAIM + "effect is nan, allowed: 0 to 1"),
    ([{**GOOD, "effect": "abc"}], CLAIM + "effect is 'abc', allowed: a number or null"),
    ([{**GOOD, "low": True}], CLAIM + "low is True, allowed: a number or null"),
    ([{**GOOD, "high": [1]}], CLAIM + "high is [1], allowed: a number or null"),
    ([{**GOOD, "unit": None}], CLAIM + "unit is nothing, allowed: text"),
    ([{**GOOD, "cost": [1]}], CLAIM + "cost is [1], allowed: a mapping or null"),
    ([{**GOOD, "cost": {"cpu_s": "long"}}], CLAIM + "cost.cpu_s is 'long', allowed: a number or null"),
]


def write(folder: Path, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(content, list) and content:
        content = {"scale": "mini", "claims": content}
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "claims.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    return folder / "claims.json"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main([*words]) == 3
    out, said = capsys.readouterr()
    assert out == "" and said.count("\n") == 1, said
    return said


@pytest.mark.parametrize(("content", "fault"), DAMAGE)
def test_each_damage_is_one_line_of_both_verbs(
    content: Any, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write(tmp_path / "whole/mini", [GOOD])
    torn = write(tmp_path / "mini", content)
    said = refused(capsys, "compare", str(whole.parent), str(torn.parent))
    assert said.startswith(f"relearn compare: {torn}: ") and fault in said
    said = refused(capsys, "scoreboard", "--short", "--results", str(tmp_path))
    assert said.startswith(f"relearn scoreboard: {torn}: ") and fault in said
    assert said.endswith("render it again: relearn render --scale mini\n")


@pytest.mark.parametrize("content", ["[1, 2", '{"scale": "mini", "claims": [{}]}', "[]"])
def test_an_earlier_set_is_read_as_carefully(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "mini", [GOOD])
    torn = write(tmp_path / "published/small_0.7", content)
    said = refused(capsys, "scoreboard", "--results", str(tmp_path))
    assert said.startswith(f"relearn scoreboard: {torn}: ")
    assert not list((tmp_path / "published").glob("score*"))


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (f"{HEAD}\nt,r,c,u,measured,abc,1\n", "line 2: mean is 'abc', allowed: a number or nothing"),
        (f"{HEAD},pooled\nt,r,c,u,measured,1,1,x\n", "line 2: pooled is 'x', allowed: a number or nothing"),
        ("row,column,mean\nr,c,1\n", "line 1: the column artefact is missing"),
        ("artefact,row,column\nt,r,c\n", "line 1: the column mean is missing"),
        (f"{HEAD}\nt,r\n", "line 2: found 2 cells, allowed: 7, as in the header"),
        (f"{HEAD}\n" + "t" * 200_000 + ",r,c,u,measured,1,1\n", "field larger than field limit (131072)"),
        (f"{HEAD}\n\udcff\n", "can't decode"),
        ("artefact,row,column,member,mean\nt,r,c,a,\n", "line 2: mean is '', allowed: a number"),
    ],
)
def test_a_damaged_table_is_named(
    table: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in ("a", "b"):
        write(tmp_path / side, [GOOD])
    file = tmp_path / "b/tables/t.csv"
    file.parent.mkdir()
    file.write_text(table, encoding="utf-8", errors="surrogateescape")
    said = refused(capsys, "compare", str(tmp_path / "a"), str(tmp_path / "b"))
    assert said.startswith(f"relearn compare: {file}: ") and fault in said


def test_a_damaged_parquet_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from relearn.runs import parquet_file

    write(tmp_path / "a", [GOOD])
    file = tmp_path / "a/tables.parquet"
    for damage in ("torn", "foreign"):
        if damage == "torn":
            file.write_bytes(b"PAR1")
        else:
            parquet_file.write(file, {"x": [1]})
        said = refused(capsys, "compare", str(tmp_path / "a"), str(tmp_path / "a"))
        assert said.startswith(f"relearn compare: {file}: "), said


def test_what_was_published_is_sound() -> None:
    published = Path(__file__).resolve().parents[2] / "results/published"
    files = sorted(published.glob("*/claims.json"))
    assert files
    for file in files:
        assert claims_file.read(file)["claims"]
        assert changes.read(file.parent).claims
    assert scoreboard.earlier(published)
