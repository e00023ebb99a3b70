"""Sentence models as files: the same numbers, kind and tokenizer; the encoder alone; what is no such file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from relearn.models import sentence_encoder_files as files
from relearn.models.sentence_encoder import FAMILIES, classifier, configuration, guesser, take_encoder

SIZES: dict[str, Any] = {
    "layers": 1,
    "dim": 16,
    "heads": 2,
    "ffn": 16,
    "embedding_dim": 8,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "max_length": 9,
    "vocabulary": 30,
    "special": {"bos": 0, "pad": 1, "eos": 2},
}
KINDS = {"classification": 3, "regression": 1, "ranking": 1}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_gives_the_model_back(family: str, tmp_path: Path) -> None:
    tokens = torch.randint(3, 30, (2, 2, 9))
    real = torch.ones(2, 2, 9).bool()
    for kind, classes in KINDS.items():
        net = classifier(configuration(family, **SIZES), kind, classes).eval()
        files.save(net, tmp_path / "a", '{"its": "json"}')
        state = torch.get_rng_state()
        again, tokenizer = files.load(tmp_path / "a")
        assert torch.equal(torch.get_rng_state(), state)
        assert (again.kind, again.classes, tokenizer) == (kind, classes, '{"its": "json"}')
        given = (tokens, real) if kind == "ranking" else (tokens[0], real[0])
        assert torch.equal(again(*given), net(*given)) and not again.training
        files.save(again, tmp_path / "b", tokenizer)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_encoder_goes_on_in_a_classifier(family: str, tmp_path: Path) -> None:
    guesses = guesser(configuration(family, **SIZES))
    files.save_encoder(guesses.net, tmp_path / "a", "text")
    config, state, said = files.load_encoder(tmp_path / "a")
    assert said == {"kind": "encoder", "classes": 0, "tokenizer": "text", "head": {}}
    net = classifier(config, "classification", 2)
    take_encoder(net, state)
    own = guesses.net.base_model.state_dict()
    assert own and all(torch.equal(net.net.base_model.state_dict()[name], one) for name, one in own.items())
    files.save(net, tmp_path / "b", "text")
    config, state, said = files.load_encoder(tmp_path / "b")
    assert {**net.net.base_model.state_dict()}.keys() == state.keys() and said["kind"] == "classification"
    result = net.net.load_state_dict(said["head"], strict=False)
    assert said["head"] and not result.unexpected_keys
    assert all(name.startswith(family + ".") for name in result.missing_keys)
    with pytest.raises(ValueError, match="kind: 'encoder'"):
        files.load(tmp_path / "a")


def test_what_is_no_such_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no tensors")
    save_file({"a": torch.zeros(2)}, tmp_path / "other")
    for read in (files.load, files.load_encoder):
        with pytest.raises(ValueError, match="text: not the weights of a sentence model"):
            read(tmp_path / "text")
        with pytest.raises(ValueError, match="other: no description of a sentence model"):
            read(tmp_path / "other")
