"""FAVOR+ against its n x n form, its kernel against the exponential, its draws against orthogonality."""

import math

import pytest
import torch

from relearn.layers.efficient.full import FullAttention
from relearn.layers.efficient.performer import PerformerAttention, exponents, orthogonal_rows


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-2])
def test_it_is_the_quotient_of_sums(heads_of, woken, tokens, masked: bool, eps: float) -> None:
    net, x = woken(PerformerAttention(6, 2, max_length=9, features=7, eps=eps)), tokens(2, 9, 6)
    mask = torch.arange(9) % 3 != torch.tensor([[1], [2]])
    y = net(x, mask=mask if masked else None)
    for row, seen, found in zip(x, mask, y):
        real = seen if masked else torch.ones_like(seen)
        mixed = []
        for q, k, v in heads_of(net, row):
            asked, held = (
                (z / 3**0.25) @ net.omega.T - (z / 3**0.25).square().sum(1, keepdim=True) / 2 for z in (q, k)
            )
            asked = torch.exp(asked - asked.max(1, keepdim=True).values) + eps
            held = torch.exp(held - held[real].max()) + eps
            weights = asked @ held.T * real
            mixed.append(weights / weights.sum(1, keepdim=True) @ v)
        torch.testing.assert_close(torch.cat(mixed, 1) @ net.out.weight.T + net.out.bias, found)


def test_rows_are_orthogonal_in_blocks_and_normal_in_length() -> None:
    torch.manual_seed(0)
    rows = orthogonal_rows(11, 4)
    assert rows.shape == (11, 4)
    for block in rows.split(4):
        gram = block @ block.T
        torch.testing.assert_close(gram, gram.diagonal().diag(), rtol=0, atol=1e-5)
    many = orthogonal_rows(20_000, 4)
    torch.testing.assert_close(many.T @ many / len(many), torch.eye(4), rtol=0, atol=0.05)
    torch.testing.assert_close(many.mean(0), torch.zeros(4), rtol=0, atol=0.05)
    assert float(many.square().sum(1).var()) == pytest.approx(8, rel=0.1)  # chi-squared of 4


def test_the_mean_kernel_is_the_exponential() -> None:
    torch.manual_seed(0)
    a, b = torch.tensor([0.5, -0.3, 0.8, 0.1]), torch.tensor([-0.2, 0.6, 0.4, 0.9])
    omega = orthogonal_rows(200_000, 4)
    kernel = (exponents(a, omega) + exponents(b, omega)).exp().mean()
    assert float(kernel) == pytest.approx(math.exp(float(a @ b)), rel=0.02)


def test_with_many_features_it_is_the_softmax(woken, tokens) -> None:
    torch.manual_seed(0)
    net = woken(PerformerAttention(8, 2, max_length=9, features=100_000, eps=0.0))
    full = FullAttention(8, 2, max_length=9).double()
    full.load_state_dict({k: v for k, v in net.state_dict().items() if k != "omega"})
    x = 0.2 * tokens(1, 9, 8)
    torch.testing.assert_close(net(x), full(x), rtol=0, atol=0.01)
    assert not torch.allclose(net(x), full(x), rtol=0, atol=1e-7)


def test_a_new_draw_is_another_estimate(woken, tokens) -> None:
    net, x = woken(PerformerAttention(6, 2, max_length=9, features=7)), tokens(1, 9, 6)
    before = net(x)
    net.redraw()
    assert not torch.allclose(net(x), before)


@pytest.mark.parametrize(
    ("arguments", "words"), [({"features": 0}, "features: 0"), ({"eps": -1.0}, "eps: -1.0")]
)
def test_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PerformerAttention(6, 2, max_length=9, **arguments)
