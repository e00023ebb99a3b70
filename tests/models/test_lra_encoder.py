"""The encoder against its formula written out; padding, pairs and pooling; what it refuses."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, softmax

from relearn.layers.efficient import KINDS
from relearn.models.lra_encoder import LRAEncoder, create

SIZES = dict(vocabulary=11, classes=3, max_length=20, dim=8, heads=2, ffn=12)
OWN: dict[str, dict[str, object]] = {"long_short_best": {"window": 2, "rank": 3}}


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(1, 11, shape, generator=torch.Generator().manual_seed(seed))


def build(attention: str, **more: object) -> LRAEncoder:
    torch.manual_seed(0)
    arguments = {**SIZES, "attention_arguments": OWN.get(attention, {}), **more}
    return create(attention, **arguments).double().eval()


def by_hand(net: LRAEncoder, row: Tensor) -> Tensor:
    """u of one sequence without padding, full attention, every product written out."""
    x = net.embedding.weight[row] + net.positions[: len(row)]
    if net.class_token is not None:
        x = torch.cat([net.class_token[None], x])
    for block in net.blocks:
        a = block.attention
        z = layer_norm(x, (8,), block.attention_norm.weight, block.attention_norm.bias)
        q, k, v = (z @ m.weight.T + m.bias for m in (a.q, a.k, a.v))
        heads = [softmax(q[:, s] @ k[:, s].T / 2, -1) @ v[:, s] for s in (slice(0, 4), slice(4, 8))]
        x = x + torch.cat(heads, 1) @ a.out.weight.T + a.out.bias
        z = layer_norm(x, (8,), block.ffn_norm.weight, block.ffn_norm.bias)
        x = x + gelu(z @ block.fc1.weight.T + block.fc1.bias) @ block.fc2.weight.T + block.fc2.bias
    x = layer_norm(x, (8,), net.norm.weight, net.norm.bias)
    return x[0] if net.class_token is not None else x.mean(0)


def wake(net: LRAEncoder) -> LRAEncoder:
    """Norms and biases as after training: at 1 and 0 they hide mistakes."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for one in net.parameters():
            one += 0.3 * torch.randn(one.shape, generator=generator, dtype=one.dtype)
    return net


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_it_is_the_formula(pooling: str) -> None:
    net = wake(build("full", pooling=pooling))
    rows = tokens(4, 13)
    for row, logits in zip(rows, net(rows)):
        u = by_hand(net, row)
        expected = torch.relu(u @ net.hidden.weight.T + net.hidden.bias) @ net.out.weight.T + net.out.bias
        torch.testing.assert_close(logits, expected)


def test_pairs_are_two_sequences_by_one_encoder() -> None:
    net = wake(build("full", pairs=True))
    rows = tokens(3, 2, 9)
    for pair, logits in zip(rows, net(rows)):
        one, two = (by_hand(net, row) for row in pair)
        features = torch.cat([one, two, one * two, one - two])
        expected = (
            torch.relu(features @ net.hidden.weight.T + net.hidden.bias) @ net.out.weight.T + net.out.bias
        )
        torch.testing.assert_close(logits, expected)


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_padding_at_the_end_changes_nothing(attention: str, pooling: str) -> None:
    """The batch may be cut to its longest sequence; the control: without padding's token the same zeros count."""
    net = wake(build(attention, pooling=pooling))
    rows = tokens(2, 20)
    rows[0, 12:] = 0
    rows[1, 7:] = 0
    torch.testing.assert_close(net(rows), net(rows[:, :12]), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(net(rows)[1], net(rows[1:, :7])[0], rtol=1e-9, atol=1e-11)
    every = wake(build(attention, pooling=pooling, padding=None))
    assert not torch.allclose(every(rows), every(rows[:, :12]))


@pytest.mark.parametrize("attention", KINDS)
def test_every_kind_trains(attention: str) -> None:
    """A few steps on one batch, in which every other token tells the class, lower its loss."""
    net = build(attention).float().train()
    rows, labels = tokens(9, 20), torch.arange(9) % 3
    rows[:, ::2] = labels[:, None] + 1
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-2)
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(net(rows), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]


def test_sizes_are_those_of_the_paper() -> None:
    """Closed form: V D + n D + D + L (4 D² + 4 D + 2 D f + f + D + 4 D) + 2 D + D f + f + C f + C."""
    net = create("full", vocabulary=512, classes=2, max_length=4096)
    d, f = 64, 128
    blocks = 2 * (4 * d * d + 4 * d + 2 * d * f + f + d + 4 * d)
    expected = 512 * d + 4096 * d + d + blocks + 2 * d + d * f + f + 2 * f + 2
    assert sum(one.numel() for one in net.parameters()) == expected
    assert len(net.attention_layers()) == 2


def test_the_description_builds_the_same_network() -> None:
    net = build("linformer", attention_arguments={"rank": 4}, dropout=0.25, pairs=True, padding=None)
    other = create(**net.description)
    assert other.description == net.description
    assert {k: v.shape for k, v in net.state_dict().items()} == {
        k: v.shape for k, v in other.state_dict().items()
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"layers": 0}, "layers: 0"),
        ({"classes": 1}, "classes: 1"),
        ({"pooling": "max"}, "pooling: 'max'"),
        ({"dropout": 1.0}, "dropout: 1.0"),
        ({"attention_dropout": -0.1}, "attention_dropout: -0.1"),
        ({"padding": 11}, "padding: 11"),
        ({"heads": 3}, "heads: 3"),
        ({"attention_arguments": {"rank": 2}}, "attention_arguments"),
    ],
)
def test_bad_sizes_are_named(more: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        build("full", **more)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("pairs", "rows", "words"),
    [
        (False, tokens(2, 21), "21 in a row"),
        (False, tokens(2, 0), "0 in a row"),
        (False, tokens(2, 2, 5), r"allowed: \(B, n\)"),
        (True, tokens(2, 5), r"allowed: \(B, 2, n\)"),
        (True, tokens(2, 3, 5), r"allowed: \(B, 2, n\)"),
        (False, torch.tensor([[1, 2], [0, 0]]), "sequence 1 is all padding"),
    ],
)
def test_bad_tokens_are_named(pairs: bool, rows: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build("full", pairs=pairs)(rows)
