"""prepare_char_stream, from settings to record.

prepare_lra: the record agrees with the file for each task without a download; seeds; one-line refusals.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from relearn import cli
from relearn.data.lra.sequences import load
from relearn.data.prepared_stream import load_prepared_stream
from relearn.data.streams import load_stream
from relearn.runs import record


def step(out: Path, **settings: object) -> int:
    words = ["long_short", "prepare_char_stream", "--settings", json.dumps(settings), "--device", "cpu"]
    return cli.main([*words, "--out", str(out), "--label", f"dataset={settings['dataset']}"])


def test_from_settings_to_record(tmp_path: Path) -> None:
    out = tmp_path / "runs/long_short/stream/pydoc_topics/seed0"
    assert step(out, dataset="pydoc_topics", characters=2000) == 0
    done = record.read(out)
    assert record.verify_outputs(done) == [] and set(done["outputs"]) == {"stream.safetensors"}
    assert done["paper"] == "zhu2022" and done["notes"][0].startswith("source: {")
    stream = load_prepared_stream(out / "stream.safetensors")
    metrics = done["metrics"]
    assert [metrics[f"{part}_characters_count"] for part in stream.parts] == [1800, 100, 100]
    assert metrics["vocabulary_count"] == stream.vocabulary
    assert 0 < metrics["bigram_bpc"] < metrics["unigram_bpc"] < 8
    content = load_stream("pydoc_topics").content
    assert stream.decode(stream.parts["train"].tolist()) == content[:1800]


def test_an_own_text_lies_in_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mirror/own_text").mkdir(parents=True)
    (tmp_path / "mirror/own_text/mine.txt").write_bytes(b"abcd" * 100)
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path / "mirror"))
    assert step(tmp_path / "run", dataset="own_text", characters=0) == 0
    done = record.read(tmp_path / "run")
    assert done["metrics"]["vocabulary_count"] == 4
    assert "mine" not in json.dumps(done["notes"]) and str(tmp_path) not in json.dumps(done["notes"])


def test_an_unknown_stream_ends_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert step(tmp_path / "run", dataset="enwik7", characters=0) != 0
    assert "stream 'enwik7' is unknown; allowed: enwik8, text8" in capsys.readouterr().err


TASKS = {
    "listops": ("generated", {"min_length": 10, "max_length": 60, "max_depth": 3}),
    "text": ("python", {}),
    "retrieval": ("python_kinds", {}),
    "image": ("digits", {}),
    "pathfinder": (
        "generated",
        {"size": 16, "dashes": 4, "distractors": 1, "dash": 1.0, "gap": 1.0, "clearance": 1.7},
    ),
}


def words(out: Path, task: str, *, seed: int = 0, **changes: object) -> list[str]:
    dataset, form = TASKS[task]
    settings = {"task": task, "dataset": dataset, "max_length": 64, "form": form}
    settings |= {"train_samples": 30, "valid_samples": 6, "test_samples": 8, **changes}
    found = ["long_short", "prepare_lra", "--settings", json.dumps(settings), "--device", "cpu"]
    return [*found, "--out", str(out), "--seed", str(seed), "--label", f"task={task}"]


@pytest.mark.parametrize("task", TASKS)
def test_the_record_says_what_the_file_holds(tmp_path: Path, task: str) -> None:
    out = tmp_path / "results/mini/runs/long_short/sequences" / task
    length = 256 if task == "pathfinder" else 64
    assert cli.main(words(out, task, max_length=length)) == 0
    done, data = record.read(out), load(out / "data.safetensors")
    assert record.verify_outputs(done) == [] and set(done["outputs"]) == {"data.safetensors"}
    assert (data.task, data.dataset, data.max_length) == (task, TASKS[task][0], length)
    metrics = done["metrics"]
    for part, count in (("train", 30), ("valid", 6), ("test", 8)):
        assert metrics[f"{part}_samples_count"] == len(data.part(part)) == count
    assert metrics["vocabulary_count"] == data.vocabulary and metrics["classes_count"] == data.classes
    assert metrics["longest_count"] == np.diff(data.part("train").offsets).max()
    assert f"version: {data.version}" in done["notes"]
    assert json.loads(done["notes"][1].removeprefix("source: "))["from"]
    assert bool(data.perturbed) == (task in ("text", "retrieval"))
    assert data.padded == (task in ("listops", "text", "retrieval"))


def test_the_seed_is_the_runs(tmp_path: Path) -> None:
    versions = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        out = tmp_path / "results/mini/runs/long_short" / name
        assert cli.main(words(out, "listops", seed=seed)) == 0
        versions.append(load(out / "data.safetensors").version)
    assert versions[0] == versions[1] != versions[2]


@pytest.mark.parametrize(
    ("task", "changes", "said"),
    [
        ("text", {"dataset": "wikipedia"}, "dataset is 'wikipedia'"),
        ("listops", {"form": {"depth": 3}}, "form: "),
        ("image", {"train_samples": -3}, "samples is -3"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, changes: dict, said: str
) -> None:
    out = tmp_path / "results/mini/runs/long_short/x"
    assert cli.main(words(out, task, **changes)) != 0
    assert said in capsys.readouterr().err.strip().splitlines()[-1]
