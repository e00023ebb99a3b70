"""Linformer, alone and with a window, against loops over its formula."""

import pytest
import torch

from relearn.layers.efficient.linformer import LinformerAttention


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
