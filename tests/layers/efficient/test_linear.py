"""Linear attention against its n x n form."""

import pytest
import torch

from relearn.layers.efficient.linear import LinearAttention


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
    assert torch.equal(y, torch.zeros_like(y)) and x.grad is not None and x.grad.isfinite().all()
