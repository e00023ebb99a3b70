"""FAVOR+ against its n x n form, its kernel against the exponential, its draws against orthogonality.

Nyströmformer against its formula with torch's pseudo-inverse, and against the softmax where it is exact.
"""

import math

import pytest
import torch

from relearn.layers.efficient.full import FullAttention
from relearn.layers.efficient.nystromformer import NystromformerAttention, pseudo_inverse
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
def test_performer_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PerformerAttention(6, 2, max_length=9, **arguments)


@pytest.mark.parametrize("length", [1, 5, 12])
@pytest.mark.parametrize("kernel", [0, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_formula(heads_of, woken, tokens, length: int, kernel: int, masked: bool) -> None:
    """12 tokens in segments of 3; with a mask some segment has no token."""
    net = woken(NystromformerAttention(6, 2, max_length=12, landmarks=4, steps=40, kernel=kernel))
    x = tokens(2, length, 6)
    mask = (torch.arange(length) % 5 != torch.tensor([[4], [1]])) & (torch.arange(length) // 3 != 2)
    y = net(x, mask=mask if masked else None)
    for row, seen, found in zip(x, mask, y):
        real = [j for j in range(length) if not masked or seen[j]]
        heads = []
        for h, (q, k, v) in enumerate(heads_of(net, row)):
            groups = [[j for j in real if j // 3 == s] for s in range(4)]
            few_q, few_k = (torch.stack([one[g].mean(0) for g in groups if g]) for one in (q, k))
            one, two, three = (
                torch.softmax(a @ b.T / 3**0.5, 1) for a, b in ((q, few_k), (few_q, few_k), (few_q, k[real]))
            )
            mixed = one @ torch.linalg.pinv(two) @ three @ v[real]
            if net.conv is not None:
                taps = net.conv.weight[h, 0, :, 0]
                for i in range(length):
                    mixed[i] += sum(taps[j - i + 1] * v[j] for j in real if abs(j - i) <= 1)
            heads.append(mixed)
        expected = torch.cat(heads, 1) @ net.out.weight.T + net.out.bias
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


def test_with_a_landmark_a_token_it_is_the_softmax(woken, tokens) -> None:
    net = woken(NystromformerAttention(6, 2, max_length=7, landmarks=7, steps=60, kernel=0))
    full = FullAttention(6, 2, max_length=7).double()
    full.load_state_dict(net.state_dict())
    x = 3 * tokens(2, 7, 6)
    torch.testing.assert_close(net(x), full(x), rtol=1e-5, atol=1e-7)


def test_the_inverse_comes_nearer_with_every_step() -> None:
    torch.manual_seed(0)
    matrix = (3 * torch.randn(2, 5, 5, dtype=torch.float64)).softmax(-1)
    errors = [float((pseudo_inverse(matrix, n) - torch.linalg.pinv(matrix)).norm()) for n in (1, 3, 6, 12)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 1e-8


def test_rows_and_columns_of_no_landmark_do_not_matter() -> None:
    torch.manual_seed(0)
    small = torch.randn(3, 3, dtype=torch.float64).softmax(-1)
    large = torch.zeros(5, 5, dtype=torch.float64)
    large[:3, :3] = small
    found = pseudo_inverse(large, 20)
    torch.testing.assert_close(found[:3, :3], pseudo_inverse(small, 20))
    assert found[3:].abs().max() == found[:, 3:].abs().max() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"landmarks": 0}, "landmarks: 0"), ({"steps": 0}, "steps: 0"), ({"kernel": 4}, "kernel: 4")],
)
def test_nystromformer_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NystromformerAttention(6, 2, max_length=9, **arguments)
