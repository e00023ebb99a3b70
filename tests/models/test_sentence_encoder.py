"""Sentence encoders: against transformers' own outputs, candidate by candidate, padding; checkpoints in a folder; bad input."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from relearn.models import sentence_encoder as encoders
from relearn.models.sentence_encoder import FAMILIES, SentenceClassifier, classifier, configuration
from relearn.torchvision_schema import transformers

SPECIAL = {"bos": 0, "pad": 1, "eos": 2}
SIZES: dict[str, Any] = {
    "layers": 2,
    "dim": 16,
    "heads": 2,
    "ffn": 24,
    "embedding_dim": 8,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "max_length": 12,
    "vocabulary": 40,
    "special": SPECIAL,
}


def batch(*shape: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, real and types of rows of random lengths of at least 3."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, 40, shape, generator=generator)
    lengths = torch.randint(3, shape[-1] + 1, shape[:-1], generator=generator)
    lengths.view(-1)[0] = shape[-1]
    real = torch.arange(shape[-1]) < lengths[..., None]
    types = (torch.arange(shape[-1]) >= lengths[..., None] // 2) & real
    return tokens.where(real, torch.tensor(1)), real, types.long()


def model(family: str, kind: str = "classification", classes: int = 3, seed: int = 0) -> SentenceClassifier:
    torch.manual_seed(seed)
    return classifier(configuration(family, **SIZES), kind, classes).double().eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_the_librarys(family: str) -> None:
    """With masks and types handed over by hand; types count for all but RoBERTa, padding for none."""
    net, (tokens, real, types) = model(family), batch(4, 9)
    more = {} if family == "roberta" else {"token_type_ids": types}
    wanted = net.net(input_ids=tokens, attention_mask=real.long(), **more).logits
    assert torch.equal(net(tokens, real, types), wanted) and wanted.shape == (4, 3)
    assert torch.allclose(net(tokens, real), wanted) == (family == "roberta")
    end = int(real[1].sum())
    alone = net(tokens[1:2, :end], real[1:2, :end], types[1:2, :end])
    assert torch.allclose(alone, wanted[1:2], atol=1e-12)
    shifted = net(tokens[1:2, :end].flip(1), real[1:2, :end], types[1:2, :end])
    assert not torch.allclose(shifted, wanted[1:2], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_candidate_is_scored_by_itself(family: str) -> None:
    net, (tokens, real, types) = model(family, "ranking", 1), batch(3, 4, 8)
    scores = net(tokens, real, types)
    assert scores.shape == (3, 4)
    for sample in range(3):
        for one in range(4):
            place = (slice(sample, sample + 1), slice(one, one + 1))
            alone = net(tokens[place], real[place], types[place])
            assert torch.allclose(alone[0, 0], scores[sample, one], atol=1e-12)
    single = net(tokens[:, 1], real[:, 1], types[:, 1])
    assert single.shape == (3, 1) and torch.allclose(single[:, 0], scores[:, 1], atol=1e-12)


def test_a_candidate_that_is_none_changes_nothing() -> None:
    """Loss and gradient are those of the candidates that are there; without the mask they are others."""
    net, (tokens, real, types) = model("roberta", "ranking", 1), batch(2, 4, 8)
    tokens[1, 2:], real[1, 2:], types[1, 2:] = 1, False, 0
    labels = torch.tensor([3, 1])

    def gradient(loss: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss.backward()
        return torch.cat([one.grad.flatten() for one in net.parameters() if one.grad is not None])

    masks: list[torch.Tensor] = []
    handle = net.net.register_forward_pre_hook(
        lambda _, args, given: masks.append(given["attention_mask"]), with_kwargs=True
    )
    scores = net(tokens, real, types)
    handle.remove()
    assert masks[0].any(1).all()  # no row that attends to nothing, which is NaN in some attentions
    assert torch.equal(masks[0][:6], real.flatten(0, 1)[:6])
    assert scores[1, 2:].tolist() == [torch.finfo(torch.float64).min] * 2
    whole = gradient(cross_entropy(scores, labels))
    first = cross_entropy(net(tokens[:1], real[:1], types[:1]), labels[:1])
    second = cross_entropy(net(tokens[1:, :2], real[1:, :2], types[1:, :2]), labels[1:])
    assert torch.allclose(cross_entropy(scores, labels), (first + second) / 2)
    assert torch.allclose(whole, gradient((first + second) / 2), atol=1e-12)
    real[1, 2:, 0] = True
    assert not torch.allclose(cross_entropy(net(tokens, real, types), labels), (first + second) / 2)


def test_a_value_is_one_number_a_sample() -> None:
    net, (tokens, real, types) = model("bert", "regression", 1), batch(5, 7)
    wanted = net.net(input_ids=tokens, attention_mask=real.long(), token_type_ids=types).logits[:, 0]
    assert torch.equal(net(tokens, real, types), wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_guesses_are_of_hidden_tokens_alone(family: str) -> None:
    torch.manual_seed(1)
    net, (tokens, real, _) = encoders.guesser(configuration(family, **SIZES)).double().eval(), batch(3, 8)
    hidden = real & (torch.rand(3, 8) < 0.4)
    wanted = net.net(input_ids=tokens, attention_mask=real.long()).logits[hidden]
    assert torch.allclose(net(tokens, real, hidden), wanted, atol=1e-12) and len(wanted) > 2


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_are_what_was_asked_for(family: str) -> None:
    net = model(family)
    assert net.longest == 12 and net.classes == 3
    assert net.get_input_embeddings().weight.shape == (40, 8 if family == "albert" else 16)
    assert net.get_input_embeddings().padding_idx == 1
    rates = {name: one.p for name, one in net.named_modules() if isinstance(one, torch.nn.Dropout)}
    attention = {
        name: rate for name, rate in rates.items() if "attention.self" in name or "attention_drop" in name
    }
    others = {rate for name, rate in rates.items() if name not in attention}
    assert others == {0.1} and (not attention or set(attention.values()) == {0.2})
    assert net.net.config.attention_probs_dropout_prob == 0.2
    tokens, real, _ = batch(1, 12)
    assert net(tokens, real).isfinite().all()
    spread = float(
        net.net.base_model.encoder.state_dict()[
            "albert_layer_groups.0.albert_layers.0.ffn.weight"
            if family == "albert"
            else "layer.0.intermediate.dense.weight"
        ].std()
    )
    assert spread == pytest.approx(0.02 * (768 / 16) ** 0.5, rel=0.2)


def test_dropout_is_changed_or_left() -> None:
    config = configuration("albert", **SIZES)
    assert encoders.with_dropout(config, None, None) == config
    found = encoders.with_dropout(config, 0.3, None)
    assert {key for key in found if found[key] != config[key]} == {
        "hidden_dropout_prob",
        "classifier_dropout_prob",
    }
    assert encoders.with_dropout(config, None, 0.0)["attention_probs_dropout_prob"] == 0.0


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of masked language modelling, as a hub's."""
    path: Path = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(3)
    encoders.guesser(configuration(request.param, **SIZES)).net.save_pretrained(path)
    return path


