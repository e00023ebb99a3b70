"""Full causal attention with relative positions, against a slow truth."""

import math

import pytest
import torch
from torch import nn

from relearn.layers import long_short_causal, relative_attention
from relearn.layers.long_short_causal import CausalLongShortAttention
from relearn.layers.relative_attention import RelativeAttention
from relearn.layers.relative_positions import sinusoids


def test_formula_causality_and_cache() -> None:
    torch.manual_seed(0)
    one = RelativeAttention(6, 2).double().requires_grad_(False)
    for parameter in one.parameters():
        nn.init.normal_(parameter, std=0.7)
    rows = torch.randn(1, 7, 6, dtype=torch.float64)
    q, k, v = one.q(rows[0]), *one.kv(rows[0]).split(6, 1)
    done = torch.zeros(7, 6, dtype=torch.float64)
    for t in range(7):
        for h in range(2):
            cut = slice(3 * h, 3 * h + 3)
            places = [
                one.positions(sinusoids(torch.tensor([float(t - j)]).double(), 6)[0])[cut]
                for j in range(t + 1)
            ]
            logits = [
                ((q[t, cut] + one.biases[0, h]) @ k[j, cut] + (q[t, cut] + one.biases[1, h]) @ places[j])
                / math.sqrt(3)
                for j in range(t + 1)
            ]
            done[t, cut] = torch.stack(logits).softmax(0) @ v[: t + 1, cut]
    expected = one.out(done)[None]
    torch.testing.assert_close(one(rows), expected)
    for past in range(1, 7):
        torch.testing.assert_close(one(rows[:, past:], cache=rows[:, :past]), expected[:, past:])


def test_sinusoids_are_their_formula() -> None:
    found = sinusoids(torch.tensor([0.0, 3.0], dtype=torch.float64), 5)
    angles = [3 / 10000 ** (2 * i / 5) for i in range(3)]
    expected = [[0.0, 0.0, 0.0, 1.0, 1.0], [*map(math.sin, angles), *map(math.cos, angles[:2])]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("made", [RelativeAttention, CausalLongShortAttention])
def test_a_layer_of_half_precision_counts_distances_exactly(monkeypatch, made) -> None:
    """bfloat16 has 513 of the numbers to 1023."""
    torch.manual_seed(0)
    one, rows = made(32, 2).requires_grad_(False).bfloat16().float(), torch.randn(1, 1024, 32).bfloat16()
    getattr(one, "positions" if made is RelativeAttention else "window_positions").weight.mul_(8)
    exact, low = one(rows.float()), one.bfloat16()(rows)
    for module in (long_short_causal, relative_attention):
        monkeypatch.setattr(module, "sinusoids", lambda t, dim: sinusoids(t.bfloat16(), dim))  # the control
    right, wrong = ((y - exact).norm() / exact.norm() * 2**7 for y in (low, one(rows)))
    assert right < 2 and wrong > 6


def test_bad_sizes_are_refused() -> None:
    for arguments, kw in (((6, 4), {}), ((6, 2), dict(dropout=-0.1))):
        with pytest.raises(ValueError, match="allowed"):
            RelativeAttention(*arguments, **kw)
    one = RelativeAttention(6, 2)
    with pytest.raises(ValueError, match="x: shape"):
        one(torch.zeros(1, 0, 6))
    with pytest.raises(ValueError, match="cache: shape"):
        one(torch.zeros(1, 2, 6), cache=torch.zeros(2, 2, 6))
