"""Character models: torch's own layers as the truth, causality, padding, parameter counts, the published starts."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers.residual import KINDS as JOINTS
from relearn.models.character_lm import KINDS, create, without_attention

TINY = dict(vocabulary=9, layers=2, dim=8, heads=2, ffn=12, max_length=20)


def tiny(attention: str, seed: int = 0, **more: object) -> nn.Module:
    """In float64 and eval mode, with every parameter off its start: a zero bias hides a mistake."""
    torch.manual_seed(seed)
    net = create(attention=attention, **{**TINY, **more}).double().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return net


def characters(seed: int = 1, rows: int = 2, length: int = 6) -> Tensor:
    return torch.randint(1, 9, (rows, length), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def truth(net: nn.Module, tokens: Tensor) -> Tensor:
    """The same network from torch's TransformerEncoderLayer and a causal mask."""
    batch, length = tokens.shape
    dim = 8
    x = torch.zeros(batch, length, dim, dtype=torch.float64)
    for row, t in ((r, t) for r in range(batch) for t in range(length)):
        for i in range(dim // 2):
            omega = 10000.0 ** (-i / (dim // 2 - 1))
            x[row, t, i], x[row, t, dim // 2 + i] = math.sin(t * omega), math.cos(t * omega)
        x[row, t] += math.sqrt(dim) * net.embedding.weight[tokens[row, t]]
    later = torch.ones(length, length).triu(1).bool()
    for ours in net.blocks:
        layer = nn.TransformerEncoderLayer(dim, 2, 12, dropout=0.0, batch_first=True).double()
        layer.self_attn.in_proj_bias.zero_()
        layer.self_attn.out_proj.bias.zero_()
        one = ours.attention
        layer.self_attn.in_proj_weight.copy_(torch.cat([one.q.weight, one.k.weight, one.v.weight]))
        layer.self_attn.out_proj.weight.copy_(one.out.weight)
        for mine, his in (
            (ours.attention_residual.norm, layer.norm1),
            (ours.ffn_residual.norm, layer.norm2),
            (ours.ffn.fc1, layer.linear1),
            (ours.ffn.fc2, layer.linear2),
        ):
            his.load_state_dict(mine.state_dict())
        x = layer(x, src_mask=later)
    return x @ net.output.weight.T + net.output.bias


def test_dot_product_equals_torchs_own_layers() -> None:
    net, tokens = tiny("dp"), characters()
    # Positions are made in single precision: sin(t) is right to 1e-7, nothing else is rounded.
    torch.testing.assert_close(net(tokens), truth(net, tokens), rtol=1e-5, atol=1e-5)


@settings(max_examples=20)
@given(
    attention=st.sampled_from(KINDS),
    norm=st.sampled_from(JOINTS),
    place=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_a_later_character_changes_no_earlier_logit(attention: str, norm: str, place: int, seed: int) -> None:
    net, tokens = tiny(attention, seed, norm=norm), characters(seed)
    with torch.no_grad():
        before = net(tokens)
        tokens[0, place] = 1 + tokens[0, place] % 8
        after = net(tokens)
    torch.testing.assert_close(after[0, :place], before[0, :place], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(after[1], before[1], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(after[0, place], before[0, place])  # the control: it is seen where it stands


@pytest.mark.parametrize("attention", KINDS)
def test_what_follows_changes_nothing_be_it_padding_or_a_longer_sentence(attention: str) -> None:
    net, tokens = tiny(attention), characters(length=5)
    with torch.no_grad():
        alone = net(tokens)
        for fill in (0, 3):
            longer = torch.cat([tokens, torch.full((2, 4), fill)], 1)
            torch.testing.assert_close(net(longer)[:, :5], alone, rtol=1e-10, atol=1e-10)


def test_the_divisor_of_the_sentences_own_length_would_leak_it() -> None:
    """The control of the test above: without a stated length, what follows changes the bound, and so the logits."""
    net, tokens = tiny("contractive"), characters(length=5)
    for layer in net.attention_layers():
        layer.max_length = None
    with torch.no_grad():
        longer = torch.cat([tokens, torch.zeros(2, 4, dtype=torch.long)], 1)
        assert not torch.allclose(net(longer)[:, :5], net(tokens))


def test_a_character_is_read_with_its_position() -> None:
    net = tiny("dp")
    same = torch.full((1, 3), 4)
    with torch.no_grad():
        logits = net(same)[0]
    assert not torch.allclose(logits[0], logits[1])


@torch.no_grad()
@pytest.mark.parametrize("attention", [kind for kind in KINDS if kind != "lstm"])
def test_without_attention_no_character_reads_another(attention: str) -> None:
    net, text = tiny(attention), characters()
    other = text.clone()
    other[:, :-1] = text[:, :-1] % 8 + 1
    whole = net(text)
    with without_attention(net):
        alone = net(text)
        torch.testing.assert_close(alone[:, -1], net(other)[:, -1], rtol=0, atol=0)
    assert not torch.equal(alone, whole)
    assert not torch.allclose(
        whole[:, -1], net(other)[:, -1]
    )  # with attention, the last logits read the others
    torch.testing.assert_close(net(text), whole, rtol=0, atol=0)


@pytest.mark.parametrize("norm", JOINTS)
@pytest.mark.parametrize("attention", [kind for kind in KINDS if kind != "lstm"])
def test_the_number_of_parameters_is_that_of_the_formula(attention: str, norm: str) -> None:
    v, d, f, layers = 51, 512, 2048, 6
    with torch.device("meta"):
        net = create(attention=attention, vocabulary=v, layers=layers, norm=norm, max_length=288)
    maps = {"dp": 4, "l2": 4, "l2_matched": 4, "l2_tied": 3, "contractive": 3}[attention]
    each = {"post_ln": 2 * d, "w_skip": 3 * d, "rezero": 1, "no_norm": 0}[norm]
    expected = 2 * v * d + v + layers * (maps * d * d + 2 * d * f + f + d + 2 * each)
    assert sum(p.numel() for p in net.parameters()) == expected
    assert len(net.attention_layers()) == layers


def test_parameter_count_of_the_lstm() -> None:
    v, d, layers = 51, 512, 3
    with torch.device("meta"):
        net = create(attention="lstm", vocabulary=v, layers=layers, dim=d)
    assert sum(p.numel() for p in net.parameters()) == 2 * v * d + v + layers * (8 * d * d + 8 * d)
    assert net.lstm.hidden_size == net.lstm.input_size == d and net.attention_layers() == []


def uniform(weight: Tensor, limit: float) -> bool:
    """Whether the entries are U[-limit, limit]: within it, close to its ends, with its deviation."""
    found = weight.detach()
    fills = 0.99 * limit < float(found.abs().max()) <= limit * (1 + 1e-6)
    return fills and abs(float(found.std()) - limit / math.sqrt(3)) < 0.05 * limit


@pytest.mark.parametrize(("glorot", "factor"), [("usual", 6.0), ("printed", 1.0)])
@pytest.mark.parametrize("attention", [kind for kind in KINDS if kind != "lstm"])
def test_start_is_glorot_and_appendix_i_in_l2_attention(attention: str, glorot: str, factor: float) -> None:
    torch.manual_seed(0)
    more = dict(vocabulary=50, layers=2, dim=64, heads=4, ffn=96, max_length=30)
    net = create(attention=attention, glorot=glorot, init_scale=0.1, **more)
    for layer in net.attention_layers():
        for name in ("q", "k", "v", "out"):
            weight = getattr(layer, name, None)
            if weight is not None:
                usual = math.sqrt(factor / sum(weight.weight.shape))
                assert uniform(weight.weight, usual if attention == "dp" else 0.1 / math.sqrt(64)), name
    for weight, fans in (
        (net.embedding.weight, 50 + 64),
        (net.output.weight, 50 + 64),
        (net.blocks[1].ffn.fc1.weight, 64 + 96),
        (net.blocks[1].ffn.fc2.weight, 64 + 96),
    ):
        assert uniform(weight, math.sqrt(factor / fans))
    assert not net.output.bias.any() and not net.blocks[0].ffn.fc1.bias.any()


def test_without_a_scale_l2_attention_starts_like_the_rest() -> None:
    torch.manual_seed(0)
    net = create(attention="l2", vocabulary=50, dim=64, heads=4, ffn=96, init_scale=None)
    assert uniform(net.attention_layers()[0].q.weight, math.sqrt(6 / 128))


def test_start_of_the_lstm() -> None:
    torch.manual_seed(0)
    net = create(attention="lstm", vocabulary=50, layers=2, dim=64)
    for layer in range(2):
        for name in ("ih", "hh"):
            assert uniform(getattr(net.lstm, f"weight_{name}_l{layer}"), math.sqrt(6 / 320))
        # The forget gate by what it does: with a bias of 30 the cell is kept, and without an input gate nothing is added.
        total = getattr(net.lstm, f"bias_ih_l{layer}") + getattr(net.lstm, f"bias_hh_l{layer}")
        assert torch.equal(total, torch.cat([torch.zeros(64), torch.ones(64), torch.zeros(128)]))


def test_torchs_second_gate_is_the_one_that_forgets() -> None:
    lstm = nn.LSTM(1, 1)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.zero_()
        lstm.bias_ih_l0.copy_(torch.tensor([-50.0, 50.0, 0.0, 0.0]))
        _, (_, cell) = lstm(torch.zeros(5, 1, 1), (torch.zeros(1, 1, 1), torch.full((1, 1, 1), 0.7)))
    assert float(cell) == pytest.approx(0.7)


@pytest.mark.parametrize("attention", KINDS)
def test_the_start_follows_the_seed_and_the_description_builds_it_again(attention: str) -> None:
    starts = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        starts.append(create(attention=attention, **TINY))
    torch.manual_seed(0)
    again = create(**starts[0].description)
    tokens = characters()
    assert torch.equal(starts[0](tokens), starts[1](tokens)) and torch.equal(starts[0](tokens), again(tokens))
    assert not torch.equal(starts[0](tokens), starts[2](tokens))


@pytest.mark.parametrize("attention", ["dp", "contractive", "lstm"])
def test_dropout_acts_in_training_mode_only(attention: str) -> None:
    net, tokens = tiny(attention, dropout=0.2), characters()
    assert torch.equal(net(tokens), net(tokens))
    net.train()
    assert not torch.equal(net(tokens), net(tokens))


@pytest.mark.parametrize("attention", KINDS)
def test_every_parameter_has_a_gradient(attention: str) -> None:
    net, tokens = tiny(attention), characters()
    net(tokens).square().sum().backward()
    assert all(bool(p.grad.abs().sum() > 0) for p in net.parameters())


@pytest.mark.parametrize(
    "wrong",
    [
        {"attention": "cosine"},
        {"attention": "contractive", "max_length": None},
        {"dim": 9},
        {"heads": 3},
        {"layers": 0},
        {"vocabulary": 0},
        {"max_length": 0},
        {"dropout": 1.0},
        {"norm": "pre_ln"},
        {"glorot": "he"},
        {"init_scale": 0.0},
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(wrong: dict) -> None:
    with pytest.raises(ValueError, match="allowed") as error:
        create(**{"attention": "dp", **TINY, **wrong})
    assert "\n" not in str(error.value)


def test_more_characters_than_stated_are_refused() -> None:
    with pytest.raises(ValueError, match=r"21 characters in a row \(allowed: max_length = 20"):
        tiny("dp")(characters(length=21))


def test_the_lstm_trains_in_bf16_on_every_processor() -> None:
    torch.manual_seed(0)
    net, tokens = create(attention="lstm", vocabulary=11, layers=1, dim=8), torch.randint(0, 11, (3, 5))
    whole = net(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        found = net(tokens)
    torch.testing.assert_close(found.float(), whole, rtol=0.02, atol=0.02)
    found.float().sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
