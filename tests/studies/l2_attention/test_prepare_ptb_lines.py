"""The characters step from settings to record, on the documentation's text and on the treebank where it is at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relearn import cli
from relearn.data.characters import load_characters
from relearn.data.ngrams import cross_entropies
from relearn.data.text_lines import load_text
from relearn.runs import record

SETTINGS = {
    "dataset": "pydoc_topics",
    "max_length": 70,
    "train_sentences": 300,
    "valid_sentences": 40,
    "test_sentences": 50,
}


def run(out: Path, **changes: object) -> dict:
    settings = SETTINGS | changes
    words = [
        "l2_attention",
        "prepare_ptb_lines",
        "--settings",
        json.dumps(settings),
        "--out",
        str(out),
        "--device",
        "cpu",
    ]
    assert cli.main([*words, "--label", f"dataset={settings['dataset']}"]) == 0
    return record.read(out)


def out_of(root: Path, name: str = "one") -> Path:
    return root / "results/mini/runs/l2_attention/prepare_ptb_lines" / name


def test_from_settings_to_record(tmp_path: Path) -> None:
    out = out_of(tmp_path)
    done = run(out)
    assert record.verify_outputs(done) == [] and done["labels"] == {"dataset": "pydoc_topics"}
    got, raw = load_characters(out / "characters.safetensors"), load_text("pydoc_topics")
    metrics = done["metrics"]
    for part, count in {"train": 300, "valid": 40, "test": 50}.items():
        lines = got.part(part)
        assert metrics[f"{part}_sentences_count"] == len(lines) == count
        assert metrics[f"{part}_characters_count"] == len(lines.ids)
        texts = [got.decode(lines[i].tolist()) for i in range(count)]
        assert part != "train" or set(texts) <= set(raw.train)
        assert max(map(len, texts)) <= metrics["longest_count"] <= 70 == got.max_length
    every = [line for part in (raw.train, raw.valid, raw.test) for line in part]
    long = sum(len(line) > 70 for line in every)
    assert long > 0 and metrics["left_out_frac"] == long / len(every)
    assert metrics["vocabulary_count"] == got.vocabulary
    wanted = cross_entropies(got.flat("train"), got.flat("test"), vocabulary=got.vocabulary)
    assert (metrics["unigram_nats"], metrics["bigram_nats"]) == wanted and wanted[1] < wanted[0] < 4
    assert json.loads(done["notes"][0].removeprefix("source: ")) == raw.source


def test_equal_settings_make_equal_bytes(tmp_path: Path) -> None:
    shas = {
        run(out_of(tmp_path, name))["outputs"]["characters.safetensors"]["sha256"] for name in ("one", "two")
    }
    other = run(out_of(tmp_path, "other"), max_length=60)["outputs"]["characters.safetensors"]["sha256"]
    assert len(shas) == 1 and other not in shas


def test_a_fault_leaves_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of(tmp_path)
    settings = json.dumps(SETTINGS | {"dataset": "text8"})
    words = ["l2_attention", "prepare_ptb_lines", "--settings", settings, "--out", str(out)]
    assert cli.main([*words, "--label", "dataset=text8", "--device", "cpu"]) != 0
    assert "text 'text8' is unknown; allowed: pydoc_topics, ptb" in capsys.readouterr().err
    assert not (out / "record.json").exists()


def test_the_step_needs_no_torch(tmp_path: Path) -> None:
    code = """
import sys
from types import SimpleNamespace
from pathlib import Path
from relearn.studies.l2_attention.steps import prepare_ptb_lines as characters
assert characters.NEEDS_TORCH is False
run = SimpleNamespace(output=lambda name: Path(sys.argv[1]) / name, finish=lambda metrics, notes: None)
characters.run(run, eval(sys.argv[2]), {}, "cpu", "fp32")
heavy = {"torch", "tokenizers", "sklearn", "pandas", "pooch", "pydantic", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path), str(SETTINGS)], check=True)
    assert (tmp_path / "characters.safetensors").is_file()


MIRROR = os.environ.get("RELEARN_MIRROR", "")


@pytest.mark.skipif(
    not MIRROR or not (Path(MIRROR) / "ptb").is_dir(),
    reason="RELEARN_MIRROR names no folder with the real Penn Treebank",
)
def test_real_treebank(tmp_path: Path) -> None:
    whole = {"train_sentences": 0, "valid_sentences": 0, "test_sentences": 0}
    done = run(out_of(tmp_path), dataset="ptb", max_length=288, **whole)
    metrics = done["metrics"]
    counts = [metrics[f"{part}_sentences_count"] for part in ("train", "valid", "test")]
    assert counts == [41740, 3356, 3735] and metrics["vocabulary_count"] == 53
    assert metrics["left_out_frac"] == pytest.approx(368 / 49199) and metrics["longest_count"] == 288
    assert metrics["unigram_nats"] == pytest.approx(3.01277, abs=1e-5)
    assert metrics["bigram_nats"] == pytest.approx(2.33271, abs=1e-5)
    assert json.loads(done["notes"][0].removeprefix("source: "))["copy"] == "official"
