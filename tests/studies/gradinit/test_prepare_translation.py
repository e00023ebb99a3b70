"""`prepare_translation` from settings to record, on the number words and on real sentences where they are at hand."""

import json
import os
from pathlib import Path

import pytest

from relearn.data.corpus import load_corpus
from relearn.data.sentence_pairs import load_pairs
from relearn.runs import record
from relearn.studies.gradinit.steps import prepare_translation as corpus

from ...steps.recorded import made_by

SETTINGS = {
    "dataset": "number_words",
    "vocabulary": 100,
    "max_length": 60,
    "train_pairs": 500,
    "test_pairs": 40,
}


def run(out: Path, **changes: object) -> dict:
    settings = SETTINGS | changes
    return made_by(corpus, out, settings, {"dataset": str(settings["dataset"])}, study="gradinit")


def test_number_words_from_settings_to_record(tmp_path: Path) -> None:
    out = tmp_path / "runs/gradinit/prepare_translation/number_words"
    done = run(out)
    assert record.verify_outputs(done) == []
    got, raw = load_corpus(out / "corpus.safetensors"), load_pairs("number_words")
    metrics = done["metrics"]
    counts = {"train": 500, "valid": 40, "test": 40}
    for part, count in counts.items():
        assert metrics[f"{part}_pairs_count"] == len(got.pairs(part)) == count
    assert metrics["vocabulary_count"] == got.vocabulary == 100
    assert metrics["test_source_unknown_frac"] == metrics["test_sources_in_train_count"] == 0
    assert set(zip(got.texts("test", "source"), got.texts("test"))) <= set(raw.test)
    assert json.loads(done["notes"][0].removeprefix("source: ")) == raw.source


def test_a_text_that_is_too_short_for_the_vocabulary_is_noted(tmp_path: Path) -> None:
    other = run(tmp_path, vocabulary=5000)
    assert other["metrics"]["vocabulary_count"] < 5000
    assert any(note.startswith("vocabulary: ") for note in other["notes"])


def test_a_fault_leaves_no_record(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="corpus 'europarl' is unknown; allowed: number_words"):
        run(tmp_path / "one", dataset="europarl")
    assert not (tmp_path / "one" / "record.json").exists()


MIRROR = os.environ.get("RELEARN_MIRROR", "")


@pytest.mark.skipif(
    not MIRROR or not (Path(MIRROR) / "multi30k").is_dir(),
    reason="RELEARN_MIRROR names no folder with the real Multi30k",
)
def test_the_real_multi30k_is_prepared_whole(tmp_path: Path) -> None:
    done = run(tmp_path, dataset="multi30k", vocabulary=2000, max_length=80, train_pairs=3000, test_pairs=0)
    metrics, got = done["metrics"], load_corpus(tmp_path / "corpus.safetensors")
    assert (metrics["valid_pairs_count"], metrics["test_pairs_count"]) == (1014, 1000)
    assert metrics["train_pairs_count"] + metrics["dropped_long_count"] == 3000
    raw = load_pairs("multi30k", folder=Path(MIRROR) / "multi30k")
    assert list(zip(got.texts("test", "source"), got.texts("test"))) == raw.test
    pairs = got.pairs("test")
    known = [i for i in range(len(pairs)) if not any((side == 3).any() for side in pairs[i])]
    assert len(known) > 900
    for i in known:
        assert tuple(got.decode(side.tolist()) for side in pairs[i]) == raw.test[i]
