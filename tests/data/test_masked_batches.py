"""Batches of tokens: what is hidden, how it shows, what is never hidden; order; padding; bad input."""

import numpy as np
import pytest
import torch

from relearn.data.masked_batches import NONE, TokenBatches
from relearn.data.roberta_tokens import train

TOKENIZER = train(["some text to learn from, and some more of it"], 280)
SPECIAL = torch.tensor(TOKENIZER.special)


def rows(*lengths: int) -> list[np.ndarray]:
    """Sequences of so many tokens with <s> and </s>."""
    random = np.random.default_rng(0)
    inside = (random.integers(5, len(TOKENIZER), length - 2) for length in lengths)
    return [np.array([0, *one, 2], dtype=np.int32) for one in inside]


def batches(*lengths: int, size: int = 4, share: float | None = 0.15) -> TokenBatches:
    labels = torch.arange(len(lengths)) % 2
    return TokenBatches(rows(*lengths), labels, TOKENIZER, batch_size=size, hidden_frac=share)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_without_masking_a_batch_has_its_classes() -> None:
    one = batches(5, 9, 3, share=None)
    (tokens, real), labels = one.batch(torch.tensor([2, 1]))
    assert tokens.shape == (2, 9) and labels.tolist() == [0, 1]
    assert real.sum(1).tolist() == [3, 9] and tokens[0, 3:].eq(TOKENIZER.pad).all()
    assert tokens[1].tolist() == one.rows[1].tolist()


@pytest.mark.parametrize("share", [0.01, 0.15, 0.5, 1.0])
def test_how_many_are_hidden_and_which(share: float) -> None:
    one = batches(40, 3, 12, share=share)
    (tokens, real, hidden), targets = one.batch(torch.arange(3), generator())
    wanted = [max(1, round(share * count)) for count in (38, 1, 10)]
    assert hidden.sum(1).tolist() == wanted
    original = torch.nn.utils.rnn.pad_sequence(one.rows, True, TOKENIZER.pad).long()
    assert not torch.isin(original[hidden], SPECIAL).any() and real[hidden].all()
    assert torch.equal(targets[hidden], original[hidden]) and targets[~hidden].eq(NONE).all()
    assert torch.equal(tokens[~hidden], original[~hidden])


def test_how_hidden_tokens_show() -> None:
    """Of 78,000: 0.8 the mask, 0.1 a random word, 0.1 themselves, within four standard errors."""
    one = batches(*[400] * 196, size=196, share=1.0)
    (tokens, _, hidden), targets = one.batch(torch.arange(196), generator())
    shown, was = tokens[hidden], targets[hidden]
    count, words = len(was), len(TOKENIZER) - 5
    shares = {
        0.8: (shown == TOKENIZER.mask).sum(),
        0.1 * (1 - 1 / words): ((shown != TOKENIZER.mask) & (shown != was)).sum(),
        0.1 * (1 + 1 / words): (shown == was).sum(),
    }
    for expected, found in shares.items():
        error = (expected * (1 - expected) / count) ** 0.5
        assert abs(float(found) / count - expected) < 4 * error
    other = shown[(shown != TOKENIZER.mask) & (shown != was)]
    assert not torch.isin(other, SPECIAL).any()
    assert other.bincount(minlength=len(TOKENIZER))[5:].min() > 0  # the whole vocabulary


def test_every_place_is_as_likely() -> None:
    one = batches(*[12] * 2000, size=2000, share=0.3)
    (_, _, hidden), _ = one.batch(torch.arange(2000), generator())
    found = hidden[:, 1:11].double().mean(0)
    assert (found - 0.3).abs().max() < 4 * (0.3 * 0.7 / 2000) ** 0.5


def test_epochs_see_all_once_and_hide_anew() -> None:
    one = batches(*range(5, 16))
    assert one.batches_per_epoch == 3
    for seed in (0, 1):
        lengths = [int(n) for (_, real, _), _ in one.epoch(generator(seed)) for n in real.sum(1)]
        assert sorted(lengths) == list(range(5, 16))
    first, again, other = (next(one.epoch(generator(seed))) for seed in (0, 0, 1))
    assert torch.equal(first[1], again[1]) and torch.equal(first[0][0], again[0][0])
    assert first[1].shape != other[1].shape or not torch.equal(first[1], other[1])
    same, twice = ([targets for _, targets in one.in_order(3)] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(same, twice))
    assert [len(a) for a in same] == [4, 4, 3]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": []}, "rows: 0 with 2 labels"),
        ({"labels": torch.zeros(3)}, "rows: 2 with 3 labels"),
        ({"batch_size": 0}, "batch_size: 0"),
        ({"hidden_frac": 0.0}, "^hidden_frac .*: 0.0"),
        ({"hidden_frac": 1.1}, "^hidden_frac .*: 1.1"),
    ],
)
def test_wrong_arguments_are_refused(changes: dict, said: str) -> None:
    given = {"rows": rows(4, 5), "labels": torch.zeros(2), "tokenizer": TOKENIZER, "batch_size": 2, **changes}
    with pytest.raises(ValueError, match=said):
        TokenBatches(**given)
