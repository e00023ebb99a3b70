"""The characters step from settings to record, on the documentation's text and on the treebank where it is at hand."""

import json
import os
from pathlib import Path

import pytest

from relearn.data.characters import load_characters
from relearn.data.ngrams import cross_entropies
from relearn.data.text_lines import load_text
from relearn.studies.l2_attention.steps import prepare_ptb_lines

from ...steps.recorded import made_by

SETTINGS = {
    "dataset": "pydoc_topics",
    "max_length": 70,
    "train_sentences": 300,
    "valid_sentences": 40,
    "test_sentences": 50,
}


def run(out: Path, **changes: object) -> dict:
    settings = SETTINGS | changes
    return made_by(
        prepare_ptb_lines, out, settings, {"dataset": str(settings["dataset"])}, study="l2_attention"
    )


def test_from_settings_to_record(tmp_path: Path) -> None:
    out = tmp_path / "runs/l2_attention/prepare_ptb_lines/pydoc_topics"
    done = run(out)
    assert done["labels"] == {"dataset": "pydoc_topics"}
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


MIRROR = os.environ.get("RELEARN_MIRROR", "")


@pytest.mark.skipif(
    not MIRROR or not (Path(MIRROR) / "ptb").is_dir(),
    reason="RELEARN_MIRROR names no folder with the real Penn Treebank",
)
def test_the_real_treebank_is_prepared_whole(tmp_path: Path) -> None:
    whole = {"train_sentences": 0, "valid_sentences": 0, "test_sentences": 0}
    done = run(tmp_path, dataset="ptb", max_length=288, **whole)
    metrics = done["metrics"]
    counts = [metrics[f"{part}_sentences_count"] for part in ("train", "valid", "test")]
    assert counts == [41740, 3356, 3735] and metrics["vocabulary_count"] == 53
    assert metrics["left_out_frac"] == pytest.approx(368 / 49199) and metrics["longest_count"] == 288
    assert metrics["unigram_nats"] == pytest.approx(3.01277, abs=1e-5)
    assert metrics["bigram_nats"] == pytest.approx(2.33271, abs=1e-5)
    assert json.loads(done["notes"][0].removeprefix("source: "))["copy"] == "official"
