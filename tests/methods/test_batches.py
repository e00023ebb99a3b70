"""Batches: what a source over tensors yields, how a batch is shared, what becomes of bytes.

Gradient accumulation: against the whole batch, for plain and adversarial steps; shares, state, bad input.
"""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relearn.methods.batch_source import Resident, Source, outputs, pixels, rows, share
from relearn.methods.fit import plain_gradient
from relearn.methods.gradient_accumulation import GradientAccumulation
from relearn.methods.gradient_strategies import strategy


@given(count=st.integers(2, 40), batch_size=st.integers(2, 45), seed=st.integers(0, 99))
def test_an_epoch_is_a_permutation_in_slices_and_as_many_as_announced(count, batch_size, seed):
    source = Resident((torch.arange(count), torch.arange(count) * 2), batch_size)
    batches = list(source.epoch(torch.Generator().manual_seed(seed)))
    assert len(batches) == source.batches_per_epoch
    seen = [int(i) for batch in batches for i in batch[0]]
    assert len(set(seen)) == len(seen) == count - (count % batch_size == 1)
    assert all(torch.equal(b[0] * 2, b[1]) for b in batches)
    assert source.smallest == min(len(b[0]) for b in batches)
    again = list(source.epoch(torch.Generator().manual_seed(seed)))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(batches, again, strict=True))


@given(count=st.integers(1, 30), size=st.integers(1, 8))
def test_shares_are_a_partition_in_order_and_differ_by_at_most_one_row(count, size):
    batch = [(torch.arange(count), torch.arange(count) + 100), torch.arange(count) + 200]
    if count < size:
        with pytest.raises(ValueError, match=f"a batch of {count} rows, allowed are at least {size}"):
            share(batch, 0, size)
        return
    parts = [share(batch, rank, size) for rank in range(size)]
    lengths = [rows(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1
    assert torch.equal(torch.cat([part[0][0] for part in parts]), batch[0][0])
    assert torch.equal(torch.cat([part[0][1] for part in parts]), batch[0][1])
    assert torch.equal(torch.cat([part[1] for part in parts]), batch[1])


def test_bytes_become_pixels_and_other_inputs_stay():
    device = torch.device("cpu")
    images = torch.tensor([0, 51, 255], dtype=torch.uint8)
    assert pixels([images, images], device)[0].tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert pixels([images, images], device)[1] is images
    tokens = (torch.tensor([[1, 2]]), torch.tensor([[3, 4]]))
    kept = pixels([tokens, images], device)[0]
    assert all(a is b for a, b in zip(kept, tokens, strict=True))


def test_a_tuple_of_inputs_is_splatted():
    class Two(nn.Module):
        def forward(self, a, b=None):
            return a if b is None else a - b

    one, two = torch.tensor([3.0]), torch.tensor([1.0])
    assert float(outputs(Two(), (one, two))) == 2.0 and float(outputs(Two(), one)) == 3.0


def test_resident_is_a_source_and_tensors_are_not():
    data = (torch.zeros(4),)
    assert isinstance(Resident(data, 2), Source) and not isinstance(data, Source)


@pytest.mark.parametrize(
    "data,size,message",
    [
        ((torch.zeros(4), torch.zeros(3)), 2, "unequal length"),
        ((torch.zeros(1),), 2, "1 samples, at least 2"),
        ((torch.zeros(4),), 1, "batch_size: found 1, allowed is 2 or more"),
    ],
)
def test_impossible_data_are_refused(data, size, message):
    with pytest.raises(ValueError, match=message):
        Resident(data, size)


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


def gradients(
    model: nn.Module, strategy: Any, batch: Any, loss: Any = cross_entropy
) -> tuple[Tensor, Tensor]:
    model.zero_grad()
    value = strategy(model, loss, batch)
    return value, torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


@settings(max_examples=15)
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


def test_an_item_without_rows_goes_to_every_part():
    model, batch = nn.Linear(3, 2), (torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 0, 1]), 2.0)

    def loss(out, labels, factor):
        return factor * cross_entropy(out, labels)

    whole = gradients(model, plain_gradient, batch, loss)
    parts = gradients(model, GradientAccumulation([plain_gradient] * 3), batch, loss)
    torch.testing.assert_close(parts, whole)
    assert share(batch, 1, 2)[2] == 2.0
