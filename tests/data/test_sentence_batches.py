"""Batches of sentences, pairs and candidates: against padding by hand, every sample once, equal draws."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.examples import Examples, Row
from relearn.data.masked_batches import NONE, TokenBatches
from relearn.data.sentence_batches import SentenceBatches
from relearn.data.sentence_vocabulary import train
from relearn.methods.batch_source import Source
from relearn.methods.fit import fit

TEXTS = ["the cat sat on the mat", "a dog", "a dog sat on the cat, again and again", "so it was"]
TOKENIZERS = {family: train(family, TEXTS, 290) for family in ("roberta", "bert")}


def made(candidates: list[int], labels: Any = "numbers", name: str = "bert", **more: Any) -> SentenceBatches:
    """Samples of so many candidates; the label of sample i is i modulo its candidates."""
    rows: list[list[Row]] = [
        [(TEXTS[(number + one) % 4], TEXTS[one % 4] if number % 2 else None) for one in range(count)]
        for number, count in enumerate(candidates)
    ]
    if labels == "numbers":
        labels = torch.tensor([number % count for number, count in enumerate(candidates)])
    examples = Examples(rows, labels, [str(number) for number in range(len(rows))])
    return SentenceBatches(examples, TOKENIZERS[name], **{"batch_size": 3, "longest": 12, **more})


def by_hand(batches: SentenceBatches, numbers: list[int], name: str, longest: int = 12) -> list[np.ndarray]:
    """tokens, real and types (B, C, n) of these samples."""
    own = TOKENIZERS[name]
    encoded = [own.encode(batches.examples.rows[number], longest) for number in numbers]
    n = max(len(ids) for rows in encoded for ids, _ in rows)
    shape = (len(numbers), len(encoded[0]), n)
    tokens, real, types = np.full(shape, own.pad), np.zeros(shape, bool), np.zeros(shape, int)
    for place, rows in enumerate(encoded):
        for one, (ids, kinds) in enumerate(rows):
            tokens[place, one, : len(ids)], types[place, one, : len(ids)] = ids, kinds
            real[place, one, : len(ids)] = True
    return [tokens, real, types]


@pytest.mark.parametrize("name", ["roberta", "bert"])
@pytest.mark.parametrize("count", [1, 3])
@given(numbers=st.lists(st.integers(0, 6), min_size=1, max_size=5))
@settings(max_examples=25)
def test_a_batch_is_its_rows_padded_to_the_longest(name: str, count: int, numbers: list[int]) -> None:
    batches = made([count] * 7, name=name)
    inputs, labels = batches.batch(torch.tensor(numbers))
    expected = by_hand(batches, numbers, name)
    if count == 1:
        expected = [one[:, 0] for one in expected]
    assert len(inputs) == (3 if name == "bert" else 2)
    for found, wanted in zip(inputs, expected):
        assert found.numpy().tolist() == wanted.tolist()
    assert [one.dtype for one in inputs] == [torch.int64, torch.bool, torch.int64][: len(inputs)]
    assert labels.tolist() == [number % count for number in numbers]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=14), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=40)
def test_an_epoch_has_every_sample_once_in_batches_of_equally_many(
    candidates: list[int], size: int, seed: int
) -> None:
    batches = made(candidates, torch.zeros(len(candidates), dtype=torch.int64), batch_size=size)
    seen: list[int] = []
    real_batch = batches.batch

    def noted(numbers: torch.Tensor) -> Any:
        seen.extend(numbers.tolist())
        assert len({candidates[one] for one in numbers.tolist()}) == 1 and 1 <= len(numbers) <= size
        return real_batch(numbers)

    batches.batch = noted  # type: ignore[method-assign]
    assert isinstance(batches, Source)
    assert len(list(batches.epoch(torch.Generator().manual_seed(seed)))) == batches.batches_per_epoch
    assert sorted(seen) == list(range(len(candidates)))
    seen.clear()
    list(batches.in_order())
    assert seen == list(range(len(candidates)))


@pytest.mark.parametrize("candidates", [[1] * 8, [4, 4, 3, 4, 5, 4, 4, 3, 4]])
def test_equal_generators_give_equal_epochs(candidates: list[int]) -> None:
    batches = made(candidates)

    def tokens(seed: int) -> list[list[Any]]:
        return [one[0].tolist() for one, _ in batches.epoch(torch.Generator().manual_seed(seed))]

    assert tokens(1) == tokens(1) != tokens(2)


class Scores(torch.nn.Module):
    """A score a candidate: the sum of its tokens' values."""

    def __init__(self) -> None:
        super().__init__()
        self.values = torch.nn.Embedding.from_pretrained(torch.linspace(-1, 1, 290)[:, None], freeze=False)

    def forward(self, tokens: torch.Tensor, real: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        return (self.values(tokens)[..., 0] * real).sum(-1)


class Stopping:
    """A checkpoint that stops the run at its first save, as a kill would."""

    def __init__(self) -> None:
        self.state: Any = None

    def load(self) -> Any:
        return self.state

    def save(self, state: Any) -> None:
        first = self.state is None
        self.state = copy.deepcopy(state)
        if first:
            raise KeyboardInterrupt


def test_a_run_that_was_stopped_in_the_middle_of_an_epoch_goes_on_with_the_same_batches() -> None:
    def fitted(checkpoint: Any = None) -> torch.Tensor:
        net = Scores()
        fit(
            net,
            made([4, 4, 3, 4, 5, 4, 4, 3, 4, 4], batch_size=2),
            loss=torch.nn.functional.cross_entropy,
            steps=11,
            lr=0.1,
            checkpoint=checkpoint,
            checkpoint_steps=4,
        )
        return net.values.weight.detach().clone()

    whole, stopping = fitted(), Stopping()
    with pytest.raises(KeyboardInterrupt):
        fitted(stopping)
    assert torch.equal(fitted(stopping), whole)


def test_batches_of_one_kind_do_not_always_come_last() -> None:
    """Few questions have three candidates; the step they make should not always end the epoch."""
    batches = made([4] * 9 + [3])
    ends = [list(batches.epoch(torch.Generator().manual_seed(seed)))[-1][0][0].shape[1] for seed in range(40)]
    assert 1 <= ends.count(3) <= 39


def test_labels_are_classes_values_or_unknown() -> None:
    values = made([1, 1], torch.tensor([0.5, 4.25]))
    labels = values.batch(torch.tensor([1, 0]))[1]
    assert labels.dtype == torch.float32 and labels.tolist() == [4.25, 0.5]
    unknown = made([1, 1], None)
    assert [labels for _, labels in unknown.in_order()] == [None]
    with pytest.raises(ValueError, match=r"labels: unknown \(allowed: samples with labels\)"):
        next(unknown.epoch(torch.Generator()))


def test_lengths_and_what_was_cut() -> None:
    batches = made([1, 2, 1], longest=5)
    sizes = [[len(ids) for ids, _ in TOKENIZERS["bert"].encode(rows, 5)] for rows in batches.examples.rows]
    assert batches.lengths.tolist() == [sum(one) for one in sizes]
    assert batches.cut_count == sum(one.count(5) for one in sizes)
    assert made([1], longest=100).cut_count == 0


def test_hidden_tokens_of_single_texts() -> None:
    """The tokenizer serves masked language modelling as well."""
    own = TOKENIZERS["bert"]
    rows = own.encode_texts(TEXTS, 12)
    tokenizer: Any = own
    hiding = TokenBatches(rows, torch.zeros(4, dtype=torch.int64), tokenizer, batch_size=4, hidden_frac=0.5)
    (tokens, real, hidden), targets = next(iter(hiding.in_order()))
    special = torch.tensor(own.special)
    for place, row in enumerate(rows):
        wanted = max(1, round(0.5 * (len(row) - 2)))
        assert hidden[place].sum() == wanted
        assert torch.where(hidden, targets, tokens)[place, : len(row)].tolist() == row.tolist()
    assert not torch.isin(targets[hidden], special).any() and (targets[~hidden] == NONE).all()
    assert (tokens[~real] == own.pad).all()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"examples: none \(allowed: at least one\)"):
        SentenceBatches(Examples([], None, []), TOKENIZERS["bert"], batch_size=1, longest=9)
    with pytest.raises(ValueError, match=r"batch_size: 0 \(allowed: at least 1\)"):
        made([1], batch_size=0)
    with pytest.raises(ValueError, match="max_length: 2"):
        made([1], longest=2)
    with pytest.raises(ValueError, match=r"numbers: samples of \[3, 4\] candidates"):
        made([3, 4]).batch(torch.tensor([0, 1]))
