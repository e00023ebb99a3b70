"""Tables as text, CSV, Markdown and LaTeX that fits the page and holds nothing that pdflatex cannot read."""

import csv
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relearn.cli.docs import ROOT
from relearn.report import artefacts, latex, table, table_formats
from relearn.report.runs import Run
from relearn.report.site import published as published_tables

from .conftest import every_artefact

CP = every_artefact()["zhu2022.table2.2"]
NASTY = r"50% & more_of #1 {x} ~ ^ $y$ \alpha | <b>"


@pytest.fixture(scope="module")
def cells(evidence):
    return table.build(CP, evidence)


def one(cells, row, column):
    return next(c for c in cells if (c.row.id, c.column.id) == (row, column))


def test_cells_as_text(cells):
    measured = one(cells, "none", "defence_success")
    assert table_formats.text(replace(measured, mean=0.98765, spread=0.0123)) == "98.8 ± 1.2 (4)"
    assert table_formats.text(replace(measured, spread=None, members={"a": [1.0]})) == "50.0 (1)"
    assert table_formats.text(replace(measured, diverged=2)) == "50.0 ± 0.0 (4) [2 diverged]"
    assert table_formats.text(replace(one(cells, "deep_knn", "mcc"), mean=0.12345)) == "0.123 ± 0.000 (4)"
    assert table_formats.text(replace(measured, status="not_run")) == "not run"
    assert table_formats.text(one(cells, "none", "mcc")) == "n/a"
    effective = replace(
        one(cells, "none", "defence_success_effective"), mean=0.5, spread=None, members={"a": [1.0]}, trials=7
    )
    assert table_formats.text(effective) == "50.0 (1, 7 attacks)"


def test_a_sentence_of_the_caption_names_where_it_holds(cells):
    shown = cells[:6]
    assert table_formats._stated(shown, ["rate 1"] * 6) == "Rate 1."
    assert table_formats._stated(shown, [""] * 6) == ""
    by_column = table_formats._stated(shown, [f"rate {cell.column.id == 'mcc'}" for cell in shown])
    assert by_column == "MCC: rate True; all others: rate False."
    twice = [*shown, *(replace(cell, row=replace(cell.row, title="B")) for cell in shown)]
    assert table_formats._stated(twice, ["1"] * 6 + ["2"] * 6) == f"{shown[0].row.title}: 1; B: 2."


def test_paper_shows_a_dash_and_the_published_code_its_value(cells):
    header, lines = table_formats.header_and_rows(CP, cells)
    row = dict(zip(header, next(line for line in lines if line[0] == "One-class SVM")))
    assert (row["Paper"], row["Published code"]) == ("-", "29.9")
    assert row["Deviation"] == "-29.9"
    assert all(len(line) == len(header) for line in lines)


