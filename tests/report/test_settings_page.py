"""Printed settings compared with params/paper.yaml: each is looked up once, and each difference is reported and explained."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from relearn.report import settings_page as page
from relearn.report.deviations import Published, read
from relearn.report.settings_page import ABSENT, DIFFERS, EQUAL

from .conftest import FOLDERS, values_of

PAPER = read(Path(__file__).parents[2] / "params/paper.yaml")
HEADER = "artefact,row,column,metric,unit,direction,value,spread,spread_kind,n_runs,outcome,note\n"
NOTE = '"hyper-parameter, not a result{}"'


def written(folder: Path, printed: dict[tuple[str, str], float | str], rows: dict, columns: dict) -> Path:
    lines = [
        f"a.table1,{row},{column},hyperparameter,none,none,"
        + (
            f",,,,ok,{NOTE.format('; printed value: ' + said)}"
            if isinstance(said, str)
            else f"{said},,,,ok,{NOTE.format('')}"
        )
        for (row, column), said in printed.items()
    ]
    (folder / "published.csv").write_text(HEADER + "\n".join(lines) + "\n")
    tables = {"a.table1": {"title": "Training", "rows": rows, "columns": columns}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(tables))
    return folder


def found(folder: Path, values: dict, printed: dict, rows: dict, columns: dict) -> dict[str, page.Setting]:
    (table,) = page.load({"a": written(folder, printed, rows, columns)}, Published(values=values, sources={}))
    return {one.column: one for one in table.settings}


def test_every_printed_setting_is_there_once_and_what_differs_is_explained() -> None:
    tables = page.load(FOLDERS, PAPER)
    assert [table.id for table in tables] == ["qi2023.table6", "ye2023.table1"]
    for table in tables:
        values = values_of(f"{table.id}")
        assert [(one.row, one.column) for one in table.settings] == [(v.row, v.column) for v in values]
        assert all(one.printed for one in table.settings)
        assert all(one.note for one in table.settings if one.verdict == DIFFERS)
        assert all(one.note for one in table.settings if one.verdict == ABSENT), "a key that nobody has"
    # the recipe stands in params/paper.yaml, so most of what is run must be found there
    for table, least in zip(tables, (64, 24)):  # of 76 and 27
        assert sum(one.verdict == EQUAL for one in table.settings) >= least
        rows = {one.row for one in table.settings}
        assert {one.row for one in table.settings if one.verdict == EQUAL} == rows, "a row that is not run"


def test_a_changed_value_of_the_published_settings_is_reported() -> None:
    before = [one.verdict for table in page.load(FOLDERS, PAPER) for one in table.settings]
    for key, told in (
        ("lipsformer.grid.sizes.L.betas", 2),
        ("lipsformer.grid.sizes.S.lr", 1),
        ("lrformer.grid.depths", 3),
        ("lrformer.train.epochs", 3),
        ("lrformer.grid.optimisers.depth_6.optimizer", 1),
        ("lrformer.grid.optimisers.depth_12.weight_decay", 1),
    ):
        value = PAPER.values[key]
        other = [7.0, 7.0] if isinstance(value, list) else "lion" if isinstance(value, str) else 3.5 * value
        changed = replace(PAPER, values={**PAPER.values, key: other})
        after = [one.verdict for table in page.load(FOLDERS, changed) for one in table.settings]
        assert [b for a, b in zip(before, after) if a != b] == [DIFFERS] * told, key
        lacking = replace(PAPER, values={k: v for k, v in PAPER.values.items() if k != key})
        after = [one.verdict for table in page.load(FOLDERS, lacking) for one in table.settings]
        assert [b for a, b in zip(before, after) if a != b] == [ABSENT] * told, key


def test_numbers_words_products_entries_and_lists(tmp_path: Path) -> None:
    printed = {
        ("T", "rate"): 1e-3,
        ("T", "beta"): 0.99,
        ("T", "depth"): 12,
        ("T", "optimizer"): "AdamW",
        ("T", "clip"): 0.0,
        ("T", "word"): 1.0,
        ("T", "none"): 3.0,
        ("T", "gone"): 3.0,
    }
    values = {"s.lr": 2e-3, "s.T.lr": 0.5, "s.betas": [0.9, 0.99], "s.depths": [6, 12], "s.o": "adamw"}
    columns = {
        "rate": {"keys": ["s.lr", "s.{row}.lr"]},
        "beta": {"keys": ["s.betas"], "index": 1},
        "depth": {"keys": ["s.depths"], "among": True},
        "optimizer": {"keys": ["s.o"]},
        "clip": {"keys": ["s.clip"]},
        "word": {"keys": ["s.o"]},
        "none": {"keys": [], "note": "ours has none"},
        "gone": {"keys": ["s.{row}.gone"]},
    }
    one = found(tmp_path, values | {"s.clip": None}, printed, {"T": "T"}, columns)
    assert {name: setting.verdict for name, setting in one.items()} == {
        **dict.fromkeys(("rate", "beta", "depth", "optimizer"), EQUAL),
        **dict.fromkeys(("clip", "word"), DIFFERS),
        **dict.fromkeys(("none", "gone"), ABSENT),
    }
    assert (one["rate"].printed, one["rate"].here, one["rate"].keys) == ("0.001", "0.001", ("s.lr", "s.T.lr"))
    assert (one["clip"].here, one["gone"].keys, one["none"].note) == ("null", ("s.T.gone",), "ours has none")
    false = found(tmp_path, values | {"s.clip": False}, printed, {"T": "T"}, columns)
    assert false["clip"].verdict == DIFFERS, "false is no nought"
    other = found(tmp_path, values, printed, {"T": None}, columns)
    assert {(o.verdict, o.here, o.note) for o in other.values()} == {(ABSENT, "", "this row is not run here")}


def test_the_page_counts_and_shows_all(tmp_path: Path) -> None:
    columns = {"a|b": {"keys": ["k"]}, "c": {"keys": ["none"], "note": "why"}}
    tables = page.load(
        {"a": written(tmp_path, {("T", "a|b"): 1.0, ("T", "c"): 2.0}, {"T": ""}, columns)},
        Published({"k": 1}, {}),
    )
    text = page.markdown(tables)
    assert "## a.table1: Training" in text and "1 equal, 0 differs, 1 not in params." in text
    assert "| T | a\\|b | 1 | 1 | equal | k |" in text
    assert "| T | c | 2 | - | not in params | none; why |" in text


@pytest.mark.parametrize(
    ("rows", "columns", "said"),
    [
        (
            {"S": "S"},
            {"lr": {"keys": []}},
            "settings.yaml: a.table1: rows: no T; allowed: all that published.csv",
        ),
        ({"T": "T"}, {"rate": {"keys": []}}, "a.table1: columns: no lr"),
        ({"T": "T"}, {"lr": {"key": []}}, "a.table1: lr: key; allowed: keys and"),
        ({"T": "T"}, {"lr": {"note": "x"}}, "a.table1: lr: keys; allowed: keys and"),
    ],
)
def test_what_is_missing_or_unknown_is_refused(tmp_path: Path, rows: dict, columns: dict, said: str) -> None:
    folder = written(tmp_path, {("T", "lr"): 1.0}, rows, columns)
    with pytest.raises(ValueError, match=said):
        page.load({"a": folder}, Published({}, {}))
    (folder / "settings.yaml").write_text("a.table1: {title: x, rows: {}}")
    with pytest.raises(ValueError, match="table1: found title, rows; allowed: title, rows, columns"):
        page.load({"a": folder}, Published({}, {}))
