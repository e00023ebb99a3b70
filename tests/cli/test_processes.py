"""Two processes make the run that one makes: through the command line, resumed after a kill, and from images decoded in shares."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from relearn import cli
from relearn.data.class_folders import sha256_of
from relearn.runs import devices, record

from ..steps.vision_runs import FOUR, RECIPE, Runs

# Without dropout, whose masks the processes draw apart; batch normalisation and mixing over the whole batch are in it.
NETWORK = {"name": "resnet10t", "stem_width": 8, "channels": [8, 8, 16, 16]}
SWIN = {"name": "swin_tiny_patch4_window7_224", **FOUR, "window_size": 2, "drop_path_rate": 0.0}
# Without Adam, whose first steps magnify rounding to the size of the step.
SETTINGS = {
    **RECIPE,
    "network": SWIN,
    "mixup": 0.8,
    "flip": True,
    "epochs": 5,
    "ema": 0.9,
    "optimizer": "sgd",
    "lr": 0.05,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("processes"))


def words(runs: Runs, name: str, data: Path, settings: dict[str, Any], processes: int) -> list[str]:
    return [
        *("lipsformer", "train_vision", "--settings", json.dumps(settings), "--input", "data", str(data)),
        *("--label", f"variant={name}", "--seed", "3", "--device", "cpu", "--processes", str(processes)),
        *("--out", str(runs.root / name)),
    ]


def start(given: list[str], **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "relearn", *given],
        env={**os.environ, "RELEARN_WARM": "off", **more},
        stderr=subprocess.PIPE,
        text=True,
    )


def make(given: list[str], **more: str) -> None:
    process = start(given, **more)
    said = process.communicate()[1]
    assert process.returncode == 0, said


def apart(runs: Runs, one: str, other: str) -> float:
    a, b = (load_file(runs.root / name / "model.safetensors") for name in (one, other))
    assert a.keys() == b.keys()
    return max(float((a[key].double() - b[key].double()).abs().max()) for key in a)


def test_two_processes_make_the_record_of_one_also_after_one_is_killed(runs: Runs) -> None:
    make(words(runs, "one", runs.data, SETTINGS, 1))
    given = words(runs, "two", runs.data, SETTINGS, 2)
    spool = runs.root.parent / "spool"
    before = set(spool.glob("*.jsonl"))
    first = start(given)
    while not any("loss" in file.read_text() for file in set(spool.glob("*.jsonl")) - before):
        assert first.poll() is None, first.communicate()[1]
        time.sleep(0.02)
    workers = [
        int(found.parent.name)
        for found in Path("/proc").glob("[0-9]*/cmdline")
        if str(runs.root / "two").encode() in _read(found) and b"RANK=1\0" in _read(found.parent / "environ")
    ]
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    said = first.communicate()[1]
    if first.returncode:  # the kill came before the end
        assert "of 2 ended with status -9; the same command resumes the run" in said.splitlines()[-1]
        make(given)
    one, two = (record.read(runs.root / name) for name in ("one", "two"))
    assert len(workers) == 1 and two["outcome"] == one["outcome"]
    assert first.returncode == 0 or "resumed: finished by attempt 2" in two["notes"]
    assert apart(runs, "one", "two") < 2e-5  # of fp32; float64 in tests/methods/test_parallel.py
    for key in ("train_loss_nats", "loss_first_nats", "acc_frac", "ema_acc_frac", "steps_count"):
        assert two["metrics"][key] == pytest.approx(one["metrics"][key], abs=1e-5), key
    assert set(two["outputs"]) == set(one["outputs"]) and two["settings"] == one["settings"]
    # A control: the same training with another seed is another network.
    make([*words(runs, "other", runs.data, SETTINGS, 1), "--seed", "4"])
    assert apart(runs, "one", "other") > 1e-2


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_images_of_a_folder_are_decoded_in_shares(runs: Runs, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for part, count in (("train", 7), ("val", 2)):
        for label in range(3):
            place = tmp_path / "imagenet" / part / f"n{label}"
            place.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(80 * label, 80 * label + 90, (40, 44, 3), np.uint8)
                Image.fromarray(pixels).save(place / f"{number}.png")
    env = {"RELEARN_MIRROR": str(tmp_path), "RELEARN_CACHE": str(tmp_path / "cache")}
    listing = runs.root / "listing"
    facts = json.dumps({"dataset": "imagenet", "sha256": sha256_of(tmp_path / "imagenet")})
    make(["gradinit", "list_imagenet", "--settings", facts, "--out", str(listing)], **env)
    recipe = {key: value for key, value in SETTINGS.items() if key not in ("crop_padding", "flip")}
    settings = {
        **recipe,
        "epochs": 2,
        "network": NETWORK,
        "task": "folder",
        "size": 32,
        "batch_size": 9,
        "mixup": None,
    }
    for count in (1, 2):
        make(words(runs, f"folder{count}", listing / "listing.json", settings, count), **env)
    one, two = (record.read(runs.root / f"folder{count}")["metrics"] for count in (1, 2))
    assert two["loss_first_nats"] == pytest.approx(one["loss_first_nats"], abs=1e-5)
    assert two["train_loss_nats"] == pytest.approx(one["train_loss_nats"], abs=1e-4)


def test_a_step_of_one_process_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["--settings", "{}", "--out", str(tmp_path / "x"), "--processes", "2", "--device", "cpu"]
    assert cli.main(["lipsformer", "check_theorems", *given]) == 2
    said = capsys.readouterr().err
    assert "found 2, allowed: 1, because lipsformer check_theorems runs in one process" in said


def test_several_devices_are_held_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,7")
    with devices.acquire("cuda", count=lambda: 3) as taken:
        assert taken == "cuda:0"
        with devices.acquire_several("auto", 2, cuda=lambda: 3) as found:
            assert found == ("cuda", "5,7")
            for number in (5, 7):
                file = tmp_path / f"relearn/cuda-{number}.lock"
                with file.open("ab") as lock, pytest.raises(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with devices.acquire_several("cpu", 2, cuda=lambda: 3) as found:
        assert found == ("cpu", "")
    for name, there, count in (("auto", 3, 2), ("auto", 1, 1), ("auto", 0, 1), ("cpu", 0, 2), ("cuda", 1, 2)):
        assert devices.usable(name, 2, cuda=[there].pop) == count
    for name, text in (
        ("cuda", "found 4, allowed: at most the 3 CUDA devices here"),
        ("cuda:1", "allowed for several processes are auto, cpu, cuda"),
    ):
        with pytest.raises(ValueError, match=text), devices.acquire_several(name, 4, cuda=lambda: 3):
            pass


def test_rules_ask_for_the_gpus_of_params_yaml() -> None:
    from relearn.studies import parameters
    from relearn.studies.study import load

    paper = parameters.load("params.yaml", scale="paper")
    for study, family, count in (
        ("lipsformer", "train_vision", 8),
        ("lrformer", "pretrain_vision", 8),
        ("lrformer", "train_vision", 1),  # on CIFAR-10
        ("gradinit", "train_from_init_imagenet", 4),
        ("gradinit", "train_from_init", 1),
    ):
        needs = load(study).part("plan").plan(paper, "paper")[family].needs
        assert (needs.gpu, needs.threads) == (count, 8 * count if count > 1 else 1), study
