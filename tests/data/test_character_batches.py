"""Batches of lines: every line once, targets one place on, padding least, draws from the generator alone, resumable."""

from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from relearn.data.character_batches import CharacterBatches
from relearn.data.token_batches import BOS, EOS, PAD, Ragged
from relearn.methods import batch_source
from relearn.methods.fit import fit
from relearn.methods.token_loss import token_loss, tokens

some_lines = st.lists(st.lists(st.integers(3, 99), max_size=9), min_size=1, max_size=40)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def read(batch: tuple) -> list[tuple[int, ...]]:
    """The lines of a batch, read back; asserts the form of each row on the way."""
    inputs, targets = batch
    assert inputs.dtype == targets.dtype == torch.int64 and inputs.shape == targets.shape
    found = []
    for x, y in zip(inputs.tolist(), targets.tolist()):
        n = y.index(EOS)
        assert x[0] == BOS and x[1 : n + 1] == y[:n], "targets are the inputs, one place on"
        assert set(x[n + 1 :]) <= {PAD} and set(y[n + 1 :]) <= {PAD}
        found.append(tuple(y[:n]))
    return found


@given(some_lines, st.integers(1, 12), st.integers(0, 3))
@settings(max_examples=60)
def test_every_line_once_in_batches_of_equal_count(lines: list, size: int, seed: int) -> None:
    batches = CharacterBatches(Ragged.of(lines), batch_size=size)
    epoch = list(batches.epoch(generator(seed)))
    seen = [read(batch) for batch in epoch]
    assert sorted(line for found in seen for line in found) == sorted(map(tuple, lines))
    full, rest = divmod(len(lines), size)
    assert sorted(map(len, seen), reverse=True) == [size] * full + [rest] * (rest > 0)
    assert len(epoch) == batches.batches_per_epoch and len(batches) == len(lines)
    for (inputs, _), found in zip(epoch, seen):
        assert inputs.shape[1] == max(map(len, found)) + 1, "no column is padding alone"
    # Lengths do not overlap: no line of one batch is strictly between two of another.
    spans = sorted((min(map(len, found)), max(map(len, found))) for found in seen)
    assert all(high <= low for (_, high), (low, _) in pairwise(spans))


@given(some_lines, st.integers(1, 12))
@settings(max_examples=60)
def test_padding_is_what_a_count_finds(lines: list, size: int) -> None:
    batches = CharacterBatches(Ragged.of(lines), batch_size=size)
    for seed in range(2):
        wanted = [targets for _, targets in batches.epoch(generator(seed))]
        places, pads = sum(y.numel() for y in wanted), sum(int((y == PAD).sum()) for y in wanted)
        assert batches.padding == pytest.approx(pads / places)
        assert batches.targets_per_epoch == places - pads == sum(int(tokens(y)) for y in wanted)


def many(count: int = 400) -> list[list[int]]:
    """Lines whose ids say which line they are; lengths 1 to 12."""
    lengths = torch.randint(1, 13, (count,), generator=generator(0)).tolist()
    return [[4 + i] * n for i, n in enumerate(lengths)]


def test_no_cut_into_batches_of_this_size_pads_less() -> None:
    """Against all ways to share 6 lines among batches of 2: sorting is the best of them."""
    for seed in range(5):
        lengths = torch.randint(0, 9, (6,), generator=generator(seed)).tolist()
        batches = CharacterBatches(Ragged.of([[4] * n for n in lengths]), batch_size=2)
        least = min(
            sum(2 * (max(order[i : i + 2]) + 1) for i in (0, 2, 4)) for order in permutations(lengths)
        )
        places = sum(y.numel() for _, y in batches.epoch(generator(0)))
        assert places == least


def test_sorting_saves_padding() -> None:
    lines = many()
    unsorted = Ragged.of(lines)
    places = sum(unsorted.pad(rows).numel() + len(rows) for rows in torch.arange(400).split(8))
    batches = CharacterBatches(unsorted, batch_size=8)
    assert (
        batches.padding < 0.02 and 1 - batches.targets_per_epoch / places > 0.3
    )  # the control: as they come


def flat(batches: CharacterBatches, seed: int) -> list[list[int]]:
    return [rows.tolist() for rows in batches.rows(generator(seed))]