def test_a_checkpoint_gives_its_encoder(folder: Path) -> None:
    torch.manual_seed(4)
    net = encoders.from_checkpoint(str(folder), "classification", 5, dropout=0.4)
    own = transformers().AutoModelForMaskedLM.from_pretrained(folder).base_model.state_dict()
    taken = net.net.base_model.state_dict()
    assert all(torch.equal(taken[name], one) for name, one in own.items())
    tokens, real, types = batch(2, 12)
    assert net(tokens, real, types).shape == (2, 5)
    assert net.net.config.hidden_dropout_prob == 0.4 and net.net.config.attention_probs_dropout_prob == 0.2
    torch.manual_seed(4)
    again = encoders.from_checkpoint(str(folder), "classification", 5)
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), again.state_dict().values()))
    fine = folder / "fine"
    net.net.save_pretrained(fine)
    kept = encoders.from_checkpoint(str(fine), "classification", 5)  # its own head
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), kept.state_dict().values()))
    assert encoders.from_checkpoint(str(fine), "ranking").classes == 1  # another task's is left out


def test_a_checkpoint_that_lacks_its_encoder_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    net = encoders.guesser(configuration("roberta", **SIZES)).net
    net.save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    name = "roberta.encoder.layer.1.output.dense.bias"
    save_file({key: one for key, one in state.items() if key != name}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=f"has no {name} that fits"):
        encoders.from_checkpoint(str(tmp_path), "classification", 2)
    save_file({**state, name: torch.zeros(3)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=f"has no {name} that fits"):
        encoders.from_checkpoint(str(tmp_path), "classification", 2)


def test_a_checkpoint_that_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"^encoder.checkpoint: .*: .* \(allowed: a model of the hub"
    ) as caught:
        encoders.from_checkpoint(str(tmp_path), "classification", 2)
    assert "\n" not in str(caught.value)
    other = transformers().GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=9)
    other.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"a gpt2 model \(allowed: roberta, bert, albert\)"):
        encoders.from_checkpoint(str(tmp_path), "classification", 2)


