"""Whatever is lost, put aside or half written is made again by the commands of README and docs/faults.md."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relearn.cli import jobs, targets
from relearn.runs import record
from relearn.studies import parameters

from .conftest import HERE, Scratch

RUNS = Path("results/mini/runs")
SNAKEMAKE = ("snakemake", "--cores", "all")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """One checkout in which every job is done. Each test leaves it so."""
    scratch = Scratch(tmp_path_factory.mktemp("targets") / "checkout")
    scratch.finish()
    return scratch


@pytest.fixture(autouse=True)
def _inside(finished: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished.root)


def nothing_to_do(scratch: Scratch) -> bool:
    return "Nothing to be done" in scratch.run("snakemake", "-n").stdout


def only(pattern: str) -> Path:
    return next(iter(sorted(RUNS.glob(pattern))))


def asked() -> dict[str, list[str]]:
    """The files that each target asks for, here and now."""
    code = "import json, engines; print(json.dumps(engines.asked()))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", str(HERE)])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_all_asks_for_every_record_and_for_every_other_file_that_is_gone() -> None:
    files = {path for job in jobs.plan() for path in job.outputs}
    beside = {path for path in files if path.startswith(str(RUNS)) and not path.endswith("/record.json")}
    assert len(beside) > 300
    assert set(asked()["all"]) == files - beside
    for path in beside:
        os.rename(path, f"{path}.away")
    try:
        assert set(asked()["all"]) == files
    finally:
        for path in beside:
            os.rename(f"{path}.away", path)


def test_a_lost_file_is_made_again(finished: Scratch) -> None:
    lost = [
        only("poisoning/train/**/trials.csv"),
        only("gradinit/check_batch_norm/**/record.json"),
        Path("results/mini/tables/zhu2022.table2.2.md"),
        Path("results/mini/figures/zhu2022.fig2.5.png"),
        Path("results/mini/claims.json"),
    ]
    for path in lost:
        path.unlink()
    finished.run(*SNAKEMAKE)
    assert finished.ran() == {"train": 1, "check_batch_norm": 1, "render": 1}
    assert all(path.exists() for path in lost) and nothing_to_do(finished)


@pytest.mark.parametrize("harm", ["torn record", pytest.param("lost artefact", marks=pytest.mark.slow)])
def test_what_recover_puts_aside_is_made_again_by_the_command_that_it_advises(
    finished: Scratch, harm: str
) -> None:
    file = only("poisoning/evaluate_networks/**/record.json")
    sound = record.read(file)["outputs"]
    if harm == "torn record":
        file.write_text("{")
    else:
        file.with_name("loss_curves.csv").unlink()
    answer = finished.run("relearn", "recover").stdout
    assert f"put aside: {file.parent}" in answer and not file.exists()
    advice = answer.splitlines()[-1].split("`")[1]
    assert advice.startswith("snakemake")
    finished.run(*shlex.split(advice))
    assert finished.ran() == {"evaluate_networks": 1, "render": 1}
    assert record.read(file)["outputs"] == sound and not record.verify_outputs(record.read(file))


@pytest.mark.slow
def test_a_lost_input_made_again_with_the_same_bytes_spares_the_jobs_behind_it(finished: Scratch) -> None:
    file = only("poisoning/prepare_images/**/record.json")
    file.unlink()
    finished.run(*SNAKEMAKE, str(file))
    assert finished.ran() == {"prepare_images": 1}
    finished.run("relearn", "adopt")
    assert nothing_to_do(finished)


def test_ctrl_c_while_it_renders_and_then_the_same_command(finished: Scratch) -> None:
    Path("results/mini/coverage.csv").unlink()
    pause = finished.root / "paused"
    env = {**finished.env, "PRETEND_PAUSE": str(pause)}
    with open("engine.log", "wb") as log:
        engine = subprocess.Popen(SNAKEMAKE, env=env, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + 300
    while not pause.exists():
        assert engine.poll() is None and time.monotonic() < deadline, Path("engine.log").read_text()
        time.sleep(0.05)
    os.killpg(engine.pid, signal.SIGINT)  # as the terminal does: to the engine and to the job
    try:
        assert engine.wait(120) != 0
    finally:
        engine.kill()
    assert finished.ran() == {"render": 1}

    # Without the default profile Snakemake refuses the half-written files, and recover does not advise it.
    profiles = finished.root / "profiles"
    profiles.rename("away")
    answer = finished.run("relearn", "recover", ok=False)
    assert answer.returncode == 2, answer.stdout
    assert answer.stdout.splitlines()[-1].startswith(
        "cannot go on: Snakemake refuses `snakemake --cores all`: IncompleteFilesException: "
    )
    Path("away").rename(profiles)

    answer = finished.run("relearn", "recover")
    assert answer.stdout.splitlines()[-1].startswith("go on: `snakemake --cores all` or `dvc repro`")
    finished.run(*SNAKEMAKE)
    assert finished.ran() == {"render": 1}


# Snakemake takes the names of `relearn list` as targets and plans no more than they need.


def test_a_table_and_a_claim_are_targets_and_plan_what_they_need(scratch: Scratch) -> None:
    names = ["table2.2", "zhu2022.fig2.5", "claim:hull_proposition"]
    said = scratch.run("snakemake", "-n", "--", *names).stdout
    plans = targets.plans(parameters.load(scratch.root / "params.yaml"))
    records = [path for name in names for path in targets.records(targets.find(name), plans)[0]]
    total = re.search(r"^total +(\d+)$", said, re.MULTILINE)
    assert total and int(total[1]) == len(targets.needed(records, plans)) + len(names)


def test_a_mistyped_target_is_answered_with_the_nearest(scratch: Scratch) -> None:
    done = scratch.run("snakemake", "-n", "--", "tabel2.2", ok=False)
    line = done.stdout.splitlines()[-1]
    assert done.returncode != 0 and line.startswith("snakemake: no target or file tabel2.2; did you mean ")
    assert "table2.2" in line and "`relearn list`" in line


# What Snakemake says before the first job of a scale other than mini, and that it stops where data is missing.

pytestmark = pytest.mark.slow  # Snakemake itself: eight CPU seconds


def test_missing_data_stops_a_run_before_its_first_job(scratch: Scratch) -> None:
    scratch.env["RELEARN_OFFLINE"] = "1"
    scratch.env.pop("RELEARN_MIRROR", None)
    scratch.env.pop("RELEARN_CACHE", None)
    words = ("snakemake", "--cores", "1", "--config", "scale=small", "--", "lrformer")
    done = scratch.run(*words, ok=False)
    assert done.returncode == 1
    said = f"{done.stdout}{done.stderr}".splitlines()
    heads = ("jobs: ", "forecast: ", "data: ")
    assert [line.split(": ")[0] for line in said if line.startswith(heads)] == ["jobs", "forecast", "data"]
    (refusal,) = [line for line in said if "data missing, so nothing was started" in line]
    assert "CIFAR-10 (170 MB): get it from https://www.cs.toronto.edu/~kriz/cifar.html" in refusal
    assert scratch.calls() == []
    assert not list((scratch.root / "results" / "small").rglob("record.json"))
    assert not list((scratch.root / ".snakemake" / "locks").glob("*"))  # the next run need not unlock