def test_draws_come_from_the_generator_alone() -> None:
    batches = CharacterBatches(Ragged.of(many()), batch_size=8)
    before = torch.random.get_rng_state()
    assert flat(batches, 1) == flat(batches, 1) != flat(batches, 2)
    one, two = (torch.cat([x.flatten() for x, _ in batches.epoch(generator(5))]) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(before, torch.random.get_rng_state())
    shared = generator(5)
    first, second = ([rows.tolist() for rows in batches.rows(shared)] for _ in range(2))
    assert first != second, "the next epoch draws on"


def test_companions_and_the_order_of_lengths_change() -> None:
    batches = CharacterBatches(Ragged.of(many()), batch_size=8)
    one, two = ({frozenset(rows) for rows in flat(batches, seed)} for seed in (1, 2))
    assert len(one & two) < len(one) / 5
    widths = [x.shape[1] for x, _ in batches.epoch(generator(1))]
    assert widths != sorted(widths) and widths != [x.shape[1] for x, _ in batches.epoch(generator(2))]


def test_in_order_tells_whose_rows_they_are() -> None:
    lines = many(50)
    seen: list[int] = []
    for rows, batch in CharacterBatches(Ragged.of(lines), batch_size=7).in_order():
        assert read(batch) == [tuple(lines[row]) for row in rows.tolist()]
        seen += rows.tolist()
    assert sorted(seen) == list(range(50)) and [len(lines[i]) for i in seen] == sorted(map(len, lines))


class Bigram(nn.Module):
    """Logits of the next character from this one alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(60, 60, dtype=torch.float64))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.table[inputs]


def lines_of_loop() -> Ragged:
    return Ragged.of(
        [[4 + (i + j) % 40 for j in range(n)] for i, n in enumerate([3, 7, 2, 9, 5, 5, 7, 1, 4, 6])]
    )


def train(batches: CharacterBatches, steps: int) -> tuple[torch.Tensor, list[dict]]:
    model = Bigram()
    fitted = fit(
        model,
        batches,
        loss=lambda logits, y: token_loss(logits, y, smoothing=0.0),
        terms=tokens,
        steps=steps,
        lr=5.0,
        schedule="constant",
        momentum=0.0,
        history_steps=1,
        seed=3,
    )
    return model.table.detach(), fitted.history


def test_the_training_loop_takes_them_as_a_source_and_learns() -> None:
    batches = CharacterBatches(lines_of_loop(), batch_size=4)
    assert isinstance(batches, batch_source.Source)
    for batch in batches.epoch(generator(0)):
        assert batch_source.rows(batch) == len(batch[0]) == len(batch[1])
    table, history = train(batches, 60)
    assert history[0]["loss"] == pytest.approx(torch.tensor(60.0).log().item(), rel=1e-6)
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    assert (table[PAD] == 0).all(), "padding teaches nothing"
    again, _ = train(CharacterBatches(lines_of_loop(), batch_size=4), 60)
    assert torch.equal(table, again)


def test_an_epoch_resumes_in_the_middle() -> None:
    """The same state of the generator, the same batches: those seen already can be made once more and skipped."""
    batches, one = CharacterBatches(Ragged.of(many(60)), batch_size=7), generator(9)
    next(batches.epoch(one))
    state = one.get_state()
    whole = list(batches.epoch(one))
    other = torch.Generator()
    other.set_state(state)
    resumed = batches.epoch(other)
    for _ in range(4):
        next(resumed)
    for (x, y), (x2, y2) in zip(whole[4:], resumed, strict=True):
        assert torch.equal(x, x2) and torch.equal(y, y2)
    assert torch.equal(one.get_state(), other.get_state()), "all is drawn before the first batch is made"


def test_lines_without_characters() -> None:
    (inputs, targets), *rest = CharacterBatches(Ragged.of([[], []]), batch_size=4).epoch(generator(0))
    assert not rest and inputs.tolist() == [[BOS]] * 2 and targets.tolist() == [[EOS]] * 2


def test_faults() -> None:
    with pytest.raises(ValueError, match="lines: none; allowed: at least one"):
        CharacterBatches(Ragged.of([]), batch_size=2)
    with pytest.raises(ValueError, match="batch_size is 0; allowed: 1 or more"):
        CharacterBatches(Ragged.of([[4]]), batch_size=0)


def test_padding_of_the_real_treebank(mirror: Callable[..., Path]) -> None:
    from relearn.data.characters import prepare
    from relearn.data.text_lines import load_text

    prepared = prepare(load_text("ptb", folder=mirror("ptb")), name="ptb", max_length=288)[0]
    batches = CharacterBatches(prepared.part("train"), batch_size=64)
    assert batches.batches_per_epoch == 653 and batches.padding < 0.002
    *_, (rows, (inputs, _)) = batches.in_order()
    assert inputs.shape == (len(rows), 289) == (41740 % 64, 289)
