"""Snakemake's log records in, lines for a person out."""

import io
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_relearn import foresight, story
from snakemake_logger_plugin_relearn.story import JOBS_WRITE_TO, Story

WALL = ", ".join(f"results/mini/runs/{n}/record.json" for n in range(300))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Engine:
    """Snakemake's log events, on a clock that only advances on request."""

    def __init__(self, stream: io.StringIO, **settings: Any) -> None:
        values = dict(quiet=None, dryrun=False, stdout=False, verbose=False, debug_dag=False)
        values |= dict(printshellcmds=False, show_failed_logs=True, nocolor=True)
        self.stream, self.now = stream, 0.0
        self.story = Story(SimpleNamespace(**{**values, **settings}), stream, lambda: self.now)

    def log(self, message: str | None, level: int = logging.INFO, **fields: Any) -> None:
        record = logging.makeLogRecord({"msg": str(message), "levelno": level, **fields})
        self.story.tell(record)

    def plan(self, **stats: int) -> None:
        self.log("Building DAG of jobs...")
        self.log("Provided cores: 1", event=LogEvent.RESOURCES_INFO, cores=1)
        self.log(
            "Job stats:\n" + WALL, event=LogEvent.RUN_INFO, stats={**stats, "total": sum(stats.values())}
        )

    def begin(self, number: int, rule: str = "poisoning_train", log: str = "a.log", **labels: str) -> None:
        study, _, step = rule.partition("_")
        command = f"relearn {study} {step} --settings '{{}}' --input x {WALL}" if step else None
        self.log(
            "Rule",
            event=LogEvent.JOB_INFO,
            jobid=number,
            rule_name=rule,
            input=[WALL],
            output=[f"results/mini/runs/{number}/record.json"],
            log=[log],
            wildcards=labels,
            reason=f"Missing output files: {WALL}; Code has changed since last execution",
            shellcmd=command,
        )
        self.log(command, event=LogEvent.SHELLCMD, shellcmd=command)

    def finish(self, number: int, at: float) -> None:
        self.now = at
        self.log(f"Finished jobid: {number}", event=LogEvent.JOB_FINISHED, job_id=number)
        self.log(None, event=LogEvent.PROGRESS, done=1, total=4)

    def fail(self, number: int, log: str, rule: str = "poisoning_train", said: str | None = None) -> None:
        study, _, step = rule.partition("_")
        self.log(
            f'RuleException:\nCalledProcessError in file "run.smk", line 9:\nCommand {WALL} returned 2',
            logging.ERROR,
            event=LogEvent.ERROR,
            exception="RuleException",
        )
        self.log(
            f"Error in rule {rule}",
            logging.ERROR,
            event=LogEvent.JOB_ERROR,
            jobid=number,
            rule_name=rule,
            rule_msg=said,
            log=[f"{log} (check log file(s) for error details)"],
            shellcmd=f"relearn {study} {step} --settings '{{}}'",
        )

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Engine]:
    monkeypatch.setenv(JOBS_WRITE_TO, "terminal")  # given back afterwards
    monkeypatch.setattr(foresight, "FORECAST", {})
    monkeypatch.setattr(story, "FORECAST", {})
    monkeypatch.setattr("sys.argv", ["snakemake", "--cores", "all", "--config", "scale=small", "poisoning"])
    return lambda stream=None, **settings: Engine(stream or io.StringIO(), **settings)


def test_a_job_is_one_line_with_the_time_left_and_nothing_of_the_wall(engine: Callable[..., Engine]) -> None:
    run = engine()
    run.plan(poisoning_train=2, gradinit_learn=1, render=1, all=1)
    run.begin(1, attack="convex_polytope", seed="0")
    run.finish(1, 10.0)
    run.begin(2, attack="clean", seed="1")
    run.finish(2, 20.0)
    run.begin(9, "all")
    run.finish(9, 20.0)
    assert run.lines == [
        "4 jobs: poisoning 2, gradinit 1, render 1",
        "1 of 4  poisoning/train convex_polytope seed 0  10.0 s  (about 30 s left)",
        "2 of 4  poisoning/train clean seed 1  10.0 s  (about 20 s left)",
    ]


