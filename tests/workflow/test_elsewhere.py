"""From the printed script on a machine without Snakemake back into both engines."""

import argparse
import shutil
from pathlib import Path
from typing import Any

import pytest

from relearn.cli import adopt, jobs
from relearn.studies import parameters
from relearn.studies.poisoning.plan import plan

EPS = "poisoning.craft.attacks.bullseye_polytope.eps"
POLYTOPE = "results/mini/runs/poisoning/craft/bullseye_polytope/seed0/record.json"
MADE = {"craft": 11, "adversarial_training": 2, "prepare_images": 1, "pretrain": 6, "split_overlap": 3}
ALL = sum(MADE.values())


def targets() -> list[str]:
    """The records of all networks and attacks."""
    families = plan(parameters.load("params.yaml"), "mini")
    return [path for name in ("pretrain", "adversarial_training", "craft") for path in families[name].paths()]


def to_do() -> list[str]:
    """The records that Snakemake would make in the current folder."""
    with jobs.workflow(targets()) as built:
        return [str(job.output.record) for job in built.dag.needrun_jobs() if job.is_shell]


def take(*words: str) -> None:
    parser = argparse.ArgumentParser()
    adopt.add_arguments(parser)
    assert adopt.main(parser.parse_args(words)) == 0


@pytest.fixture
def away(scratch: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of all networks and attacks in a folder `away`, made by the script; results/ is gone."""
    monkeypatch.chdir(scratch.root)
    script = jobs.script(jobs.plan(targets()))
    assert str(scratch.root) not in script
    Path("jobs.sh").write_text(script)
    scratch.run("sh", "jobs.sh")
    assert scratch.ran() == MADE
    # Copies bear the times of the copying, in any order.
    shutil.copytree("results/mini", "away", copy_function=shutil.copyfile)
    shutil.rmtree("results")
    shutil.rmtree(".snakemake", ignore_errors=True)
    return Path("away")


def test_records_from_elsewhere_count_as_done(
    scratch: Any, away: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(to_do()) == ALL

    # A running engine has its lock: nothing is taken. The lock held while records are put in place is given back.
    with jobs.workflow(targets()) as built:
        built.persistence._write_locks("output", [POLYTOPE])
    with pytest.raises(BlockingIOError, match="Snakemake is running here"):
        take(str(away))
    assert len(to_do()) == ALL and list(jobs.LOCKS.iterdir())
    shutil.rmtree(jobs.LOCKS)
    take(str(away))
    assert not list(jobs.LOCKS.glob("*.lock"))
    assert f"adopted {ALL} records, 0 were here" in capsys.readouterr().out
    assert to_do() == []

    # An edit is noticed as after a run of one's own: its attack is stale, and the old record is not taken.
    before = Path("params.yaml").read_text()
    scratch.set({EPS: 0.125})
    assert to_do() == [POLYTOPE]
    with pytest.raises(ValueError, match=r"settings\.eps: found 0\.2, the DAG requires 0\.125$"):
        take(str(away))
    Path("params.yaml").write_text(before)
    assert to_do() == []

    # Without a folder: what lies here is checked and noted, in whatever order the times are.
    shutil.rmtree(".snakemake")
    Path("results/mini/runs/poisoning/prepare_images/digits/data.safetensors").touch()
    assert len(to_do()) == ALL - 1
    scratch.set({EPS: 0.125})
    take()
    said = capsys.readouterr()
    assert f"adopted 0 records, {ALL - 1} were here" in said.out
    assert said.err.startswith(f"left alone: {POLYTOPE}: settings.eps: found 0.2")
    assert to_do() == [POLYTOPE]


@pytest.mark.slow
def test_dvc_runs_nothing_that_was_adopted(scratch: Any, away: Path) -> None:
    scratch.run("relearn", "adopt", str(away))
    scratch.run("dvc", "repro", "poisoning")
    first = scratch.ran()
    assert first and not set(first) & set(
        MADE
    )  # defences, victims and evaluations, which were not made elsewhere
    again = scratch.run("dvc", "repro", "poisoning")
    assert "Stage 'poisoning' didn't change, skipping" in again.stdout and not scratch.ran()
    scratch.set({EPS: 0.125})
    scratch.run("dvc", "repro", "poisoning")
    assert scratch.ran() == {"craft": 1, "train": 2}
    assert to_do() == []
