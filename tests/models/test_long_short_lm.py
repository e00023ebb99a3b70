"""The character model of chapter 5: its sizes, its cache, and that nothing later changes a prediction."""

import pytest
import torch
from torch import nn

from relearn.models import long_short_lm
from relearn.models.long_short_lm import KINDS, PUBLISHED, create

TINY = dict(vocabulary=11, layers=2, dim=8, heads=2, ffn=12, window=4, segment=2, rank=1)


def parameters(**description) -> int:
    with torch.device("meta"):
        return sum(one.numel() for one in create(**description).parameters())


@pytest.mark.parametrize(("size", "millions"), [("small", 44), ("large", 110)])
def test_the_published_sizes(size: str, millions: int) -> None:
    """Table 5.7; 204 different characters in enwik8, 27 in text8."""
    for vocabulary in (27, 204, 206):
        assert round(parameters(vocabulary=vocabulary, **PUBLISHED[size]) / 1e6) == millions
    without = parameters(vocabulary=204, attention="full", **PUBLISHED[size])
    assert round(without / 1e6) == {"small": 41, "large": 103}[size]  # Transformer-XL: 41M of 12 layers


def test_the_formula_of_the_parameters() -> None:
    for L, D, H, f, r, V in ((1, 8, 2, 12, 1, 11), (3, 12, 3, 20, 2, 7)):
        d = D // H
        expected = V * D + 2 * D + L * (6 * D**2 + 2 * D * f + f + 5 * D + D * H * r + 4 * d)
        sizes = dict(vocabulary=V, layers=L, dim=D, heads=H, ffn=f, window=4, segment=2, rank=r)
        assert parameters(**sizes) == expected
        fewer = D**2 + D * H * r + 4 * d - 2 * D
        assert parameters(**sizes, attention="full") == expected - L * fewer


@pytest.mark.parametrize("kw", [dict(attention=kind) for kind in KINDS] + [dict(dual_norm=False)])
def test_parts_with_a_cache_are_the_whole_and_the_past_alone_matters(kw: dict) -> None:
    torch.manual_seed(0)
    net = create(**TINY, **kw).double().eval().requires_grad_(False)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)
    tokens = torch.randint(11, (2, 13))
    whole, _ = net(tokens)
    found, cache = [], None
    for part in tokens.split([5, 1, 7], 1):
        logits, cache = net(part, cache=cache, keep=100)
        found.append(logits)
    torch.testing.assert_close(torch.cat(found, 1), whole)
    assert [tuple(one.shape) for one in cache] == [(2, 13, 8)] * 2
    other = tokens.clone()
    other[:, 9] = (other[:, 9] + 1) % 11
    moved, _ = net(other)
    assert torch.equal(moved[:, :9], whole[:, :9])
    assert bool(((moved - whole)[:, 9:].abs().amax(2) > 1e-9).all())


def test_the_cache_is_as_long_as_the_segment_and_detached() -> None:
    net = create(**TINY)
    tokens = torch.randint(11, (2, 6))
    _, cache = net(tokens)
    assert all(tuple(one.shape) == (2, 6, 8) and not one.requires_grad for one in cache)
    tokens = torch.randint(11, (2, 6))
    logits, again = net(tokens, cache=cache)
    assert all(tuple(one.shape) == (2, 6, 8) for one in again)
    assert torch.equal(again[0], net.embedding(tokens).detach() * 8**0.5)  # the last six positions
    logits.sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters())
    assert [one.shape[1] for one in net(tokens, keep=0)[1]] == [0, 0]
    net(tokens, cache=net(tokens, keep=0)[1])  # an empty cache is none


def test_the_formula_of_a_block_and_the_released_one() -> None:
    for released in (False, True):
        torch.manual_seed(0)
        net = create(**{**TINY, "layers": 1}, as_released=released).eval()
        block, tokens = net.blocks[0], torch.randint(11, (1, 7))
        x = 8**0.5 * net.embedding(tokens)
        normed = block.attention_norm(x)
        y = (normed if released else x) + block.attention(normed)
        normed = block.ffn_norm(y)
        z = (normed if released else y) + block.ffn(normed)
        logits = (z if released else net.norm(z)) @ net.embedding.weight.T
        torch.testing.assert_close(net(tokens)[0], logits)


@pytest.mark.parametrize("attention", KINDS)
def test_round_trip_keeps_every_bit(tmp_path, attention: str) -> None:
    torch.manual_seed(0)
    net = create(**TINY, attention=attention, dropout=0.25, dual_norm=False)
    long_short_lm.FILE.save(net, tmp_path / "n.safetensors")
    back = long_short_lm.FILE.load(tmp_path / "n.safetensors")
    assert not back.training and back.description == net.description
    for (name, a), (other, b) in zip(net.state_dict().items(), back.state_dict().items(), strict=True):
        assert name == other and torch.equal(a, b)
    (tmp_path / "junk.safetensors").write_bytes(b"<html>")
    with pytest.raises(ValueError, match="not the weights of a long-short character model"):
        long_short_lm.FILE.load(tmp_path / "junk.safetensors")


def test_bad_input_is_refused_in_one_line() -> None:
    for kw, words in (
        (dict(vocabulary=0), "vocabulary: 0"),
        (dict(layers=0), "layers: 0"),
        (dict(attention="dp"), "attention: 'dp'"),
        (dict(dropout=1.0), "dropout: 1.0"),
        (dict(attention_dropout=-1.0), "dropout: -1.0"),
        (dict(window=3, segment=8), "window: 3"),
    ):
        with pytest.raises(ValueError, match=words):
            create(**{**TINY, **kw})
    net, tokens = create(**TINY), torch.zeros(1, 3, dtype=torch.int64)
    for call, kw, words in (
        (tokens[:, :0], {}, "tokens: shape"),
        (tokens, dict(keep=-1), "keep: -1"),
        (tokens, dict(cache=[torch.zeros(1, 1, 8)]), "cache: 1 tensors"),
    ):
        with pytest.raises(ValueError, match=words):
            net(call, **kw)