def test_long_labels_are_cut_and_the_line_stays_short(engine: Callable[..., Engine]) -> None:
    run = engine()
    run.plan(poisoning_train=1)
    run.begin(1, variant="x" * 300, seed="7")
    run.finish(1, 1.0)
    assert len(run.lines[-1]) < 120 and run.lines[-1].endswith("seed 7  1.0 s")


def test_a_failure_names_the_job_its_error_its_log_and_the_command_that_goes_on(
    engine: Callable[..., Engine], tmp_path: Path
) -> None:
    log = tmp_path / "one.log"
    log.write_text(f"Traceback\n  {WALL}\nrelearn poisoning train: data.csv: torn or edited\n\n")
    run = engine()
    run.plan(poisoning_train=3, all=1)
    run.begin(1, log=str(log), seed="0")
    run.now = 2.5
    run.fail(1, str(log))
    run.log("Removing output files of failed job poisoning_train since they might be corrupted:\n" + WALL)
    run.begin(2, seed="1")
    run.finish(2, 5.0)
    run.log("Exiting because a job execution failed. Look below for error messages", logging.ERROR)
    run.log(f"Complete log(s): {Path.cwd() / 'x/full.log'}")
    run.log(
        "WorkflowError:\nAt least one job did not complete successfully.",
        logging.ERROR,
        event=LogEvent.ERROR,
        exception="WorkflowError",
    )
    again = "snakemake --config scale=small -- results/mini/runs/1/record.json"
    assert run.lines[1:] == [
        "FAILED: poisoning/train seed 0, after 2.5 s",
        "  error: relearn poisoning train: data.csv: torn or edited",
        f"  log: {log}",
        f"  again, this job alone: {again}",
        "1 of 3  poisoning/train seed 1  2.5 s  (about 10 s left)",
        "1 failed: poisoning/train seed 0",
        "1 of 3 jobs done, 1 not run (most read what those make)",
        "full log: x/full.log",
    ]


def test_a_failed_job_counts_once_and_not_at_all_after_a_retry_that_worked(
    engine: Callable[..., Engine], tmp_path: Path
) -> None:
    run = engine()
    run.plan(poisoning_train=2)
    for number, seed in ((1, "0"), (2, "1"), (1, "0")):
        run.begin(number, seed=seed)
        run.fail(number, str(tmp_path / "missing.log"))
    run.begin(1, seed="0")
    run.finish(1, 5.0)
    run.log("Complete log(s): x")
    assert run.lines[-3:] == ["1 failed: poisoning/train seed 1", "1 of 2 jobs done", "full log: x"]
    run.begin(2, seed="1")
    run.finish(2, 7.0)
    run.log("Complete log(s): x")
    assert run.lines[-2:] == ["2 of 2 jobs done in 10 s", "full log: x"]


def test_a_job_that_was_killed_has_no_last_word(engine: Callable[..., Engine], tmp_path: Path) -> None:
    run = engine()
    run.plan(poisoning_train=1)
    run.begin(1)
    (tmp_path / "empty.log").touch()
    run.fail(1, str(tmp_path / "empty.log"))
    assert "  error: it ended without a word; was it killed?" in run.stream.getvalue()


def test_a_job_without_a_log_never_started(engine: Callable[..., Engine], tmp_path: Path) -> None:
    run = engine()
    run.plan(poisoning_train=1)
    run.begin(1)
    run.fail(1, str(tmp_path / "missing.log"))
    assert "  error: it never started: a queue may have refused" in run.stream.getvalue()


