"""Submission files for GLUE's server: one table per task in a zip without folders (gluebenchmark.com, "How do I use GLUE?").

A table is ``<name>.tsv``: a line ``index<tab>prediction``, then one line per test sample, in order, with its index in the test file and the
answer in the label words of the task's files (0 and 1, or words; STS-B: a value from 0 to 5). The server only accepts a zip with all eleven
tables, so :func:`write` returns the missing ones. Nothing is sent from here.
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
MIDNIGHT = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can represent


@dataclass(frozen=True)
class Sheet:
    """A table of the submission: its file, the number of test samples, and its label words (class 0 first; none: a value)."""

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
        answers: the class of each test sample by id (as in :func:`relearn.data.glue.load`; for a ranking, the result of
            :func:`relearn.measures.glue_scores.entailment_answers`), or its value for ``stsb``, which is clipped to 0 to 5 and rounded
            to three digits.
        official: whether all samples of the test part must be answered, as the server requires; otherwise only those given.

    Raises:
        ValueError: an unknown task, an id that is not a number, missing or additional samples, or an answer that is not a class of the
            task or not finite.
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
    """Write the zip. It is not compressed, so that equal answers give equal bytes on all platforms.

    Args:
        path: path of the zip.
        answers: for each answered task, the argument of :func:`table`.
        official: see :func:`table`.

    Returns:
        The names of the tables missing for a complete submission.

    Raises:
        ValueError: see :func:`table`; no task.
        OSError: the file cannot be written.
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
