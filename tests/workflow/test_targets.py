"""Whatever is lost, put aside or half written is made again by the commands of README and docs/faults.md."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relearn.cli import jobs
from relearn.runs import record

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