def test_what_a_queue_says_of_a_job_without_a_log_is_its_error(
    engine: Callable[..., Engine], tmp_path: Path
) -> None:
    """As the SLURM executor does: its own words, which may have several lines, then a sentence for every job."""
    run = engine()
    run.plan(poisoning_train=2)
    refused = "SLURM sbatch failed. The error message was 'sbatch: error: Memory specification can not be satisfied\nsbatch: …'."
    advice = "For further error details see the cluster/cloud log and the log files of the involved rule(s)."
    run.begin(1)
    run.fail(1, str(tmp_path / "missing.log"), said=refused + advice)
    assert f"  error: {' '.join(refused.split())}\n" in run.stream.getvalue()
    (tmp_path / "whole.log").write_text("eps: found 2, allowed: at most 1\n")
    run.begin(2)
    run.fail(2, str(tmp_path / "whole.log"), said=refused + advice)
    assert "  error: eps: found 2, allowed: at most 1\n" in run.stream.getvalue()


def test_a_refusal_of_the_parameters_is_a_line_for_each_fault_without_frames(
    engine: Callable[..., Engine],
) -> None:
    run = engine()
    text = (
        'ValueError in file "/a/workflow/rules/common.smk", line 17:\n'
        "params.yaml:3: poisoning.seeds: found 0, allowed: a list\n"
        "params.yaml:9: poisoning.kk: unknown key\n"
        '  File "/a/workflow/rules/common.smk", line 17, in <module>\n'
        '  File "/a/src/relearn/params/reading.py", line 80, in load'
    )
    run.log(text, logging.ERROR, event=LogEvent.ERROR, exception="ValueError")
    assert run.lines == [
        "snakemake: params.yaml:3: poisoning.seeds: found 0, allowed: a list",
        "params.yaml:9: poisoning.kk: unknown key",
    ]


def test_an_error_that_is_no_refusal_keeps_its_class(engine: Callable[..., Engine]) -> None:
    run = engine()
    text = f"IncompleteFilesException:\nThe files below seem to be incomplete. {WALL}"
    run.log(text, logging.ERROR, event=LogEvent.ERROR, exception="IncompleteFilesException")
    (line,) = run.lines
    assert line.startswith("snakemake: IncompleteFilesException: The files below seem to be incomplete.")
    assert len(line) < 650


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "LockException:\nError: Directory cannot be locked. Please make sure …",
            "`relearn recover` says who holds",
        ),
        (
            "WorkflowError:\nUnable to obtain modification time of file a. It could be that a concurrent process has deleted it.",
            "Does another Snakemake run here? `relearn recover` says.",
        ),
    ],
)
def test_an_error_that_recover_can_fix_names_recover(
    engine: Callable[..., Engine], text: str, says: str
) -> None:
    run = engine()
    run.log(text, logging.ERROR, event=LogEvent.ERROR, exception=text.split(":")[0])
    (line,) = run.lines
    assert says in line


def test_of_a_stack_trace_the_error_alone_is_printed(engine: Callable[..., Engine]) -> None:
    run = engine()
    frames = '  File "persistence.py", line 9, in lock\n    with open(lockfile, "w") as lock:\n         ^^^^^^^^^^^\n'
    raised = "FileNotFoundError: [Errno 2] No such file or directory: '/x/.snakemake/locks/0.input.lock'"
    run.log(
        f"Traceback (most recent call last):\n{frames}{raised}",
        logging.ERROR,
        event=LogEvent.ERROR,
        exception="x",
    )
    (line,) = run.lines
    assert line.startswith(f"snakemake: {raised} Another Snakemake was ending here") and "^" not in line


