"""Nyströmformer against its formula with torch's pseudo-inverse, and against the softmax where it is exact."""

import pytest
import torch

from relearn.layers.efficient.full import FullAttention
from relearn.layers.efficient.nystromformer import NystromformerAttention, pseudo_inverse


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
    errors = [
        float((pseudo_inverse(matrix, n) - torch.linalg.pinv(matrix)).norm()) for n in (1, 3, 6, 12, 30)
    ]
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
def test_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NystromformerAttention(6, 2, max_length=9, **arguments)
