"""The logic of the check, with the CPU in place of the device: equal runs agree, different runs are detected, and both are reported."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relearn.gpu_check import checks, selection, variants
from relearn.gpu_check.tolerances import compare, trained
from relearn.runs.node import jobs_file
from relearn.runs.node.jobs_file import NodeJob


def a_record(
    outputs: tuple[str, ...] = ("cases.csv",), outcome: str = "ok", **metrics: float | None
) -> dict[str, Any]:
    return {"outcome": outcome, "metrics": metrics, "outputs": {key: {} for key in outputs}}


@pytest.mark.parametrize(
    ("here", "there", "precision", "ok"),
    [
        ({"norm": 1.0}, {"norm": 1.001}, "fp32", True),
        ({"norm": 1.0}, {"norm": 1.002}, "fp32", False),
        ({"norm": 1.0}, {"norm": 1.05}, "bf16", True),
        ({"norm": 1.0}, {"norm": 1.07}, "bf16", False),
        ({"acc_frac": 0.5}, {"acc_frac": 0.519}, "fp32", True),
        ({"acc_frac": 0.5}, {"acc_frac": 0.53}, "fp32", False),
        ({"wall_s": 1.0, "peak_bytes": 5.0}, {"wall_s": 90.0, "peak_bytes": 1e9}, "fp32", True),
        ({"wall_s": 1.0}, {"wall_s": None}, "fp32", False),
        ({"loss": None}, {"loss": None}, "fp32", True),
        ({"loss": 1.0}, {"loss": None}, "fp32", False),
        ({"loss": 1.0}, {}, "fp32", False),
    ],
)
def test_limits_by_kind_of_metric(here: dict, there: dict, precision: str, ok: bool) -> None:
    assert compare(a_record(**here), a_record(**there), precision).ok is ok


def test_ratios_of_times_are_not_compared() -> None:
    one, other = ({"images_per_s_ratio": value} for value in (0.6, 0.9))
    for step, ok in (("throughput", True), ("train_vision", False)):
        assert compare(a_record(**one) | {"step": step}, a_record(**other) | {"step": step}, "fp32").ok is ok


def test_a_training_has_wider_limits_and_the_worst_metric_is_named() -> None:
    cpu = a_record(("history.csv",), loss=1.0, acc_frac=0.8)
    assert trained(cpu) and trained(a_record(("weights.safetensors",))) and not trained(a_record())
    verdict = compare(cpu, a_record(("history.csv",), loss=1.3, acc_frac=0.75), "fp32")
    assert verdict.ok and verdict.worst == "loss" and verdict.share == pytest.approx(0.3 / 0.32)
    failed = compare(cpu, a_record(("history.csv",), loss=1.4, acc_frac=0.8), "fp32")
    assert not failed.ok and (failed.compared, failed.beyond, verdict.beyond) == (2, 1, 0)
    assert not compare(cpu, a_record(("history.csv",), "diverged", loss=1.0, acc_frac=0.8), "fp32").ok


def job_at(step: str, settings: dict[str, Any], *inputs: NodeJob) -> NodeJob:
    """A step of the study poisoning that needs no data."""
    from relearn.runs.record import canonical, run_id

    folder = f"results/mini/runs/poisoning/{step}"
    return NodeJob(
        run=run_id("poisoning", step, {}, "mini", 0, settings),
        code="c0de",
        study="poisoning",
        step=step,
        words=("poisoning", step, "--settings", canonical(settings), "--code", "c0de", "--scale", "mini"),
        record=f"{folder}/record.json",
        inputs=tuple(path for one in inputs for path in one.outputs),
        outputs=(),
        log=f"results/mini/logs/poisoning/{step}.log",
        mem_mb=500,
        gpu=1,
    )


HULL = job_at("hull_proposition", {"dimension": 16, "poisons": 3, "problems": 2})


def test_every_variant_reads_what_the_cpu_made() -> None:
    made = replace(HULL, outputs=("results/mini/runs/a/weights.safetensors",))
    reader = replace(
        job_at("reader", {}, made),
        words=(
            "--input",
            "net",
            "results/mini/runs/a/weights.safetensors",
            "--settings",
            '{"folder":"results"}',
        ),
    )
    three = variants.three([made, reader], {reader.run}, "cuda")
    assert {name: len(many) for name, many in three.items()} == {"cpu": 2, "fp32": 1, "bf16": 1}
    there = three["bf16"][0]
    assert there.inputs == ("check/cpu/runs/a/weights.safetensors",)
    assert there.words[2:5] == (*there.inputs, "--settings", '{"folder":"results"}')
    assert there.words[-6:] == ("--device", "cuda", "--precision", "bf16", "--threads", "1")
    assert there.record == "check/bf16/runs/poisoning/reader/record.json" and there.gpu == 1
    again = variants.on(there, "resume", "cuda", "fp32", 1)  # of a variant, in a place of its own
    assert again.record == "check/resume/runs/poisoning/reader/record.json" and again.inputs == there.inputs


def test_a_rehearsal_in_a_pack_compares_runs_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The real command on one step that is cheap; its trainings are missing, which must be reported as failures."""
    monkeypatch.chdir(tmp_path)
    Path("jobs.json").write_text(jobs_file.text([HULL]))
    Path("check.json").write_text(json.dumps([HULL.run]))
    monkeypatch.setattr(checks, "PROBES", {})
    chosen, jobs = selection.select()
    rows = checks.run(jobs, chosen, "cpu", (), 1, 1, float("inf"))
    steps = [row for row in rows if row.check == "steps"]
    assert [row.of for row in steps] == ["poisoning hull_proposition fp32", "poisoning hull_proposition bf16"]
    assert all(row.ok for row in steps) and "0 of the limit" in steps[0].found
    assert [row.ok for row in rows if row.check in ("resume", "together")] == [False, False]
    checks.write(rows, Path("check/check.json"), rehearsed=True)
    assert json.loads(Path("check/check.json").read_text())["on"] == "CPU in the device's place"
    text = checks.table(rows, rehearsed=True)
    assert text.endswith("4 checks rehearsed with the CPU in the device's place, 2 failed")
    record_file = Path("check/fp32/runs/poisoning/hull_proposition/record.json")
    assert json.loads(record_file.read_text())["machine"]["device"] == "cpu"


def test_a_job_that_fails_is_a_row_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks, "PROBES", {})
    bad = job_at("hull_proposition", {"dimension": 16})
    rows = checks.run([bad], {bad.run}, "cpu", (), 1, 1, float("inf"))
    assert not any(row.ok for row in rows)


def test_without_a_device_it_says_what_it_would_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "relearn.gpu_check"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4 and "would run" in done.stdout and "no CUDA device here" in done.stdout


@pytest.mark.parametrize("probe", ["parallel"])
def test_a_probe_measures_with_the_cpu_in_the_devices_place(probe: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "relearn.gpu_check.probes", probe], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ok"] and found["apart"] is not None


@pytest.mark.gpu
def test_every_step_agrees_on_cuda(tmp_path: Path) -> None:
    """The whole check, in the checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "relearn.gpu_check", "--json", str(tmp_path / "check.json")], check=False
    )
    assert done.returncode == 0
