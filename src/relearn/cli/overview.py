"""The text of `relearn --help`: every verb and every step, one line each.

The line of a command is the first sentence of its module's docstring, read without importing the module.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

from relearn.studies.study import Study

PACKAGE = Path(__file__).resolve().parents[1]

HEAD = """\
usage: relearn VERB [...]    relearn STUDY STEP --settings JSON --out FOLDER [...]

Re-run published experiments and keep every number next to the published one. Five things to do:

  relearn reproduce all                run everything at the scale in params.yaml; what is finished stays
  relearn list; relearn list tables    papers, chapters, tables, figures, claims, and what is there of each
  relearn reproduce table2.2           run only what one of them needs, and print it (also: kim2020, fig4.4, claim:NAME)
  relearn validate; snakemake -n       after an edit of params.yaml: is it sound, and what will run again?
  relearn open; relearn ui             the report in a browser; every run, with its curves, in MLflow

`relearn VERB --help` and `relearn STUDY STEP --help` say more; `relearn --version` prints the version.
"""
COLUMNS = 118
STEPS = "Steps by study: the pipeline calls them, one run per call; by hand they repeat a single run."


def text(verbs: Iterable[str], studies: Iterable[Study]) -> str:
    """Return the overview.

    Args:
        verbs: names of the verbs.
        studies: the studies whose steps are listed.
    """
    lines = [
        HEAD,
        "Verbs:",
        *(_line(verb, f"relearn.cli.{verb.replace('-', '_')}") for verb in verbs),
        "",
        STEPS,
    ]
    for study in studies:
        lines += [f"  {study.name} ({study.source}): {study.title}"]
        lines += [_line(step, module) for step, module in study.steps.items()]
    return "\n".join(lines) + "\n"


def _line(command: str, module: str) -> str:
    return f"    {command:<28}{textwrap.shorten(summary(module), COLUMNS - 32, placeholder=' ...')}"


def summary(module: str) -> str:
    """Return the first sentence of a module's docstring, without the command's name in front and without a capital."""
    paragraph = " ".join(docstring(module).split("\n\n")[0].split())
    first = re.split(r"(?<=[.?])\s", paragraph)[0].rstrip(".")
    first = re.sub(r"^`?(relearn )?[\w-]+`?: ", "", first)
    return first[0].lower() + first[1:]


def docstring(module: str) -> str:
    """Return the docstring of a module, read without importing it."""
    source = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    return ast.get_docstring(ast.parse(source.read_bytes())) or ""
