"""Full attention against the sum over all tokens."""

import pytest
import torch

from relearn.layers.efficient.full import FullAttention


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
