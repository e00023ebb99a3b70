"""What GLUE's server wants: one table a task in a zip without folders (gluebenchmark.com, "How do I use GLUE?").

A table is ``<name>.tsv``: a line ``index<tab>prediction``, then a line a test sample, in order, each with its index in the test file and
the answer in the label words of the task's own files (0 and 1, or words; STS-B: a value from 0 to 5). The server takes a zip only where
all eleven tables are in it, so :func:`write` says which are not. Nothing here sends anything.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from relearn.data.glue.tasks import TASKS

HEADER = "index\tprediction"
LOWEST, HIGHEST = 0.0, 5.0  # STS-B's scale
MIDNIGHT = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can name


@dataclass(frozen=True)
class Sheet:
    """A table of the submission: its file, how many test samples it answers, its label words (class 0 first; none: a value)."""

    name: str
    count: int
    words: tuple[str, ...]


def _sheet(name: str, task: str, part: str = "test") -> Sheet:
    return Sheet(name, TASKS[task].counts[part][0], TASKS[task].words)


SHEETS = {
    "cola": _sheet("CoLA.tsv", "cola"),
    "sst2": _sheet("SST-2.tsv", "sst2"),
    "mrpc": _sheet("MRPC.tsv", "mrpc"),
    "stsb": _sheet("STS-B.tsv", "stsb"),
    "qqp": _sheet("QQP.tsv", "qqp"),
    "mnli": _sheet("MNLI-m.tsv", "mnli"),
    "mnli_mismatched": _sheet("MNLI-mm.tsv", "mnli", "test_mismatched"),
    "qnli": _sheet("QNLI.tsv", "qnli"),
    "rte": _sheet("RTE.tsv", "rte"),
    "wnli": _sheet("WNLI.tsv", "wnli"),
    "ax": _sheet("AX.tsv", "ax"),
}


def table(task: str, answers: Mapping[str, float], *, official: bool = True) -> str:
    """One table of the submission.

    Args:
        task: a key of ``SHEETS``; ``mnli`` is the matched test part, ``mnli_mismatched`` the other.
        answers: for each test sample's id (as :func:`relearn.data.glue.load` gives them; of a ranking, what
            :func:`relearn.measures.glue_scores.entailment_answers` gives) its class, or for ``stsb`` its value: what lies outside 0 to 5
            is moved to the nearer end, three digits are kept.
        official: whether all samples of the test part must be answered, as the server wants it; otherwise those that are there.

    Raises:
        ValueError: an unknown task, an id that is no number, samples that are missing or too many, an answer that is no class of the
            task's, or is not finite.
    """
    if task not in SHEETS:
        raise ValueError(f"task: {task} (allowed: {', '.join(SHEETS)})")
    sheet = SHEETS[task]
    for name in answers:
        if not (name.isascii() and name.isdecimal() and str(int(name)) == name):
            raise ValueError(f"{sheet.name}: id {name!r} (allowed: a test sample's index)")
    order = sorted(answers, key=int)
    if official and order != [str(index) for index in range(sheet.count)]:
        raise ValueError(
            f"{sheet.name}: {len(order)} answers (allowed: {sheet.count}, 0 to {sheet.count - 1})"
        )
    lines = [f"{name}\t{_word(sheet, name, answers[name])}" for name in order]
    return "\n".join([HEADER, *lines]) + "\n"


def write(path: Path, answers: Mapping[str, Mapping[str, float]], *, official: bool = True) -> list[str]:
    """Write the zip: the same answers are the same bytes, everywhere. Nothing in it is packed, for packers differ.

    Args:
        path: of the zip.
        answers: for each task that is answered, what :func:`table` takes.
        official: see :func:`table`.

    Returns:
        The names of the tables that a whole submission has besides.

    Raises:
        ValueError: see :func:`table`; no task.
        OSError: it cannot be written.
    """
    if not answers:
        raise ValueError(f"answers: no task (allowed: {', '.join(SHEETS)})")
    tables = {task: table(task, given, official=official) for task, given in answers.items()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for task in SHEETS:
            if task in tables:
                member = zipfile.ZipInfo(SHEETS[task].name, MIDNIGHT)
                member.create_system, member.external_attr = 3, 0o644 << 16
                archive.writestr(member, tables[task])
    path.write_bytes(packed.getvalue())
    return [sheet.name for task, sheet in SHEETS.items() if task not in tables]


def _word(sheet: Sheet, name: str, answer: float) -> str:
    if not math.isfinite(answer):
        raise ValueError(f"{sheet.name}: {answer} for {name} (allowed: a finite value)")
    if not sheet.words:
        return f"{min(max(LOWEST, answer), HIGHEST):.3f}"
    if answer != int(answer) or not 0 <= answer < len(sheet.words):
        raise ValueError(f"{sheet.name}: class {answer} for {name} (allowed: 0 to {len(sheet.words) - 1})")
    return sheet.words[int(answer)]