def test_csv_keeps_every_digit_and_the_runs(cells, tmp_path):
    changed = [replace(c, mean=1 / 3) if c.mean is not None else c for c in cells]
    changed[-1] = table.Cell(changed[-1].row, changed[-1].column, "not_run")
    table_formats.write(CP, changed, tmp_path)
    with (tmp_path / f"{CP.id}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(cells)
    measured = [row for row in rows if row["status"] == "measured"]
    assert all(float(row["mean"]) == 1 / 3 for row in measured)
    assert all(row["runs"].startswith("runs/poisoning/") for row in measured)
    lacking = [row for row in rows if row["status"] == "not_run"]
    assert lacking and all(row["mean"] == "" and row["runs"] == "" for row in lacking)


def test_one_line_a_victim(cells, tmp_path):
    table_formats.write(CP, cells, tmp_path)
    with (tmp_path / f"{CP.id}.victims.csv").open(newline="") as file:
        rows = [
            r
            for r in csv.DictReader(file)
            if (r["row"], r["column"]) == ("none", "defence_success_effective")
        ]
    assert [row["member"] for row in rows] == [
        "SENet18",
        "MobileNetV2",
        "ResNet18",
        "DenseNet121",
    ]  # the paper's order
    assert {row["runs"].split("/")[-2] for row in rows} == {row["member"] for row in rows}
    assert [float(row["published_code"]) for row in rows] == [0, 0, 0, 0]


def test_latex_escapes_what_it_would_run(cells):
    nasty = replace(CP.rows[0], title=NASTY)
    artefact = replace(CP, title=NASTY, rows=(nasty, *CP.rows[1:]))
    made = table_formats.latex(artefact, [replace(c, row=nasty) if c.row is CP.rows[0] else c for c in cells])
    escaped = r"50\% \& more\_of \#1 \{x\}"
    parts = made.count(r"\begin{tabular}")
    assert parts > 1 and made.count(escaped) == parts + 2 + (
        parts - 1
    )  # cells, title, caption, later captions
    assert r"\$y\$" in made and r"\textbackslash" in made
    body = re.sub(r"\\[$%&]", "", made)
    assert "$" not in body.replace("{%\n", "{\n") and not re.search(r"%(?!\n)", body)


def test_markdown_keeps_its_columns(cells):
    nasty = replace(CP.rows[0], title="a | b")
    artefact = replace(CP, rows=(nasty, *CP.rows[1:]))
    made = table_formats.markdown(
        artefact, [replace(c, row=nasty) if c.row is CP.rows[0] else c for c in cells]
    )
    lines = [line for line in made.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


# LaTeX of every published table -------------------------------------------------------------------------------------


WHOLE = re.compile(r"\\begin\{tabular\}\{([^\n]*)\}\n\\toprule\n(.*?)\\bottomrule", re.DOTALL)


def published() -> dict[str, published_tables.Table]:
    """Every table of the published scales."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "results/published").glob("*/tables/*.md")]
    for path in (ROOT / "results/published").glob("*/tables.md"):
        texts += re.split(r"\n(?=#+ [\w.]+: )|\n<a id=.*\n", path.read_text(encoding="utf-8"))
    return dict(filter(None, map(published_tables.table, texts)))


def made(name: str, one: published_tables.Table) -> str:
    return latex.table(name, one.title, one.caption, one.header, one.lines)


def test_every_published_table_fits_and_is_ascii() -> None:
    tables = published()
    assert len(tables) > 50
    for name, one in tables.items():
        text = made(name, one)
        assert text.isascii() and text.count("{") - text.count(r"\{") == text.count("}") - text.count(
            r"\}"
        ), name
        names = 2 if one.header[1] == "Measure" else 1
        seen = []
        for form, body in WHOLE.findall(text):
            columns = len(re.findall(r"p\{\d+pt\}|r", form))
            rows = [line for line in body.splitlines() if line.endswith(r"\\")]
            assert len(rows) == len(one.lines) + 1, name
            assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}, name
            seen.append(columns - names)
        assert sum(seen) == len(one.header) - names, f"{name}: a column is lost"
        assert text.count(r"\label{") == 1 and text.count(r"\addtocounter{table}{-1}") == len(seen) - 1


def test_parts_are_as_wide_as_the_text_at_most_and_keep_what_belongs_together() -> None:
    header = ["Method", *["Rate", "Paper", "Deviation"] * 8]
    widths = [100.0, *[40.0] * 24]
    parts = latex.blocks(header, widths, 1)
    assert [at for part in parts for at in part] == list(range(1, 25))
    assert all(sum(widths[at] for at in part) + 100 <= latex.TEXT for part in parts)
    assert all(len(part) % 3 == 0 and header[part[0]] == "Rate" for part in parts)
    assert latex.blocks(["x", "y", "z"], [50, 50, 50], 1) == [[1, 2]]


def test_what_latex_would_run_is_escaped_and_an_unknown_letter_is_named() -> None:
    assert latex.escape("50% & α_2 ± ~^\\ {x} ö") == (
        r"50\% \& \ensuremath{\alpha}\_2 \ensuremath{\pm} \textasciitilde{}\textasciicircum{}\textbackslash{} \{x\} "
        + r"\"o"
    )
    with pytest.raises(ValueError, match="found '字'"):
        latex.escape("字")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_every_published_table_compiles_within_the_text(tmp_path: Path) -> None:
    body = "\n\\clearpage\n".join(made(name, one) for name, one in published().items())
    head = "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}\n"
    (tmp_path / "all.tex").write_text(f"{head}{body}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, errors="replace"
    )
    assert done.returncode == 0, done.stdout[-2000:]
    wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", done.stdout)]
    assert max(wide, default=0.0) < 5


def test_a_caption_names_the_data_behind_the_runs_and_the_machines_behind_their_costs() -> None:
    """A preparing run's data set is found through two steps of inputs; a table without costs names no machine."""

    def run(folder: str, machine: str = "one", **more: Any) -> Any:
        fields = {"settings": {}, "labels": {}, "record": {"inputs": {}}, "step": "initialise"} | more
        sources = Run(fields["record"], folder).sources
        return SimpleNamespace(
            folder=folder, machine=machine, matches=lambda where: "made" in folder, sources=sources, **fields
        )

    def reads(folder: str) -> dict[str, Any]:
        return {"inputs": {"data": [{"path": f"/there/results/mini/{folder}/file"}]}}

    known = [
        run("runs/s/prepare/text", settings={"dataset": "python"}, labels={"task": "text"}),
        run("runs/s/prepare/unread", settings={"dataset": "cifar10"}),
        run("runs/s/split", record=reads("runs/s/prepare/text")),
        run("runs/s/made/0", record=reads("runs/s/split")),
        run("runs/s/made/1", machine="two", record=reads("runs/s/split")),
    ]
    loaded = every_artefact()
    costs = replace(loaded["addition.gradinit_cost"], caption="A caption.")
    said = artefacts.expand_rows(costs, known).caption
    assert said == (
        "A caption. Machines: one, two. Costs on different machines do not compare. Data here: text: python."
    )
    assert (
        artefacts.expand_rows(costs, known[:-1]).caption
        == "A caption. Machines: one. Data here: text: python."
    )
    untimed = [*known[:-1], run("runs/s/made/1", machine="two", step="train_from_init")]
    assert "Machines: one. " in artefacts.expand_rows(costs, untimed).caption
    free = replace(loaded["zhu2022.table4.1"], caption="A caption.")
    assert artefacts.expand_rows(free, known).caption == "A caption. Data here: text: python."
    assert artefacts.expand_rows(free, known[:3]).caption == "A caption."


def test_latex_keeps_signs_that_the_default_encoding_would_change():
    found = latex.escape('2w <= 256, a > b | "c"')
    assert found == r"2w \textless{}= 256, a \textgreater{} b \textbar{} ''c''"
