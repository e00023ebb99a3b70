"""Docstrings written for Sphinx read well in Markdown."""

import ast
import re

import pytest

pytest.importorskip("griffe", reason="needs the extra docs")

from relearn.cli.docs import ROOT
from relearn.report.site.api import ROOMS
from relearn.report.site.docstrings import markdown

TABLE = """Head.

======  =========
symbol  meaning
======  =========
a|b     a or b
======  =========

Tail."""


def test_a_table_becomes_one_of_pipes() -> None:
    assert markdown(TABLE) == "Head.\n\n| symbol | meaning |\n|---|---|\n| a\\|b | a or b |\n\nTail."


def test_roles_become_code_and_formulas_mathml() -> None:
    made = markdown("See :func:`~relearn.maths.f` and :math:`x_1^2`.\n\n.. math:: a \\le b\n\nThen ``c``.")
    assert made.startswith("See `relearn.maths.f` and <math") and made.endswith("\n\nThen `c`.")
    assert "<msubsup>" in made and 'class="formula"' in made and "_" not in made and "*" not in made


def test_no_docstring_of_the_library_keeps_a_directive_and_every_formula_is_read() -> None:
    formulas = 0
    for room in ROOMS:
        for path in (ROOT / "src/relearn" / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
                    told := ast.get_docstring(node)
                ):
                    made = markdown(told)
                    formulas += made.count("<math")
                    assert not re.search(r":[a-z]+:`|\.\. math|^ *=+ +=", made, re.MULTILINE), path
                    assert not re.search(r"`\\[a-z]", made), (path, "a formula that was not read")
    assert formulas > 300
