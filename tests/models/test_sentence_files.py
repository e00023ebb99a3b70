"""Sentence models as files: the same numbers, kind and tokenizer; the encoder alone; what is no such file.

A translation network comes back from its file bit for bit, with what is fixed in it; other files are refused in one line.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from relearn.layers.residual import KINDS
from relearn.models import post_ln_transformer
from relearn.models import sentence_encoder_files as files
from relearn.models.post_ln_transformer import PostLNTransformer
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
CLASSES = {"classification": 3, "regression": 1, "ranking": 1}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_gives_the_model_back(family: str, tmp_path: Path) -> None:
    tokens = torch.randint(3, 30, (2, 2, 9))
    real = torch.ones(2, 2, 9).bool()
    for kind, classes in CLASSES.items():
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


TINY = dict(dim=8, ffn=12, heads=2, encoder_layers=2, decoder_layers=1, dropout=0.25)


@pytest.mark.parametrize("residual", KINDS)
@pytest.mark.parametrize("share", ["all", "decoder", "none"])
def test_round_trip_keeps_every_bit(tmp_path, residual: str, share: str) -> None:
    torch.manual_seed(0)
    net = PostLNTransformer(11, **TINY, residual=residual, share=share)
    post_ln_transformer.FILE.save(net, tmp_path / "n.safetensors")
    state = torch.get_rng_state()
    back = post_ln_transformer.FILE.load(tmp_path / "n.safetensors")
    assert torch.equal(torch.get_rng_state(), state)
    assert not back.training and back.description == net.description
    for (name, a), (other, b) in zip(net.state_dict().items(), back.state_dict().items(), strict=True):
        assert name == other and torch.equal(a, b)
    back.train()
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6]])
    torch.manual_seed(1)
    expected = net.train()(source, target)
    torch.manual_seed(1)
    assert torch.equal(back(source, target), expected)  # the dropout is the same too


def test_a_skip_fixed_after_building_stays_fixed(tmp_path) -> None:
    net = PostLNTransformer(11, **TINY, residual="w_skip")
    for stack in net.residual_stacks().values():
        for joint in stack:
            joint.w_skip.requires_grad_(False)
    post_ln_transformer.FILE.save(net, tmp_path / "n.safetensors")
    back = post_ln_transformer.FILE.load(tmp_path / "n.safetensors")
    frozen = {name for name, parameter in back.named_parameters() if not parameter.requires_grad}
    assert frozen == {name for name, _ in net.named_parameters() if name.endswith("w_skip")} != set()


def test_files_that_are_no_networks_are_named(tmp_path) -> None:
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"<html>not found</html>")
    bare = tmp_path / "bare.safetensors"
    save_file({"x": torch.zeros(1)}, bare)
    wrong = tmp_path / "wrong.safetensors"
    net = PostLNTransformer(11, **TINY)
    net._description["ffn"] = 16
    post_ln_transformer.FILE.save(net, wrong)
    for path, words in ((junk, "not the weights"), (bare, "no description"), (wrong, "not the weights")):
        with pytest.raises(ValueError, match=words) as error:
            post_ln_transformer.FILE.load(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
