"""Files that are not what they claim to be: torn, edited, foreign, hostile, or not there."""

import io
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from relearn.data import public_benchmark

SOURCE = Path(__file__).resolve().parents[2] / "src/relearn"


def flip(file: Path, at: int = -100) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def refused(desk: Any, words: list[str], name: str = "net") -> str:
    """The one line with which a job ends for its data, before any work."""
    job = desk.run(*words)
    assert job.wait() == 3, job.said
    assert len(job.said.splitlines()) == 1 and not (desk.path(name) / "record.json").exists()
    return str(job.last)


def test_an_input_that_its_record_does_not_know_stops_the_job(desk: Any) -> None:
    """What a spoilt object of a cache, or a copy that was cut short in its middle, looks like to a job."""
    flip(desk.path("prepare") / "data.safetensors")
    line = refused(desk, desk.pretrain())
    assert "prepare/data.safetensors: torn or edited, sha256 " in line and "its record says " in line


def test_the_step_of_a_torn_input_runs_again_after_recover(desk: Any) -> None:
    sound = desk.outputs("prepare")
    flip(desk.path("prepare") / "data.safetensors")
    told = desk.run("recover")
    assert told.wait() == 0, told.said
    assert "put aside: results/mini/runs/poisoning/prepare/data.safetensors: torn or edited" in told.said
    assert sorted(path.name for path in desk.path("prepare").iterdir()) == [
        "data.safetensors",
        "record.json.aside",
    ]
    words = json.loads((desk.path("prepare") / "record.json.aside").read_text())["settings"]
    assert desk.run(*desk.words("prepare_images", "prepare", words)).wait() == 0
    assert desk.outputs("prepare") == sound


@pytest.mark.parametrize("harm", ["cut", "edit"])
def test_a_torn_or_edited_record_stops_the_job_behind_it(desk: Any, harm: str) -> None:
    file = desk.path("prepare") / "record.json"
    text = file.read_text()
    file.write_text(text[: len(text) // 2] if harm == "cut" else text.replace('"digits"', '"cifar10"', 1))
    line = refused(desk, desk.pretrain())
    said = "torn, not complete JSON" if harm == "cut" else "edited, its content does not match its sha256"
    assert f"prepare/record.json: {said}" in line


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\x10" + bytes(7) + b"{}", "cut"])
def test_a_file_that_is_no_tensors_is_named(desk: Any, content: Any) -> None:
    whole = desk.path("prepare") / "data.safetensors"
    foreign = desk.root / "foreign.safetensors"
    foreign.write_bytes(whole.read_bytes()[:-1] if content == "cut" else content)
    words = desk.pretrain()
    words[words.index(str(Path("results/mini/runs/poisoning/prepare/data.safetensors")))] = str(foreign)
    line = refused(desk, words)
    assert line.startswith(f"relearn poisoning pretrain: {foreign}: ")


class Payload:
    """What a hostile pickle does when it is loaded."""

    def __reduce__(self) -> Any:
        return (open, ("owned", "w"))


@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_hostile_checkpoint_of_weights_runs_nothing(desk: Any, kind: str) -> None:
    file = desk.root / "weights.safetensors"
    if kind == "pickle":
        file.write_bytes(pickle.dumps(Payload()))
    else:
        torch.save({"weights": Payload()}, file)
    words = desk.craft()
    words[words.index("results/mini/runs/poisoning/net/weights.safetensors")] = "weights.safetensors"
    line = refused(desk, words, "craft")
    assert "weights.safetensors: not a safetensors file" in line and not (desk.root / "owned").exists()


def test_a_hostile_checkpoint_of_the_work_folder_runs_nothing(desk: Any, reference: Any) -> None:
    job = desk.run(*desk.pretrain())
    desk.reached(10, job)
    job.kill()
    job.wait()
    for file in (desk.root / "results/mini/work").rglob("[01].*"):
        file.write_bytes(pickle.dumps(Payload()))
    job = desk.run(*desk.pretrain())
    assert job.wait() == 0, job.said
    assert "no sound checkpoint is left, starting again" in job.said and not (desk.root / "owned").exists()
    assert desk.outputs("net") == reference.outputs("net")


def test_a_hostile_array_runs_nothing(desk: Any) -> None:
    folder = desk.root / "mirror/cifar10"
    folder.mkdir(parents=True)
    hostile = io.BytesIO()
    np.save(hostile, np.array([Payload()], dtype=object), allow_pickle=True)
    for part in ("train", "test"):
        for what in ("images", "labels"):
            (folder / f"{part}_{what}.npy").write_bytes(hostile.getvalue())
    split = {"dataset": "cifar10", "pretrain_per_class": 5, "fine_tune_per_class": 2, "pool_per_class": 3}
    job = desk.run(*desk.words("prepare_images", "cifar", split), RELEARN_MIRROR=str(desk.root / "mirror"))
    assert job.wait() == 2
    assert "train_images.npy: not a plain array" in job.last and not (desk.root / "owned").exists()


def test_nothing_here_loads_a_pickle() -> None:
    """But one reader of foreign files, which calls only the constructors of arrays and pictures; its own test tries hostile ones."""
    assert {name for module, name in public_benchmark.ALLOWED} == {
        *("_reconstruct", "scalar", "ndarray", "dtype", "_frombuffer"),
        *("Image", "encode"),
    }
    reader = SOURCE / "data/public_benchmark.py"
    assert reader.read_text(encoding="utf-8").count("pickle.Unpickler)") == 1
    assert "pickle.load" not in reader.read_text(encoding="utf-8")
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "weights_only=False" not in text and "allow_pickle=True" not in text, file
        for word in (
            "import pickle",
            "import joblib",
            "import dill",
            "cloudpickle",
            "os.system(",
            "shell=True",
        ):
            assert word not in text or (file == reader and word == "import pickle"), f"{file}: {word}"
        readers = ("torch.load(", '("timm.models").load_state_dict(')  # timm's reads with torch's
        assert sum(map(text.count, readers)) == text.count("weights_only=True"), file


def test_without_the_net_it_says_what_to_fetch_and_where_to_put_it(desk: Any) -> None:
    split = {"dataset": "cifar10", "pretrain_per_class": 5, "fine_tune_per_class": 2, "pool_per_class": 3}
    cache = desk.root / "cache"
    words = desk.words("prepare_images", "cifar", split)
    job = desk.run(*words, RELEARN_OFFLINE="1", RELEARN_CACHE=str(cache), RELEARN_MIRROR="")
    assert job.wait() == 3, job.said
    assert "RELEARN_OFFLINE is set; by hand: fetch https://" in job.last
    assert f"and put it at {cache / 'cifar-10-binary.tar.gz'}" in job.last


def test_offline_everything_that_is_here_works(desk: Any) -> None:
    shutil.rmtree(desk.path("prepare"))
    from_here = {
        "dataset": "digits",
        "pretrain_per_class": 12,
        "fine_tune_per_class": 10,
        "pool_per_class": 14,
    }
    job = desk.run(
        *desk.words("prepare_images", "prepare", from_here),
        RELEARN_OFFLINE="1",
        https_proxy="http://127.0.0.1:9",
    )
    assert job.wait() == 0, job.said
