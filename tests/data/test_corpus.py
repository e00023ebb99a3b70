"""The prepared corpus: text → ids → text, train alone shapes the vocabulary, counts are those of a slow count."""

from pathlib import Path

import numpy as np
import pytest

from relearn.data import number_words
from relearn.data.bpe import UNK
from relearn.data.corpus import PreparedCorpus, load_corpus, prepare, save_corpus
from relearn.data.evenly_spaced import evenly_spaced_rows
from relearn.data.sentence_pairs import PARTS, Corpus

SIZES = {"name": "number_words", "vocabulary": 90, "max_length": 100}


def corpus(**changes: list[tuple[str, str]]) -> Corpus:
    whole = number_words.load()
    parts = {"train": whole.train[:300], "valid": whole.valid[:20], "test": whole.test[:30]} | changes
    return Corpus(**parts, languages=("de", "en"), source={})


@pytest.fixture(scope="module")
def made() -> tuple[PreparedCorpus, dict[str, float]]:
    return prepare(corpus(), **SIZES)


def test_ids_give_every_sentence_back(made: tuple, tmp_path: Path) -> None:
    save_corpus(made[0], tmp_path / "corpus.safetensors")
    got, raw = load_corpus(tmp_path / "corpus.safetensors"), corpus()
    assert got.dataset == "number_words" and got.languages == ("de", "en") and got.vocabulary == 90
    for part in PARTS:
        pairs = got.pairs(part)
        assert [tuple(got.decode(side.tolist()) for side in pairs[i]) for i in range(len(pairs))] == getattr(
            raw, part
        )
    for part in ("valid", "test"):
        texts = list(zip(got.texts(part, "source"), got.texts(part)))
        assert texts == getattr(raw, part)
    again = tmp_path / "again.safetensors"
    save_corpus(prepare(corpus(), **SIZES)[0], again)
    assert again.read_bytes() == (tmp_path / "corpus.safetensors").read_bytes()
    assert again.stat().st_mode & 0o444 == 0o444 & ~_umask()


def _umask() -> int:
    import os

    old = os.umask(0)
    os.umask(old)
    return old


def test_texts_of_valid_and_test_are_kept_as_people_wrote_them() -> None:
    odd = [("„Äpfel“ – 3 € 日本", "“Apples” – 3 € 日本")]
    got, metrics = prepare(corpus(test=odd), **SIZES)
    assert list(zip(got.texts("test", "source"), got.texts("test"))) == odd
    assert "<unk>" in got.decode(got.pairs("test")[0][0].tolist())
    for side, name in enumerate(("source", "target")):
        flat = got.pairs("test")[0][side]
        share = (flat == UNK).double().mean().item()
        assert share > 0 and metrics[f"test_{name}_unknown_frac"] == pytest.approx(share)


def test_only_train_shapes_the_vocabulary(made: tuple) -> None:
    other = [("xylophon " * 50).strip()] * 2
    assert (
        prepare(corpus(valid=[tuple(other)], test=[tuple(other)]), **SIZES)[0].tokenizer_json
        == made[0].tokenizer_json
    )
    # The control: the same sentence in train changes it.
    assert prepare(corpus(train=[tuple(other)] * 9), **SIZES)[0].tokenizer_json != made[0].tokenizer_json


def test_long_training_pairs_go_and_no_other() -> None:
    lengths = [max(map(len, pair)) for pair in _token_lengths(prepare(corpus(), **SIZES)[0], "train")]
    limit = sorted(lengths)[150]
    got, metrics = prepare(corpus(), **(SIZES | {"max_length": limit}))
    dropped = sum(length > limit for length in lengths)
    assert 0 < dropped == metrics["dropped_long_count"] and metrics["train_pairs_count"] == 300 - dropped
    assert len(got.pairs("train")) == 300 - dropped and len(got.pairs("test")) == 30
    kept = [pair for pair, length in zip(corpus().train, lengths) if length <= limit]
    assert [got.decode(got.pairs("train")[i][0].tolist()) for i in range(len(kept))] == [a for a, _ in kept]
    with pytest.raises(ValueError, match=r"max_length is 1; allowed: at least the shortest training pair"):
        prepare(corpus(), **(SIZES | {"max_length": 1}))
    with pytest.raises(ValueError, match=r"max_length is 0; allowed: 1 or more"):
        prepare(corpus(), **(SIZES | {"max_length": 0}))


def _token_lengths(prepared: PreparedCorpus, part: str) -> list[tuple]:
    pairs = prepared.pairs(part)
    return [pairs[i] for i in range(len(pairs))]


def test_metrics_are_those_of_a_slow_count() -> None:
    leaking = [*corpus().test[:7], *corpus().train[:5]]
    got, metrics = prepare(corpus(test=leaking), **SIZES, train_pairs=100, test_pairs=6)
    chosen, tested = evenly_spaced_rows(corpus().train, 100), evenly_spaced_rows(leaking, 6)
    counts = {"train": 100, "valid": 6, "test": 6}
    for part, count in counts.items():
        assert metrics[f"{part}_pairs_count"] == count
        for side, name in enumerate(("source", "target")):
            lengths = [len(pair[side]) for pair in _token_lengths(got, part)]
            assert metrics[f"{part}_{name}_tokens_mean_count"] == pytest.approx(sum(lengths) / count)
            assert metrics[f"{part}_{name}_tokens_max_count"] == max(lengths)
    known = {a for a, _ in chosen}
    assert metrics["test_sources_in_train_count"] == sum(a in known for a, _ in tested)
    full = prepare(corpus(test=leaking), **SIZES)[1]
    assert full["test_sources_in_train_count"] == 5 and full["valid_sources_in_train_count"] == 0


def test_faults(made: tuple, tmp_path: Path) -> None:
    got = made[0]
    with pytest.raises(ValueError, match="part is 'dev'; allowed: train, valid, test"):
        got.pairs("dev")
    with pytest.raises(ValueError, match="part is 'train'; allowed: valid, test"):
        got.texts("train")
    with pytest.raises(ValueError, match="side is 'de'; allowed: source, target"):
        got.texts("test", "de")
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = tmp_path / "other.safetensors"
    save_file({"images": np.zeros(3)}, path)
    with pytest.raises(
        ValueError, match=r"other.safetensors: not a prepared corpus, corpus, languages, tokenizer"
    ):
        load_corpus(path)
    path.write_bytes(b"cut")
    with pytest.raises(SafetensorError, match=r"other.safetensors: .*relearn gradinit prepare_translation"):
        load_corpus(path)
