"""Gradient accumulation: against the whole batch, for plain and adversarial steps; shares, state, bad input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relearn.methods.fit import plain_gradient
from relearn.methods.gradient_accumulation import GradientAccumulation
from relearn.methods.gradient_strategies import strategy


class Reader(nn.Module):
    """The mean of a sentence's words through two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.hidden, self.answer = nn.Embedding(20, 6), nn.Linear(6, 8), nn.Linear(8, 3)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        rows = self.words(tokens) * real[..., None]
        mean = rows.sum(1) / real.sum(1, keepdim=True)
        result: Tensor = self.answer(torch.tanh(self.hidden(mean)))
        return result


def sentences(count: int) -> Any:
    tokens = torch.randint(1, 20, (count, 5))
    real = torch.arange(5) < torch.randint(1, 6, (count, 1))
    return ((tokens, real), torch.randint(3, (count,)))


def gradients(model: nn.Module, strategy: Any, batch: Any) -> tuple[Tensor, Tensor]:
    model.zero_grad()
    value = strategy(model, cross_entropy, batch)
    return value, torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 9), shares=st.integers(1, 5))
def test_shares_add_up_to_the_batch(rows: int, shares: int) -> None:
    torch.manual_seed(rows + 10 * shares)
    model, batch = Reader().double(), sentences(rows)
    whole, wanted = gradients(model, plain_gradient, batch)
    value, found = gradients(model, GradientAccumulation([plain_gradient] * shares), batch)
    assert torch.allclose(value, whole, atol=1e-14) and torch.allclose(found, wanted, atol=1e-14)
    assert not value.requires_grad


@pytest.mark.parametrize(("name", "passes"), [("freelb", 3), ("pgd", 3)])
def test_an_adversarial_step_is_that_of_the_whole_batch(name: str, passes: int) -> None:
    """Samples are perturbed one by one, from zero: shares change nothing. A larger step is another gradient."""
    torch.manual_seed(0)
    model, batch = Reader().double(), sentences(7)

    def made(step: float) -> Any:
        return strategy(name, passes=passes, step_size=step, eps=0.5, start_norm=0.0)

    whole, wanted = gradients(model, made(0.2), batch)
    value, found = gradients(model, GradientAccumulation([made(0.2) for _ in range(3)]), batch)
    assert torch.allclose(value, whole, atol=1e-12) and torch.allclose(found, wanted, atol=1e-12)
    _, other = gradients(model, made(0.3), batch)
    assert not torch.allclose(other, wanted, atol=1e-6)
    _, plain = gradients(model, plain_gradient, batch)
    assert not torch.allclose(plain, wanted, atol=1e-6)


class Counting:
    """Plain back-propagation that remembers the rows it saw."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.skipped_count = 2

    def __call__(self, model: nn.Module, loss: Any, batch: Any) -> Tensor:
        self.seen += batch[0][0][:, 0].tolist()
        return plain_gradient(model, loss, batch)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = list(state.get("seen", []))


def test_a_strategy_has_always_the_same_share() -> None:
    model, batch = Reader(), sentences(5)
    batch[0][0][:, 0] = torch.arange(5)
    shares = GradientAccumulation([Counting(), Counting(), plain_gradient])
    shares(model, cross_entropy, batch)
    shares(model, cross_entropy, batch)
    first, second = (one.seen for one in shares.strategies[:2])
    assert first == [0, 0] and second == [1, 2, 1, 2] and shares.skipped_count == 4
    again = GradientAccumulation([Counting(), Counting(), plain_gradient])
    again.load_state_dict(shares.state_dict())
    assert [one.seen for one in again.strategies[:2]] == [first, second]
    again.load_state_dict({})
    assert [one.seen for one in again.strategies[:2]] == [[], []]


def test_there_must_be_a_share() -> None:
    with pytest.raises(ValueError, match=r"accumulate: 0 \(allowed: at least 1\)"):
        GradientAccumulation([])