OFFLINE = """
from relearn.models.sentence_encoder import from_checkpoint
print(from_checkpoint("own/tiny", "classification", 2).classes)
try:
    from_checkpoint("own/absent", "classification", 2)
except ValueError as fault:
    print(fault)
"""


def test_a_name_of_the_hub_is_read_from_the_cache_or_refused_in_one_line(tmp_path: Path) -> None:
    """What is in the cache is read from there; what is not is one line."""
    snapshot = tmp_path / "models--own--tiny/snapshots/0123"
    encoders.guesser(configuration("bert", **SIZES)).net.save_pretrained(snapshot)
    (tmp_path / "models--own--tiny/refs").mkdir()
    (tmp_path / "models--own--tiny/refs/main").write_text("0123")
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], env=environment, capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == "2" and second.startswith("encoder.checkpoint: own/absent: ")


def test_an_encoder_moves_without_its_head() -> None:
    first, second = model("bert", seed=1), model("bert", "regression", 1, seed=2)
    kept = {name: one.clone() for name, one in second.net.classifier.state_dict().items()}
    encoders.take_encoder(second, first.net.base_model.state_dict())
    taken = second.net.base_model.state_dict()
    assert all(torch.equal(taken[name], one) for name, one in first.net.base_model.state_dict().items())
    assert all(torch.equal(second.net.classifier.state_dict()[name], one) for name, one in kept.items())
    state = {name: one for name, one in taken.items() if not name.startswith("pooler.")}
    encoders.take_encoder(second, state)
    gone = state.pop("encoder.layer.1.output.dense.bias")
    with pytest.raises(ValueError, match=r"encoder\.layer\.1\.output\.dense\.bias is missing"):
        encoders.take_encoder(second, state)
    with pytest.raises(ValueError, match="other is not known"):
        encoders.take_encoder(second, {**state, "encoder.layer.1.output.dense.bias": gone, "other": gone})
    with pytest.raises(ValueError, match=r"its weights do not fit: .*size mismatch"):
        encoders.take_encoder(second, {**state, "encoder.layer.1.output.dense.bias": gone[:3]})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": 0}, r"encoder.layers: 0 \(allowed: at least 1\)"),
        ({"heads": 3}, r"encoder.heads: 3 \(allowed: a divisor of dim, 16\)"),
        ({"dropout": 1.0}, r"^dropout: 1.0 \(allowed: 0 <= rate < 1\)"),
        ({"attention_dropout": -0.1}, r"^attention_dropout: -0.1"),
        ({"embedding_dim": None}, r"encoder.embedding_dim: 0"),
    ],
)
def test_sizes_that_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        configuration("albert", **{**SIZES, **change})


def test_wrong_arguments_are_refused() -> None:
    config = configuration("roberta", **SIZES)
    with pytest.raises(ValueError, match=r"encoder.family: 'xlnet' \(allowed: roberta, bert, albert\)"):
        configuration("xlnet", **SIZES)
    with pytest.raises(ValueError, match=r"kind: 'tags' \(allowed: classification, regression, ranking\)"):
        classifier(config, "tags", 2)
    with pytest.raises(ValueError, match=r"classes: 1 \(allowed: at least 2 classes\)"):
        classifier(config, "classification", 1)
    with pytest.raises(ValueError, match=r"classes: 3 \(allowed: 1, a regression task has one output\)"):
        classifier(config, "regression", 3)
    net, (tokens, real, _) = classifier(config, "classification", 2), batch(2, 3, 5)
    with pytest.raises(
        ValueError, match=r"tokens: shape \(2, 3, 5\) \(allowed: \(B, n\) for classification\)"
    ):
        net(tokens, real)
    with pytest.raises(
        ValueError, match=r"tokens: shape \(5,\) \(allowed: \(B, n\), \(B, C, n\) for ranking\)"
    ):
        classifier(config, "ranking")(tokens[0, 0], real[0, 0])
    blind = net.net
    blind.get_input_embeddings = lambda: None
    with pytest.raises(ValueError, match="model: RobertaForSequenceClassification has no input embeddings"):
        SentenceClassifier(blind, "classification")
