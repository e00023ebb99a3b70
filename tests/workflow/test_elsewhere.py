"""From the printed script on a machine without Snakemake back into both engines."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import pytest

from relearn.steps import adopt, jobs

TARGETS = ["pretrain_all", "craft_all"]
EPS = "poisoning.craft.attacks.convex_polytope.eps"
POLYTOPE = "results/mini/runs/poisoning/craft/convex_polytope/seed0/record.json"


def to_do() -> list[str]:
    """The records that Snakemake would make in the current folder."""
    with jobs.workflow(TARGETS) as built:
        return [str(job.output.record) for job in built.dag.needrun_jobs() if job.is_shell]


def take(*words: str) -> None:
    parser = argparse.ArgumentParser()
    adopt.add_arguments(parser)
    assert adopt.main(parser.parse_args(words)) == 0


def ran(scratch: Any) -> list[str]:
    return [line.split()[0] for line in scratch.calls()]


@pytest.fixture
def away(scratch: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of all networks and attacks in a folder `away`, made by the script; results/ is gone."""
    monkeypatch.chdir(scratch.root)
    script = jobs.script(jobs.plan(TARGETS))
    assert str(scratch.root) not in script
    Path("jobs.sh").write_text(script)
    scratch.run("sh", "jobs.sh")
    assert ran(scratch) == ["craft", "craft", "prepare", "pretrain", "pretrain", "pretrain"]
    # Copies bear the times of the copying, in any order.
    shutil.copytree("results/mini", "away", copy_function=shutil.copyfile)
    shutil.rmtree("results")
    shutil.rmtree(".snakemake", ignore_errors=True)
    return Path("away")


def test_records_from_elsewhere_count_as_done(
    scratch: Any, away: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(to_do()) == 6
    take(str(away))
    assert "adopted 6 records, 0 were here" in capsys.readouterr().out
    assert to_do() == []

    # An edit is noticed as after a run of one's own: its attack is stale, and the old record is not taken.
    before = Path("params.yaml").read_text()
    scratch.set({EPS: 0.125})
    assert to_do() == [POLYTOPE]
    with pytest.raises(ValueError, match=r"settings\.eps: found 0\.2, the DAG asks 0\.125$"):
        take(str(away))
    Path("params.yaml").write_text(before)
    assert to_do() == []

    # Without a folder: what lies here is checked and noted, in whatever order the times are.
    shutil.rmtree(".snakemake")
    Path("results/mini/runs/poisoning/prepare/digits/data.safetensors").touch()
    assert len(to_do()) == 5
    scratch.set({EPS: 0.125})
    take()
    said = capsys.readouterr()
    assert "adopted 0 records, 5 were here" in said.out
    assert said.err.startswith(f"left alone: {POLYTOPE}: settings.eps: found 0.2")
    assert to_do() == [POLYTOPE]


@pytest.mark.slow
def test_dvc_runs_nothing_that_was_adopted(scratch: Any, away: Path) -> None:
    scratch.run("relearn", "adopt", str(away))
    scratch.run("dvc", "repro", "--quiet", "craft@poisoning")
    assert ran(scratch) == []
    again = scratch.run("dvc", "repro", "craft@poisoning")
    assert "Stage 'craft@poisoning' didn't change, skipping" in again.stdout
    scratch.set({EPS: 0.125})
    scratch.run("dvc", "repro", "--quiet", "craft@poisoning")
    assert ran(scratch) == ["craft"]
    assert to_do() == []
