"""Full attention against the sum over all tokens."""

import pytest
import torch

from relearn.layers.efficient.full import FullAttention
from relearn.layers.efficient.linear import LinearAttention, feature_mean
from relearn.layers.efficient.linformer import LinformerAttention


@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_sum_over_all_tokens(dense, heads_of, woken, tokens, masked: bool) -> None:
    net, x = woken(FullAttention(6, 2, max_length=9)), tokens(2, 9, 6)
    mask = torch.arange(9) % 3 != torch.tensor([[1], [2]])
    y = net(x, mask=mask if masked else None)
    for row, seen, found in zip(x, mask, y):
        real = {j for j in range(9) if not masked or seen[j]}
        mixed = [dense(q, k, v, lambda _, j, real=real: j in real) for q, k, v in heads_of(net, row)]
        torch.testing.assert_close(torch.cat(mixed, 1) @ net.out.weight.T + net.out.bias, found)


def test_dropped_weights_keep_the_mean(woken, tokens) -> None:
    torch.manual_seed(0)  # the start counts: some have scores that 4,000 draws do not settle
    net, x = woken(FullAttention(4, 1, max_length=5, dropout=0.5)), tokens(1, 5, 4)
    expected = net(x)
    net.train()
    torch.manual_seed(0)
    drawn = net(x.expand(4000, -1, -1))
    assert not torch.allclose(drawn[:1], expected)
    torch.testing.assert_close(drawn.mean(0, keepdim=True), expected, rtol=0, atol=0.1)


# Linear attention against its n x n form.


@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_quotient_of_sums(heads_of, woken, tokens, masked: bool) -> None:
    net, x = woken(LinearAttention(6, 2, max_length=9)), tokens(2, 9, 6)
    mask = torch.arange(9) % 3 != torch.tensor([[1], [2]])
    y = net(x, mask=mask if masked else None)

    def phi(z: torch.Tensor) -> torch.Tensor:
        return torch.where(z > 0, z + 1, torch.exp(z))

    for row, seen, found in zip(x, mask, y):
        mixed = []
        for q, k, v in heads_of(net, row):
            weights = phi(q) @ phi(k).T * (seen if masked else 1)
            mixed.append(weights / weights.sum(1, keepdim=True) @ v)
        torch.testing.assert_close(torch.cat(mixed, 1) @ net.out.weight.T + net.out.bias, found)


def test_a_query_without_features_gives_zero_and_no_nan() -> None:
    net = LinearAttention(2, 1, max_length=3, bias=False)
    with torch.no_grad():
        for map_ in (net.q, net.k, net.v, net.out):
            map_.weight.copy_(torch.eye(2))
    x = torch.tensor([[[-1e4, -1e4], [-1e4, -1e4]]], requires_grad=True)
    y = net(x)
    y.sum().backward()
    assert torch.equal(y, torch.zeros_like(y)) and x.grad is not None and not x.grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_scale_of_the_features_cancels(dtype: torch.dtype) -> None:
    """Powers of 2 change no bit of the mean; where all has underflowed, the control, it is 0."""
    torch.manual_seed(0)
    features, v = torch.rand(2, 2, 3, 5, 4, dtype=dtype) + 0.1, torch.randn(2, 3, 5, 4, dtype=dtype)
    found = [feature_mean(*(2.0**power * features), v) for power in (0, -24)]
    weights = features[0] @ features[1].mT
    torch.testing.assert_close(found[0], weights / weights.sum(-1, keepdim=True) @ v)
    assert torch.equal(*found) and not feature_mean(*(1e-200 * features), v).any()


# Linformer, alone and with a window, against loops over its formula.


@pytest.mark.parametrize("length", [1, 5, 8, 11])
@pytest.mark.parametrize("window", [0, 1, 2, 3, 4, 16])
@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_formula(heads_of, woken, tokens, length: int, window: int, masked: bool) -> None:
    net = woken(LinformerAttention(6, 2, max_length=11, rank=3, window=window))
    x = tokens(2, length, 6)
    mask = (torch.arange(length) + torch.tensor([[0], [1]])) % 3 != 1
    mask[:, 0] = True
    y = net(x, mask=mask if masked else None)
    side = max(window // 2, 1)
    for row, seen, found in zip(x, mask, y):
        real = [j for j in range(length) if not masked or seen[j]]
        heads = []
        for h, (q, k, v) in enumerate(heads_of(net, row)):
            far, far_values = (
                torch.stack([sum(net.compression[h, r, j] * one[j] for j in real) for r in range(3)])
                for one in (k, v)
            )
            rows = []
            for i in range(length):
                home = i // window * window if window else 0
                near = [j for j in real if window and home - side <= j < home + window + side]
                keys = torch.cat([far, k[near]])
                weights = torch.exp(keys @ q[i] / 3**0.5)
                rows.append(weights @ torch.cat([far_values, v[near]]) / weights.sum())
            heads.append(torch.stack(rows))
        expected = torch.cat(heads, 1) @ net.out.weight.T + net.out.bias
        torch.testing.assert_close(found, expected)


def test_the_matrix_is_one_a_head_and_has_a_column_a_place() -> None:
    net = LinformerAttention(6, 2, max_length=11, rank=3)
    assert net.compression.shape == (2, 3, 11)
    assert sum(one.numel() for one in net.parameters()) == 4 * (6 * 6 + 6) + 2 * 3 * 11
