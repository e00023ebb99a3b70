"""The loss of translation: the formula token by token in float64; padding; its derivatives; its range."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.methods.token_loss import token_loss, tokens


def slow(logits: Tensor, targets: Tensor, smoothing: float) -> float:
    total, count, vocabulary = 0.0, 0, logits.shape[2]
    for b in range(targets.shape[0]):
        for t in range(targets.shape[1]):
            y = int(targets[b, t])
            if y == 0:
                continue
            row = [math.exp(float(one)) for one in logits[b, t]]
            surprise = [-math.log(one / sum(row)) for one in row]
            total += (1 - smoothing) * surprise[y] + smoothing * sum(surprise) / vocabulary
            count += 1
    return total / count


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_formula_token_by_token(seed: int, smoothing: float, lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(len(lengths), 4, 6, generator=generator, dtype=torch.float64)
    targets = torch.randint(1, 6, (len(lengths), 4), generator=generator)
    for row, length in enumerate(lengths):
        targets[row, length:] = 0
    expected = slow(logits, targets, smoothing)
    assert abs(float(token_loss(logits, targets, smoothing=smoothing)) - expected) < 1e-12 * max(1, expected)


def test_weighted_by_its_tokens_the_loss_of_parts_is_that_of_the_whole() -> None:
    logits = torch.randn(5, 4, 6, dtype=torch.float64)
    targets = torch.randint(1, 6, (5, 4))
    targets[0, 1:], targets[3, 2:] = 0, 0
    parts = [slice(0, 2), slice(2, 5)]
    mean = sum(token_loss(logits[p], targets[p]) * tokens(targets[p]) for p in parts) / tokens(targets)
    torch.testing.assert_close(mean, token_loss(logits, targets), rtol=1e-12, atol=1e-12)
    by_rows = sum(token_loss(logits[p], targets[p]) * len(targets[p]) for p in parts) / len(targets)
    assert not torch.allclose(by_rows, token_loss(logits, targets))


def test_padding_has_no_gradient_and_tokens_have() -> None:
    logits = torch.randn(1, 3, 5, requires_grad=True)
    token_loss(logits, torch.tensor([[4, 2, 0]])).backward()
    assert logits.grad is not None
    assert not logits.grad[0, 2].any() and logits.grad[0, :2].any()


def test_the_second_derivative_is_that_of_finite_differences() -> None:
    logits = torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: token_loss(x, torch.tensor([[3, 0]])), logits)


def test_half_precision_is_summed_in_single() -> None:
    logits, targets = torch.randn(4, 50, 300).bfloat16(), torch.randint(1, 300, (4, 50))
    value = token_loss(logits, targets)
    assert value.dtype == torch.float32
    assert abs(float(value) - float(token_loss(logits.double(), targets))) < 1e-5


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.nan])
def test_smoothing_out_of_range_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match=r"label_smoothing.*allowed"):
        token_loss(torch.zeros(1, 1, 4), torch.ones(1, 1, dtype=torch.long), smoothing=smoothing)
