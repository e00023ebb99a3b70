"""The radius within which a reference is right: against plain loops, in closed form, what is dropped, what is not done, bad input."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.measures import loss_radius
from relearn.measures.loss_increase import Losses, largest_increase, sample_losses
from relearn.measures.loss_radius import Radii, factors, search_eps


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Curved:
    """Samples of 3 to 5 tokens and 3 classes, of a function that bends: tokens act on each other. Padding is there, and seen."""

    def __init__(self, seed: int, samples: int) -> None:
        self.x, self.w, self.v = (
            normal(samples, 5, 3, seed=seed),
            normal(3, 4, seed=seed + 1),
            normal(4, 3, seed=seed + 2),
        )
        self.real = torch.arange(5) < torch.randint(
            3, 6, (samples, 1), generator=torch.Generator().manual_seed(seed)
        )
        with torch.no_grad():
            self.labels = self.logits(self.x).argmax(1)
        self.labels[0] = (self.labels[0] + 1) % 3  # wrong at X itself
        self.names = list(range(10, 10 + samples))
        self.looks = torch.zeros(samples, dtype=torch.int64)

    def logits(self, embeds: Tensor) -> Tensor:
        hidden = (2 * embeds @ self.w).sin()
        mixed = hidden * hidden.roll(1, dims=1)
        return (hidden + mixed).mean(1) @ self.v

    def losses_of(self, rows: Tensor) -> Losses:
        def losses(embeds: Tensor) -> Any:
            self.looks[rows] += 1
            return sample_losses(self.logits(embeds), self.labels[rows])

        return losses

    def one(self, number: int) -> tuple[Losses, Tensor, Tensor]:
        place = torch.tensor([number])
        return self.losses_of(place), self.x[place], self.real[place]


ATTACK: dict[str, Any] = {"steps": 7, "step_size": 0.05, "seed": 4}
SHRINK, FIRST = 0.15, 0.9


def slow(task: Curved, number: int, starts: int) -> tuple[float, bool, float]:
    """One sample, one radius after the other, a whole attack each."""
    for share in factors(SHRINK):
        eps = FIRST * share
        found = largest_increase(
            *task.one(number), eps, starts=starts, numbers=[task.names[number]], **ATTACK
        )
        if bool(found.right):
            return eps, True, float(found.increases)
    return 0.0, False, math.nan


def search(task: Curved, starts: int, **changes: Any) -> Radii:
    given: dict[str, Any] = {"shrink": SHRINK, "starts": starts, "numbers": task.names, **ATTACK, **changes}
    return search_eps(task.losses_of, task.x, task.real, FIRST, **given)


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_all_at_once_is_one_after_the_other(seed: int, starts: int) -> None:
    task = Curved(seed, 6)
    found = search(task, starts)
    truth = [slow(task, number, starts) for number in range(6)]
    assert found.eps.tolist() == pytest.approx([eps for eps, _, _ in truth])
    assert found.held.tolist() == [held for _, held, _ in truth]
    wanted = [increase for _, _, increase in truth]
    assert found.increases.tolist() == pytest.approx(wanted, rel=1e-9, nan_ok=True)


def test_the_reference_is_right_in_the_last_ball_and_not_in_the_one_before() -> None:
    task = Curved(5, 40)
    found = search(task, 2)
    assert (
        len(set(found.eps.tolist())) >= 4 and bool((found.eps == FIRST).any()) and bool(found.held[1:].any())
    )
    again = largest_increase(
        task.losses_of(torch.arange(40)), task.x, task.real, found.eps, starts=2, numbers=task.names, **ATTACK
    )
    assert bool(again.right[found.held].all()) and not bool(again.right[0])
    assert found.increases[found.held].tolist() == pytest.approx(
        again.increases[found.held].tolist(), rel=1e-9
    )
    assert found.losses.tolist() == pytest.approx(again.losses.tolist())
    wider = torch.where(found.held, found.eps + SHRINK * FIRST, min(factors(SHRINK)) * FIRST)
    control = largest_increase(
        task.losses_of(torch.arange(40)), task.x, task.real, wider, starts=2, numbers=task.names, **ATTACK
    )
    assert not bool(control.right[found.eps < FIRST].any())


def test_of_a_linear_margin_it_is_the_distance_to_the_border() -> None:
    """Two classes, margin m + ⟨a, δ⟩: right as far as ε ‖a‖ < m; the first radius below that, and none where there is none."""
    distance = torch.tensor([5.0, 0.95, 0.55, 0.1501, 0.05, 0.0, -1.0], dtype=torch.float64)
    a = normal(7, 3, 2)
    x, real = normal(7, 3, 2, seed=1), torch.ones(7, 3, dtype=torch.bool)
    margins = distance * a.flatten(1).norm(dim=1)

    def losses_of(rows: Tensor) -> Losses:
        def losses(embeds: Tensor) -> Any:
            margin = margins[rows] + (a[rows] * (embeds - x[rows])).sum((1, 2))
            return sample_losses(torch.stack([margin, torch.zeros_like(margin)], 1), torch.zeros_like(rows))

        return losses

    first = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    found = search_eps(losses_of, x, real, first, shrink=0.1, steps=2, step_size=2.0)
    assert found.eps.tolist() == pytest.approx([1.0, 0.9, 0.5, 0.1, 0.0, 0.0, 0.0])
    assert found.held.tolist() == [True] * 4 + [False] * 3
    softplus = torch.nn.functional.softplus
    slope = found.eps * a.flatten(1).norm(dim=1)
    wanted = (softplus(slope - margins) - softplus(-margins))[:4]
    assert found.increases[:4].tolist() == pytest.approx(wanted.tolist())
    assert bool(found.increases[4:].isnan().all())
    half = search_eps(losses_of, x, real, first / 2, shrink=0.1, steps=2, step_size=2.0)  # a radius a sample
    assert half.eps.tolist() == pytest.approx([0.5, 0.5, 0.5, 0.15, 0.05 * 0, 0.0, 0.0])


def test_a_decided_sample_is_attacked_no_more() -> None:
    """Its looks, and at most as many as pass between two looks at who is decided; wrong at X: none behind these."""
    task, told = Curved(5, 12), []
    found = search(task, 1, progress=lambda *at: told.append(at))
    levels = ((FIRST - found.eps) / (SHRINK * FIRST)).round()
    attacks = torch.where(found.held, levels + 1, len(factors(SHRINK)))
    assert bool((task.looks <= attacks * 8 + loss_radius.CHECK - 1).all())
    assert task.looks[0] == loss_radius.CHECK
    assert told[-1] == (12, 12) and [done for done, _ in told] == sorted(done for done, _ in told)


def test_nobody_elses_radius_counts() -> None:
    task = Curved(5, 12)
    found = search(task, 2)
    order = torch.tensor([7, 3, 11, 0])
    some = search_eps(
        lambda rows: task.losses_of(order[rows]),
        task.x[order],
        task.real[order],
        FIRST,
        shrink=SHRINK,
        starts=2,
        numbers=[task.names[one] for one in order.tolist()],
        **ATTACK,
    )
    assert some.eps.tolist() == found.eps[order].tolist()
    assert some.increases.tolist() == pytest.approx(found.increases[order].tolist(), rel=1e-9, nan_ok=True)


def test_a_loss_that_is_not_finite_is_not_right() -> None:
    """Sample 0 breaks beyond 0.5 of the first radius 1, sample 1 nowhere, sample 2 everywhere."""
    x, real = torch.zeros(3, 2, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.bool)
    limit = torch.tensor([0.55, 9.0, -1.0])

    def losses_of(rows: Tensor) -> Losses:
        def losses(embeds: Tensor) -> Any:
            broken = embeds.detach().flatten(1).norm(dim=1) > limit[rows]
            return torch.where(broken, torch.nan, embeds.sum((1, 2))), torch.ones_like(broken)

        return losses

    found = search_eps(losses_of, x, real, 1.0, shrink=0.25, steps=3, step_size=1.0)
    assert found.eps.tolist() == [0.5, 1.0, 0.0] and found.held.tolist() == [True, True, False]
    assert found.increases[:2].tolist() == pytest.approx([1.0, 2.0]) and bool(found.increases[2].isnan())
    assert found.nonfinite.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("shrink", "wanted"),
    [(1.0, [1.0]), (0.5, [1.0, 0.5]), (0.4, [1.0, 0.6, 0.2]), (0.1, [1 - n / 10 for n in range(10)])],
)
def test_the_radii_end_above_zero(shrink: float, wanted: list[float]) -> None:
    assert factors(shrink) == pytest.approx(wanted) and min(factors(shrink)) > 0


def plain(rows: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda embeds: embeds.sum((1, 2))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shrink": 0.0}, r"shrink: 0.0 \(allowed: "),
        ({"shrink": 1.5}, r"shrink: 1.5 \(allowed: "),
        ({"shrink": math.nan}, r"shrink: nan \(allowed: "),
        ({}, r"losses: no answers, as of regression \(allowed: "),
        ({"steps": -1}, r"steps -1"),
        ({"real": torch.zeros(2, 3, dtype=torch.bool)}, "real: sample 0 is all padding"),
    ],
)
def test_bad_input_is_refused_in_one_line(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"shrink": 0.5, "steps": 1, "step_size": 0.1, "first": 1.0}
    given |= {"losses_of": plain, "embeds": torch.zeros(2, 3, 4), "real": torch.ones(2, 3, dtype=torch.bool)}
    with pytest.raises(ValueError, match=said) as caught:
        search_eps(**{**given, **change})
    assert "\n" not in str(caught.value)
