"""Snakemake reads the default profile in every command of the documentation, and each of its settings counts."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from snakemake import cli
from snakemake.utils import available_cpu_count

from .conftest import CHECKOUT, Scratch

USED = "Using workflow specific profile profiles/default for setting default command line arguments."
HALVES = [
    f"results/mini/runs/poisoning/split_overlap/digits-{part}/record.json"
    for part in ("first_half", "middle_half", "second_half")
]
REFUSED = "relearn poisoning split_overlap: "


def full_log(scratch: Scratch, said: str) -> str:
    """Snakemake's own log, which the last line of what it said names."""
    last = said.splitlines()[-1]
    assert last.startswith("full log: .snakemake/log/"), said
    return (scratch.root / last.removeprefix("full log: ")).read_text()


def documented() -> list[str]:
    """Every command line of README and docs that starts with snakemake, the Makefile's and those of DVC's stages."""
    pages = [
        CHECKOUT / "README.md",
        CHECKOUT / "Makefile",
        CHECKOUT / "dvc.yaml",
        *CHECKOUT.glob("docs/*.md"),
    ]
    found: set[str] = set()
    for page in pages:
        text = re.sub(r"\$\(if .*?\)\)", "", page.read_text())  # Make's own condition
        for line in text.replace("\\\n", " ").splitlines():
            quoted = re.findall(r"`(snakemake [^`]+)`", line)
            whole = re.findall(r"(?:^\$ |^| |- |cmd: )(snakemake(?: [^#`]+)?)(?:#.*)?$", line)
            found |= {one.strip() for one in quoted or whole}
    return sorted(found)


def test_every_documented_command_has_the_settings_of_a_profile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CHECKOUT)
    commands = documented()
    assert {"snakemake --cores all", "snakemake -n"} <= set(commands) and len(commands) > 20
    if (
        find_spec("snakemake_executor_plugin_kubernetes") is None
    ):  # no extra asks for it: Snakemake would refuse its settings
        commands = [command for command in commands if "kubernetes" not in command]
    for command in commands:
        settings = cli.parse_args(shlex.split(command.replace("$(CORES)", "all"))[1:])[1]
        assert settings.rerun_incomplete and settings.keep_going and settings.show_failed_logs, command
        at_slurm = "slurm" in command
        assert (settings.executor, bool(settings.cores)) == (
            ("slurm", "slurm-grouped" in command) if at_slurm else (None, True)
        ), command
        assert (USED in capsys.readouterr().err) != at_slurm, command


KUBERNETES = CHECKOUT / "workflow/profiles/kubernetes/config.yaml"


def test_the_profile_of_kubernetes_says_only_what_snakemake_and_its_plugins_know() -> None:
    pytest.importorskip("snakemake_executor_plugin_kubernetes")
    pytest.importorskip("snakemake_storage_plugin_s3")
    known = {option for action in cli.get_argument_parser()._actions for option in action.option_strings}
    keys = {f"--{key}" for key in yaml.safe_load(KUBERNETES.read_text(encoding="utf-8"))}
    assert keys - known == set() and "--kubernetes-namespace" in keys


def test_snakemake_alone_uses_the_profile_and_all_cores(scratch: Scratch) -> None:
    done = scratch.run("snakemake", *HALVES)
    assert USED in done.stderr
    assert re.search(
        rf"^Provided cores: {available_cpu_count()}\b", full_log(scratch, done.stderr), re.MULTILINE
    )
    assert scratch.ran() == {"prepare_images": 1, "split_overlap": 3}


def test_a_failed_job_stops_no_other_and_its_printed_command_can_be_pasted(scratch: Scratch) -> None:
    program = scratch.root / "bin/relearn"
    pretended = program.with_name("pretended")
    program.rename(pretended)
    # A real job: the pretended images hold no tensors, so it refuses them.
    program.write_text(
        f'#!/bin/sh\n[ "$2" = split_overlap ] && exec python -m relearn "$@"\nexec "{pretended}" "$@"\n'
    )
    program.chmod(0o755)
    done = scratch.run("snakemake", "--cores", "1", "--", *HALVES, ok=False)
    assert done.returncode != 0
    failed = re.findall(
        r"^FAILED: (poisoning/split_overlap digits \w+_half), after \d+\.\d s\n  error: (.*)\n"
        r"  log: (results/mini/logs/poisoning/split_overlap/\S+\.log)\n  again, this job alone: (snakemake .*)$",
        done.stderr,
        re.MULTILINE,
    )
    assert len(failed) == 3  # one after the other
    assert "3 failed: poisoning/split_overlap digits" in done.stderr and "1 of 4 jobs done" in done.stderr
    name, error, log, again = failed[0]
    assert error.startswith(f"{REFUSED}results/mini/runs/poisoning/prepare_images/")
    assert error in (scratch.root / log).read_text()
    # Snakemake's own log has the whole command of the job, and it can be pasted.
    full = full_log(scratch, done.stderr)
    assert full.count("Error in rule poisoning_split_overlap:") == 3
    command = re.search(r"\n    shell:\n        (.*)\n        \(command exited", full)
    assert command is not None
    pasted = scratch.run("bash", "-c", command[1], ok=False)
    assert pasted.returncode == 2 and pasted.stderr.splitlines()[-1].startswith(REFUSED)
    repeated = scratch.run("bash", "-c", again, ok=False)
    assert repeated.returncode != 0 and f"FAILED: {name}, " in repeated.stderr and error in repeated.stderr


@pytest.mark.parametrize(
    ("words", "limited"),
    [((), False), (("--max-jobs-per-timespan", "50/1s"), True)],
    ids=["default", "chosen"],
)
def test_only_a_limit_that_the_caller_has_chosen_holds_jobs_back(
    tmp_path: Path, words: tuple[str, ...], limited: bool
) -> None:
    (tmp_path / "Snakefile").write_text(
        f"include: {str(CHECKOUT / 'workflow/rules/start.smk')!r}\n"
        "rule one:\n    output: 'one'\n    shell: 'touch {output}'\n"
        "onstart:\n"
        "    before = workflow.scheduler.job_rate_limiter\n"
        "    without_rate_limit(workflow.scheduler)\n"
        "    after = workflow.scheduler.job_rate_limiter\n"
        "    print('limits:', before is not None, after is not None)\n"
    )
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"limits: True {limited}" in done.stdout + done.stderr
    assert (tmp_path / "one").exists()
