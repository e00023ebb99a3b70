"""The words for a job, for what went wrong in it, and for what Snakemake itself refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LABELS = 60  # characters
ERROR, LINE = 300, 500
CALL = re.compile(r"\s*relearn (\w+) (\w+) --settings ")
FRAME = re.compile(
    r'^(?:\w+(?: in rule \w+)? in file ".*", line \d+:|  File ".*", line \d+, in .*)$', re.MULTILINE
)


TRACE = "Traceback (most recent call last):"
RAISED = re.compile(r"[\w.]+(?:Error|Exception)\b")


def step_of(rule: str, command: str | None) -> str:
    """``<study>/<step>``, or the rule's name where its command is no run."""
    found = CALL.match(command or "")
    return "/".join(found.groups()) if found else rule


def name_of(step: str, wildcards: Mapping[str, str]) -> str:
    """A job in one line: its step and its labels, cut in the middle where they are long."""
    labels = [f"seed {value}" if key == "seed" else str(value) for key, value in (wildcards or {}).items()]
    text = " ".join(labels)
    if len(text) > LABELS:
        text = f"{text[: LABELS // 2 - 2]} … {text[-(LABELS // 2 - 2) :]}"
    return f"{step} {text}".rstrip()


def error_of(logs: Sequence[str], queue: str | None = None) -> str:
    """Why a job failed: the last line of its log, or else what the queue says of it."""
    for log in logs:
        path = Path(log)
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
            found = [line.strip() for line in lines if line.strip()]
            if found:
                return found[-1][:ERROR]
    if said := " ".join((queue or "").partition("For further error details")[0].split()):
        return said[:ERROR]
    if not any(Path(log).exists() for log in logs):
        return "it never started: a queue may have refused what it asks for (see `scontrol show job`)"
    return "it ended without a word; was it killed? (see the kernel's messages, and `relearn recover`)"


def refusal(text: str) -> str:
    """Snakemake's report of an error without the places in rule files: what a person can act on.

    Each fault of the parameters keeps its line; everything else is one line. The class of the error stays in front where it says
    more than that a value is wrong.
    """
    kind = re.match(r"\w+", text)
    name = kind[0] if kind else ""
    lines = [" ".join(line.split()) for line in FRAME.sub("", text).split("\n")]
    if name in FAULTS:
        return "\n".join(line for line in lines if line)
    rest = " ".join(line for line in lines if line)
    if found := unknown_run(rest):
        return found if len(found) <= LINE else f"{found[:LINE]} …"
    if TRACE in text and (raised := [line for line in lines if RAISED.match(line)]):
        rest = raised[-1]
    if name.endswith(("Exception", "Error")) and name not in PLAIN and not rest.startswith(name):
        rest = f"{name}: {rest}"
    hint = next((f" {said}" for mark, said in HINTS.items() if mark in rest), "")
    return (rest if len(rest) <= LINE else f"{rest[:LINE]} …") + hint


def unknown_run(text: str) -> str:
    """What is wrong with the path of a run whose labels a plan does not know; "" for another error.

    Args:
        text: Snakemake's report of an error in a function of a rule, without line breaks.
    """
    found = re.search(r"Error: (\w+): (.*?) Wildcards: (.*?) Traceback:", text)
    if found is None or found[1] not in ("KeyError", "ValueError"):
        return ""
    why = f"unknown value {found[2]}" if found[1] == "KeyError" else found[2]
    return f"no run has {found[3]}: {why}"


def fault_of_parameters() -> str:
    """What is wrong with params.yaml, with file and line; "" where nothing is.

    Snakemake reads the file first, and says no more than that it is not YAML.
    """
    from relearn.studies import parameters

    try:
        parameters.load("params.yaml")
    except ValueError as error:
        return "; ".join(str(error).split("\n"))
    return ""


GATHER = ("all", "render_all", "total")  # rules that run nothing
HINTS = {
    ".snakemake/locks/": "Another Snakemake was ending here at the same moment: the same command goes on. `relearn recover` says.",
    "cannot be locked": "`relearn recover` says who holds the lock, and clears one that nobody holds.",
    "a concurrent process has deleted": "Does another Snakemake run here? `relearn recover` says.",
    "IncompleteFilesException": "profiles/default makes them again; with another profile: --rerun-incomplete.",
}
FAULTS = ("ValueError", "ParamsError")
PLAIN = ("FileNotFoundError", "WorkflowError", "RuleException")


def by_study(stats: Mapping[str, int], studies: Sequence[str]) -> str:
    """How many jobs each study has: ``poisoning 190, gradinit 220, render 1``.

    Args:
        stats: Snakemake's count of jobs by rule, ``total`` among them.
        studies: their names.
    """
    counts: dict[str, int] = {}
    for rule, count in stats.items():
        study = next((name for name in studies if rule.startswith(f"{name}_")), None)
        if study or rule not in (*studies, *GATHER):
            name = study or rule
            counts[name] = counts.get(name, 0) + count
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def lines_of(value: Any) -> list[str]:
    """The lines of a message."""
    return str(value).strip("\n").split("\n")
