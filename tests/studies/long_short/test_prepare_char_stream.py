"""prepare_char_stream, from settings to record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relearn import cli
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
