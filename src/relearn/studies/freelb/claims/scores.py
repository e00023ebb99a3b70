"""Scores of fine-tuned encoders by task, method and seed, and whether a task counts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from relearn.report import classified
from relearn.report.artefacts import Where
from relearn.report.quantities import Evidence
from relearn.report.runs import select
from relearn.report.seeds import Sample, sample

STEP, ENCODER = "finetune", "roberta"
NATS = "nats"  # unit of the increases
SCORE, HELD_OUT = "finetune.score_frac", "finetune.held_out_score_frac"
KNOWN = (
    *("rte", "cola", "mrpc", "sst2", "stsb", "qnli", "qqp", "mnli", "wnli"),
    *("imdb", "acceptability", "arc_easy", "arc_challenge", "arc", "csqa", "race", "openbookqa"),
)  # tasks in display order
LOST = {"cola": 0.0, "stsb": 0.0}  # score of a constant answer on tasks whose metric is not accuracy
VANILLA, OURS, FRESH = "vanilla", "freelb", "freelb_fresh"
AGAIN = "_second_encoder"  # end of the label `task` of runs that repeat a task on another encoder; they decide nothing


def trained(task: str, method: str) -> Where:
    """Selects the runs that fine-tune RoBERTa on a task with a method."""
    return {"step": STEP, "encoder": ENCODER, "task": task, "method": method}


def counts(evidence: Evidence, task: str, rivals: Sequence[str] = ()) -> bool:
    """Whether most vanilla runs of a task, and most of at least one of the ``rivals`` with runs, are better than its majority answer."""
    words = outcomes_of(evidence, task, VANILLA)
    ran = [one for one in rivals if outcomes_of(evidence, task, one)]
    return 2 * words.count("ok") > len(words) and not (
        ran and all(failed(evidence, task, one) for one in ran)
    )


def failed(evidence: Evidence, task: str, method: str) -> bool:
    """Whether the method was run on the task and at least half of the runs diverged or are no better than the majority answer."""
    words = outcomes_of(evidence, task, method)
    return bool(words) and 2 * words.count("ok") <= len(words)


def outcomes_of(evidence: Evidence, task: str, method: str) -> list[str]:
    return [word for ends in classified.outcomes(evidence, trained(task, method)).values() for word in ends]


def score(evidence: Evidence, task: str, method: str) -> Sample:
    """Scores by seed; a diverged run without a score gets the score of a constant answer."""
    name, lost = f"{ENCODER}/{task}/{method}", LOST.get(task, "majority_frac")
    apart = held_out(evidence, task)
    return sample(evidence, HELD_OUT if apart else SCORE, trained(task, method), network=name, lost=lost)


def held_out(evidence: Evidence, task: str) -> bool:
    """Whether runs of the task have a score on samples that chose nothing."""
    where = {"step": STEP, "encoder": ENCODER, "task": task}
    return any(HELD_OUT.partition(".")[2] in run.metrics for run in select(evidence.runs, where))


def tasks_with(evidence: Evidence, method: str) -> list[str]:
    """The tasks on which the method was run; tuning runs are ignored."""
    where = {"step": STEP, "encoder": ENCODER, "method": method}
    names = {run.labels["task"] for run in select(evidence.runs, where) if "rate" not in run.labels}
    return ordered({name for name in names if not name.endswith(AGAIN)})


def ordered(tasks: set[str]) -> list[str]:
    return sorted(tasks, key=lambda task: (KNOWN.index(task) if task in KNOWN else len(KNOWN), task))


def summary(evidence: Evidence, task: str, method: str) -> str:
    """Summary of a method's runs, e.g. ``freelb: median score 88.1%; 1 of 5 not converged``; the median is over seeds."""
    one = score(evidence, task, method)
    middle = f"median score {100 * median(one.values.values()):.1f}%" if one.values else "not run"
    return f"{method}: {'; '.join([middle, *classified.lost(outcomes_of(evidence, task, method))])}"


def titled(task: str) -> str:
    """A task's name in a comparison."""
    return task.replace(AGAIN, ", second encoder")


def not_run(evidence: Evidence, printed: Sequence[str], methods: Sequence[str], table: str) -> list[str]:
    """One line with the tasks of a table on which not all of the methods were run; empty if there is none."""
    lacking = [task for task in printed if not all(outcomes_of(evidence, task, method) for method in methods)]
    return [f"no runs of {' and '.join(methods)} on {', '.join(lacking)} (table {table})"] if lacking else []


def left_out(task: str) -> str:
    return f"{task}: left out, because vanilla or the compared runs are not above the majority answer"
