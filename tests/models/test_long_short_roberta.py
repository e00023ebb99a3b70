"""RoBERTa converted to long-short attention: what stays, what is new, what it equals; folders and files; bad input."""

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relearn.layers.long_short_attention import LongShortAttention
from relearn.models import long_short_roberta_files as files
from relearn.models.long_short_roberta import (
    attention_inputs,
    build,
    classifier,
    closest,
    convert,
    load,
)
from relearn.models.roberta_calls import Classes, Guesses
from relearn.torchvision_schema import transformers

HEADS = ("RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification")
N = 24  # positions of the small checkpoint


def roberta(kind: str = "RobertaForMaskedLM", seed: int = 0, **changes: Any) -> Any:
    torch.manual_seed(seed)
    sizes: dict[str, Any] = dict(
        vocab_size=40,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=N + 2,
        type_vocab_size=1,
        initializer_range=0.5,
    )
    config = transformers().RobertaConfig(**{**sizes, **changes})
    model = getattr(transformers(), kind)(config).double().eval()
    for parameter in model.parameters():  # biases and norms, too
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def tokens(length: int, *ends: int) -> tuple[Tensor, Tensor]:
    """Sequences that end there, and their mask."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(5, 40, (len(ends), length), generator=generator)
    ids[:, 0] = 0
    mask = torch.arange(length) < torch.tensor(ends)[:, None]
    return ids.masked_fill(~mask, 1), mask


def attention(model: Any, layer: int = 0) -> LongShortAttention:
    one: LongShortAttention = model.base_model.encoder.layer[layer].attention.self.attention
    return one


@torch.no_grad()
def outputs(model: Any, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """The first output, of real tokens alone."""
    found: Tensor = model(ids, attention_mask=mask)[0]
    return found if mask is None or found.dim() == 2 else found[mask]


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("window", [N, 3 * N])
def test_a_window_over_everything_is_the_checkpoint(kind: str, window: int) -> None:
    model, (ids, mask) = roberta(kind), tokens(N, N, 9, 17)
    same = convert(copy.deepcopy(model), window=window, rank=0, dual_norm=False)
    torch.testing.assert_close(outputs(same, ids, mask), outputs(model, ids, mask), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(outputs(same, ids), outputs(model, ids), rtol=1e-10, atol=1e-10)
    # Controls: less than everything, norms, compressed keys.
    for changes in ({"window": 4}, {"dual_norm": True}, {"rank": 2}):
        other = convert(copy.deepcopy(model), **{"window": window, "rank": 0, "dual_norm": False, **changes})
        assert (outputs(other, ids, mask) - outputs(model, ids, mask)).abs().max() > 1e-3


def test_the_weights_of_the_checkpoint_stay() -> None:
    model = roberta()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sample = tokens(N, N, 10)
    assert convert(model, window=4, rank=3, max_length=3 * N, sample=sample) is model
    after = model.state_dict()
    moved = {name for name in before if ".attention.self." in name or "position_embeddings" in name}
    assert len(moved) == 13
    assert all(torch.equal(after[name], before[name]) for name in before.keys() - moved)
    for number, layer in enumerate(model.roberta.encoder.layer):
        prefix, mine = f"roberta.encoder.layer.{number}.attention.self", layer.attention.self.attention
        for kind, own in {"weight": mine.qkv.weight, "bias": mine.qkv.bias}.items():
            for part, rows in zip(("query", "key", "value"), own.split(12)):
                assert torch.equal(rows, before[f"{prefix}.{part}.{kind}"])
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_positions_are_repeated() -> None:
    model = roberta()
    old = model.roberta.embeddings.position_embeddings.weight.detach().clone()
    convert(model, window=4, rank=1, max_length=60)
    table = model.roberta.embeddings.position_embeddings
    assert table.weight.shape == (62, 12) == (model.config.max_position_embeddings, 12)
    assert table.padding_idx == 1 and table.weight.requires_grad
    assert torch.equal(table.weight[:2], old[:2])
    for position in range(60):
        assert torch.equal(table.weight[2 + position], old[2 + position % N])
    ids, mask = tokens(60, 60, 31)
    assert outputs(model, ids, mask).isfinite().all()


def test_a_token_sees_its_segment_and_half_a_one_on_either_side() -> None:
    """One layer, a window alone: <s> sees all and is seen by all, others see their segment and half a one on either side."""
    model = convert(roberta("RobertaModel", num_hidden_layers=1), window=4, rank=0, dual_norm=False)
    ids, _ = tokens(17, 17)
    x = model.embeddings(ids).detach().requires_grad_()
    seen = torch.zeros(17, 17, dtype=torch.bool)
    y = model(inputs_embeds=x - model.embeddings.position_embeddings.weight[2:19])[0]
    for t in range(17):
        (slope,) = torch.autograd.grad(y[0, t, 0], x, retain_graph=True)
        seen[t] = slope[0].abs().sum(-1) > 1e-12
    expected = torch.zeros(17, 17, dtype=torch.bool)
    expected[0] = expected[:, 0] = True
    for t in range(1, 17):
        home = 1 + (t - 1) // 4 * 4
        expected[t, max(1, home - 2) : home + 6] = True
    assert torch.equal(seen, expected)


def test_padding_changes_nothing() -> None:
    model = convert(roberta("RobertaModel"), window=4, rank=3, max_length=50, sample=tokens(N, N, 11))
    ids, mask = tokens(50, 50, 13, 2)
    whole = model(ids, attention_mask=mask)[0]
    for row, end in enumerate((50, 13, 2)):
        alone = model(ids[row : row + 1, :end])[0]
        torch.testing.assert_close(whole[row, :end], alone[0], rtol=1e-9, atol=1e-9)


def test_masks_come_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """(B, n): a table n x n would be 17 GB in booleans here."""
    model = convert(roberta("RobertaModel", num_hidden_layers=1), window=4, rank=1, max_length=2**17).float()
    ids, mask = tokens(2**17, 2**17 - 5)
    assert outputs(model, ids, mask).shape == (2**17 - 5, 12)


def squared(norm: nn.LayerNorm, rows: Tensor) -> Tensor:
    return (norm(rows) - rows).square().sum()


def test_closest_is_the_least_squares_solution() -> None:
    torch.manual_seed(0)
    rows = torch.randn(50, 6, dtype=torch.float64) * torch.tensor([1, 2, 0.1, 5, 1, 1]) + torch.arange(6)
    norm = nn.LayerNorm(6, dtype=torch.float64)
    start = float(squared(norm, rows).detach())
    closest(norm, rows)
    found = squared(norm, rows)
    for slope in torch.autograd.grad(found, [norm.weight, norm.bias]):
        assert slope.abs().max() < 1e-9
    assert float(found.detach()) < 0.5 * start  # the sum is convex: no slope, no lower point


def test_closest_of_rows_that_do_not_vary() -> None:
    norm = nn.LayerNorm(3, dtype=torch.float64)
    row = torch.tensor([[1.0, 5.0, 3.0]], dtype=torch.float64).expand(4, 3)
    closest(norm, row)
    assert torch.equal(norm.weight, torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(norm(row), row)


def test_norms_start_where_they_change_keys_and_values_least() -> None:
    """In every layer, on what the layer gets in the checkpoint; of compressed ones likewise."""
    model, (ids, mask) = roberta("RobertaModel"), tokens(N, N, 7, 15)
    states = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    old = copy.deepcopy(model)
    convert(model, window=4, rank=3, sample=(ids, mask))
    for number, x in enumerate(states[:-1]):
        its, mine = old.encoder.layer[number].attention.self, attention(model, number)
        pair = [getattr(its, name)(x).unflatten(-1, (3, 4)) for name in ("key", "value")]
        real = torch.cat([one[mask] for one in pair])
        assert mine.local_norm is not None and mine.global_norm is not None and mine.score is not None
        weights = mine.score(x[:, 1:]).masked_fill(~mask[:, 1:, None], -torch.inf).softmax(1)
        compressed = torch.cat(
            [
                torch.einsum("bnhr,bnhd->bhrd", weights.unflatten(-1, (3, 3)), mine.local_norm(one)[:, 1:])
                for one in pair
            ]
        )
        for norm, rows in ((mine.local_norm, real), (mine.global_norm, compressed)):
            value = squared(norm, rows.detach())
            for slope in torch.autograd.grad(value, [norm.weight, norm.bias]):
                assert slope.abs().max() < 1e-8
            assert value < squared(nn.LayerNorm(4, eps=1e-12, dtype=torch.float64), rows)


def test_without_a_sample_norms_start_as_torchs() -> None:
    model = convert(roberta(), window=4, rank=3)
    for norm in (attention(model).local_norm, attention(model).global_norm):
        assert norm is not None and norm.eps == model.config.layer_norm_eps
        assert norm.weight.eq(1).all() and norm.bias.eq(0).all()


def test_scores_start_small_and_unlike() -> None:
    model = convert(roberta(hidden_size=96, initializer_range=0.02), window=4, rank=20)
    score = attention(model).score
    assert score is not None and float(score.weight.detach().std()) == pytest.approx(0.02, rel=0.05)


def test_new_weights_learn() -> None:
    model = convert(roberta(), window=4, rank=3, sample=tokens(N, N, 9)).train()
    ids, mask = tokens(N, N, 15)
    hidden = mask & (torch.arange(N) % 4 == 1)
    logits = Guesses(model)(ids, mask, hidden)
    assert logits.shape == (int(hidden.sum()), 40)
    nn.functional.cross_entropy(logits, ids[hidden]).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        if ".attention.self." in name and not name.endswith("bias"):
            assert parameter.grad.abs().max() > 1e-6, name


def test_guesses_are_the_rows_of_the_whole() -> None:
    model = roberta()
    ids, mask = tokens(N, N, 15)
    hidden = mask & (torch.arange(N) % 3 == 1)
    whole = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(Guesses(model)(ids, mask, hidden), whole[hidden])


def test_attention_dropout_is_the_checkpoints() -> None:
    model = convert(roberta(attention_probs_dropout_prob=0.3, hidden_dropout_prob=0.0), window=4, rank=2)
    ids, _ = tokens(N, N)
    assert attention(model).attention_dropout == 0.3 and not attention(model).training
    assert not torch.equal(model.train()(ids)[0], model(ids)[0])
    assert torch.equal(model.eval()(ids)[0], model(ids)[0])


def test_half_precision_is_near_float32() -> None:
    model = roberta("RobertaModel")
    wide = outputs(convert(copy.deepcopy(model), window=4, rank=2, max_length=30), *tokens(30, 30, 9))
    assert wide.dtype == torch.float64
    torch.manual_seed(1)
    half = convert(model.to(torch.bfloat16), window=4, rank=2, max_length=30)
    found = outputs(half, *tokens(30, 30, 9))
    assert found.dtype == torch.bfloat16 and found.isfinite().all()


@pytest.mark.parametrize("kind", HEADS)
def test_a_folder_comes_back(kind: str, tmp_path: Path) -> None:
    model = convert(roberta(kind), window=4, rank=3, max_length=40, sample=tokens(N, N, 12))
    model.save_pretrained(tmp_path)
    again, (ids, mask) = load(tmp_path), tokens(40, 40, 22)
    assert type(again) is type(model) and not again.training
    assert torch.equal(outputs(again, ids, mask), outputs(model, ids, mask))
    if kind == "RobertaForMaskedLM":
        assert again.get_output_embeddings().weight is again.get_input_embeddings().weight


def test_a_checkpoint_on_disk(tmp_path: Path) -> None:
    """The way a published one comes: a folder of ``transformers``, read by its own class."""
    model, (ids, mask) = roberta(), tokens(N, N, 12)
    model.save_pretrained(tmp_path)
    read = transformers().AutoModelForMaskedLM.from_pretrained(tmp_path).double().eval()
    same = convert(read, window=N, rank=0, dual_norm=False)
    torch.testing.assert_close(outputs(same, ids, mask), outputs(model, ids, mask), rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match="not a converted model"):
        load(tmp_path)


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no config\.json"):
        load(tmp_path)
    convert(roberta(), window=4, rank=3).save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    said["hidden_size"] = 24
    (tmp_path / "config.json").write_text(json.dumps(said))
    with pytest.raises(ValueError, match="weights do not fit") as fault:
        load(tmp_path)
    assert "\n" not in str(fault.value)
    said["hidden_size"], said["num_hidden_layers"] = 12, 3
    (tmp_path / "config.json").write_text(json.dumps(said))
    with pytest.raises(ValueError, match=r"weights do not fit: roberta\.encoder\.layer\.2.* is missing"):
        load(tmp_path)


@pytest.mark.parametrize("long", [True, False])
def test_a_classifier_on_the_encoder(long: bool, tmp_path: Path) -> None:
    model = roberta()
    if long:
        convert(model, window=4, rank=3, max_length=30)
    length = 30 if long else N
    torch.manual_seed(5)
    net = classifier(model, 3).eval()
    assert net.roberta is model.roberta and net.config.num_labels == 3
    ids, mask = tokens(length, length, 12)
    states = outputs(model.roberta, ids).detach()
    logits = Classes(net)(ids, torch.ones_like(mask))
    torch.testing.assert_close(logits, net.classifier(states))
    files.save(net, tmp_path / "net.safetensors")
    again = files.load(tmp_path / "net.safetensors")
    assert torch.equal(Classes(again)(ids, mask), Classes(net)(ids, mask))
    assert not any(key in again.config.to_dict() for key in ("_name_or_path",) if again.config.to_dict()[key])


def test_tied_weights_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tied weights"):
        files.save(roberta(), tmp_path / "net.safetensors")


def decoder() -> Any:
    return roberta("RobertaForCausalLM", is_decoder=True)


def bert() -> Any:
    library = transformers()
    return library.BertModel(
        library.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    )


@pytest.mark.parametrize(
    ("make", "sizes", "said"),
    [
        (bert, {}, "model: found BertModel"),
        (decoder, {}, "model: found RobertaForCausalLM"),
        (lambda: convert(roberta(), window=2, rank=1), {}, "already has long-short attention"),
        (roberta, {"max_length": N - 1}, f"max_length: {N - 1}"),
        (roberta, {"rank": 0, "window": 0}, "both 0"),
        (roberta, {"window": -1}, "window: -1"),
    ],
)
def test_what_cannot_be_converted(make: Any, sizes: dict[str, int], said: str) -> None:
    model = make()
    before = [type(one) for one in model.modules()]
    with pytest.raises(ValueError, match=said) as fault:
        convert(model, **{"window": 4, "rank": 2, **sizes})
    assert "\n" not in str(fault.value) and [type(one) for one in model.modules()] == before
    if make is roberta:  # it is as it was
        convert(model, window=4, rank=2)


def test_wrong_masks_are_refused() -> None:
    model = convert(roberta("RobertaModel"), window=4, rank=2)
    ids, mask = tokens(8, 8)
    with pytest.raises(ValueError, match=r"attention_mask: shape \(1, 1, 8, 8\)"):
        model(ids, attention_mask=mask[:, None, None].expand(1, 1, 8, 8))
    left = mask.clone()
    left[0, 0] = False
    with pytest.raises(ValueError, match="class token"):
        model(ids, attention_mask=left)


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(ValueError, match="architecture: 'BertModel'"):
        build("BertModel", {})


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'transformers"):
        transformers()


def test_looking_at_inputs_leaves_every_mode() -> None:
    model, (ids, mask) = roberta().train(), tokens(N, N, 9)
    frozen = model.base_model.encoder.layer[0].output.eval()
    attention_inputs(model, ids, mask)
    assert model.training and not frozen.training and model.base_model.encoder.layer[1].output.training