def test_parameters_that_are_no_yaml_are_named_by_file_and_line(
    engine: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("scale: mini\npoisoning: [\n")
    run = engine()
    text = "WorkflowError:\nConfig file is not valid JSON or YAML. In case of YAML, make sure to not mix whitespace and tab indentation."
    run.log(text, logging.ERROR, event=LogEvent.ERROR, exception="WorkflowError")
    (line,) = run.lines
    assert line.startswith("snakemake: params.yaml:3: not readable as YAML: ")


def test_a_mistyped_target_is_answered_with_the_nearest(engine: Callable[..., Engine]) -> None:
    run = engine()
    rest = "(if you use input functions make sure that they don't raise unexpected exceptions)."
    run.log(f"MissingRuleException:\nNo rule to produce kim202 {rest}", logging.ERROR, event=LogEvent.ERROR)
    (line,) = run.lines
    assert line.startswith("snakemake: no target or file kim202; did you mean kim2020")
    assert line.endswith("? `relearn list` names the targets")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "ValueError: unknown network 'VGG-20': did you mean 'VGG-19'?",
            "unknown network 'VGG-20': did you mean 'VGG-19'?",
        ),
        ("KeyError: 'kaimin'", "unknown value 'kaimin'"),
    ],
)
def test_a_mistyped_label_in_the_path_of_a_run_is_named(
    engine: Callable[..., Engine], fault: str, said: str
) -> None:
    run = engine()
    text = f"""InputFunctionException in rule gradinit_initialise in file "run.smk", line 32:
Error:
  {fault}
Wildcards:
  network=VGG-20
  seed=0
Traceback:
  File "common.smk", line 131, in <lambda>"""
    run.log(text, logging.ERROR, event=LogEvent.ERROR)
    assert run.lines == [f"snakemake: no run has network=VGG-20 seed=0: {said}"]


def test_ctrl_c_says_that_the_same_command_goes_on(engine: Callable[..., Engine]) -> None:
    run = engine()
    run.log("Terminating processes on user request, this might take some time.")
    (line,) = run.lines
    assert "the same command goes on" in line and "Terminating" not in line


def test_a_dry_run_names_the_first_jobs_and_the_reasons_without_files(engine: Callable[..., Engine]) -> None:
    run = engine(dryrun=True, stdout=True)
    run.log("Job stats:\ntotal 30", event=LogEvent.RUN_INFO, stats={"total": 30})
    for number in range(30):
        run.begin(number, seed=str(number))
    run.log("Job stats:\ntotal 30", event=LogEvent.RUN_INFO, stats={"total": 30})
    text = run.stream.getvalue()
    assert text.count("total 30") == 1 and WALL not in text
    assert "  poisoning/train seed 3: missing output files, code has changed since last execution\n" in text
    assert len(run.lines) == 2 + story.LISTED + 1


def test_copied_runs_are_answered_with_the_command_that_registers_them(engine: Callable[..., Engine]) -> None:
    run = engine(dryrun=True, stdout=True)
    said = "2 jobs have missing provenance/metadata so that it in part cannot be used to trigger re-runs."
    run.log(f"{said}\nRules with missing metadata: lrformer_check_theorems", logging.WARNING)
    run.log("Rules with missing metadata: lrformer_check_theorems")
    (line,) = run.lines
    assert line.endswith(": 2; `relearn adopt` checks and registers them") and "provenance" not in line


def test_on_a_terminal_the_foot_says_what_runs_and_goes_at_the_end(engine: Callable[..., Engine]) -> None:
    run = engine(Terminal())
    run.plan(poisoning_train=2)
    run.begin(1, seed="0")
    run.finish(1, 4.0)
    run.begin(2, seed="1")
    assert run.story._foot() == "1 of 2 jobs · about 10 s left · now: poisoning/train seed 1"
    run.story.end()
    assert run.stream.getvalue().endswith("\r\x1b[K")
    assert "\r\x1b[K1 of 2  poisoning/train seed 0  4.0 s\n" in run.stream.getvalue()


def test_quiet_and_verbose_are_obeyed(engine: Callable[..., Engine]) -> None:
    quiet = engine(quiet=["all"])
    quiet.plan(poisoning_train=1)
    assert quiet.lines == []
    verbose = engine(verbose=True)
    verbose.log("Building DAG of jobs...")
    assert verbose.lines == ["Building DAG of jobs..."]


def test_records_are_taken_under_the_lock_of_the_thread_that_draws(
    engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine()
    owned: list[bool] = []
    monkeypatch.setattr(run.story, "_tell", lambda record: owned.append(run.story.screen.lock._is_owned()))
    run.log("anything")
    assert owned == [True] and not run.story.screen.lock._is_owned()
