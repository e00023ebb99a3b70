"""LaTeX tables that fit the page and hold nothing that pdflatex cannot read."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from relearn.cli.docs import ROOT
from relearn.report import latex
from relearn.report.site.published import Table, table

WHOLE = re.compile(r"\\begin\{tabular\}\{([^\n]*)\}\n\\toprule\n(.*?)\\bottomrule", re.DOTALL)


def published() -> dict[str, Table]:
    """Every table of the published scales."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "results/published").glob("*/tables/*.md")]
    for path in (ROOT / "results/published").glob("*/tables.md"):
        texts += re.split(r"\n(?=#+ [\w.]+: )|\n<a id=.*\n", path.read_text(encoding="utf-8"))
    return dict(filter(None, map(table, texts)))


def made(name: str, one: Table) -> str:
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
