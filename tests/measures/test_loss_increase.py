"""The largest loss in a ball: closed forms, a transformer, what does not act on a sample, cost, NaN, bad input."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn import torchvision_schema
from relearn.maths.eval_mode import frozen
from relearn.measures.loss_increase import (
    largest_increase,
    sample_losses,
    sample_norms,
    start_of,
    uphill,
)

torchvision_schema.declare()


def everywhere(embeds: Tensor) -> Tensor:
    return torch.ones(embeds.shape[:-1], dtype=torch.bool)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.lists(st.floats(0, 5), min_size=3, max_size=3), st.integers(0, 4))
def test_of_a_linear_loss_it_is_the_radius_times_the_slope(seed: int, eps: list[float], padded: int) -> None:
    """max ⟨a, δ⟩ = ε ‖a‖ over what is not padding, whose slope is not 0 here, a radius a sample."""
    x, a = normal(3, 6, 4, seed=seed), normal(3, 6, 4, seed=seed + 1)
    real = torch.arange(6) < torch.tensor([6, 6 - padded, 2])[:, None]
    radius = torch.tensor(eps, dtype=torch.float64)
    found = largest_increase(lambda e: (a * e).sum((1, 2)), x, real, radius, steps=3, step_size=2.0)
    wanted = radius.clamp(max=6.0) * sample_norms(a, real)
    assert found.increases.tolist() == pytest.approx(wanted.tolist(), rel=1e-9, abs=1e-9)
    assert bool((found.deltas[~real] == 0).all())
    assert bool((sample_norms(found.deltas, real) <= radius * (1 + 1e-12)).all())


def trust_region(h: Tensor, b: Tensor, eps: float) -> float:
    """max ½ δᵀHδ + bᵀδ in the ball, by (λ - H) δ = b with λ ≥ max(0, the largest eigenvalue), ‖δ‖ = ε or λ = 0."""
    values, vectors = torch.linalg.eigh(h)
    c = vectors.T @ b
    low = max(0.0, float(values[-1]))
    if float(values[-1]) < 0 and float((c / -values).norm()) <= eps:
        delta = c / -values
    else:
        high = low + float(b.norm()) / eps + 1.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if float((c / (middle - values)).norm()) > eps else (low, middle)
        delta = c / (high - values)
    return float((values * delta.square()).sum() / 2 + (c * delta).sum())


@pytest.mark.parametrize("kind", ["convex", "concave", "neither"])
def test_of_a_quadratic_it_is_lagranges(kind: str) -> None:
    m, b, x = normal(8, 6, 6), normal(8, 6, seed=1), normal(8, 3, 2, seed=2)
    eps = torch.linspace(0.3, 2.0, 8, dtype=torch.float64)
    h = m @ m.mT / 6 if kind == "convex" else -m @ m.mT / 6 if kind == "concave" else (m + m.mT) / 4

    def losses(embeds: Tensor) -> Tensor:
        delta = (embeds - x).flatten(1)
        return (delta * ((h @ delta[..., None]).squeeze(-1) / 2 + b)).sum(1)

    found = largest_increase(losses, x, everywhere(x), eps, steps=1500, step_size=0.03)
    for one, *problem in zip(found.increases.tolist(), h, b, eps.tolist()):
        best = trust_region(*problem)
        assert one <= best * (1 + 1e-9)  # a lower bound, always
        assert one == pytest.approx(best, rel=1e-3)


def transformer(seed: int = 0) -> Any:
    """A RoBERTa with 3 classes in float64; dropout on, until it is probed."""
    import transformers

    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(
        "roberta",
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=20,
        num_labels=3,
        pad_token_id=1,
        initializer_range=0.3,
    )
    return transformers.AutoModelForSequenceClassification.from_config(config).double().train()


class Texts:
    """Five texts of different lengths, and the losses of some of them at given embeddings."""

    def __init__(self, net: Any) -> None:
        self.net = net
        generator = torch.Generator().manual_seed(1)
        self.lengths = torch.tensor([9, 4, 7, 2, 9])
        self.tokens = torch.randint(3, 30, (5, 9), generator=generator)
        self.real = torch.arange(9) < self.lengths[:, None]
        self.tokens[~self.real] = 1
        self.embeds = net.get_input_embeddings()(self.tokens).detach()
        self.labels = torch.tensor([0, 1, 2, 0, 1])

    def of(self, rows: list[int], longest: int = 9) -> dict[str, Any]:
        def losses(embeds: Tensor) -> Any:
            seen = self.real[rows, :longest]
            logits = self.net(inputs_embeds=embeds, attention_mask=seen.long()).logits
            return sample_losses(logits, self.labels[rows])

        return {
            "losses": losses,
            "embeds": self.embeds[rows, :longest],
            "real": self.real[rows, :longest],
            "numbers": rows,
        }


@pytest.fixture(scope="module")
def texts() -> Texts:
    return Texts(transformer())


PROBE: dict[str, Any] = {"steps": 12, "step_size": 0.1, "starts": 2, "seed": 3}


def test_no_sample_acts_on_another_nor_does_padding(texts: Texts) -> None:
    eps = torch.tensor([0.5, 0.1, 1.0, 0.3, 0.0], dtype=torch.float64)
    with frozen(texts.net):
        together = largest_increase(**texts.of([0, 1, 2, 3, 4]), eps=eps, **PROBE)
        turned = largest_increase(**texts.of([4, 2, 0, 3, 1]), eps=eps[[4, 2, 0, 3, 1]], **PROBE)
        for number, length in enumerate(texts.lengths.tolist()):
            alone = largest_increase(**texts.of([number], length), eps=eps[number], **PROBE)
            assert float(alone.increases) == pytest.approx(float(together.increases[number]), rel=1e-8)
            close = torch.allclose(alone.deltas[0], together.deltas[number, :length], atol=1e-8)
            assert close and bool((together.deltas[number, length:] == 0).all())
    assert turned.increases.tolist() == pytest.approx(together.increases[[4, 2, 0, 3, 1]].tolist(), rel=1e-8)
    assert together.increases[4] == 0 and bool((together.deltas[4] == 0).all())  # radius 0
    assert bool((together.increases[:4] > 1e-3).all())


def test_more_steps_and_larger_balls_never_find_less(texts: Texts) -> None:
    given = texts.of([0, 1, 2, 3])
    with frozen(texts.net):
        counts = [
            largest_increase(**given, eps=0.4, **{**PROBE, "steps": n}).increases for n in (0, 1, 3, 9, 40)
        ]
        balls = [
            largest_increase(**given, eps=0.05 * 2**n, steps=60, step_size=0.02).increases for n in range(4)
        ]
    for less, more in [*pairwise(counts), *pairwise(balls)]:
        assert bool((more >= less).all())
    assert bool((counts[-1] > counts[1]).all()) and bool((balls[-1] > balls[0]).all())


def test_the_reported_loss_is_the_loss_at_that_point(texts: Texts) -> None:
    given = texts.of([0, 1, 2, 3])
    with frozen(texts.net):
        found = largest_increase(**given, eps=0.8, **PROBE)
        there, right = given["losses"](given["embeds"] + found.deltas)
        clean, right_clean = given["losses"](given["embeds"])
    assert found.losses.tolist() == clean.tolist()
    assert (there - clean).tolist() == pytest.approx(found.increases.tolist(), rel=1e-12)
    assert not bool((found.right & ~(right & right_clean)).any())
    assert found.nonfinite.tolist() == [0] * 4


def test_it_beats_random_points_of_the_ball(texts: Texts) -> None:
    given = texts.of([0, 1, 2, 3])
    with frozen(texts.net), torch.no_grad():
        found = largest_increase(**given, eps=0.5, steps=100, step_size=0.05)
        for seed in range(60):
            delta = normal(4, 9, 16, seed=seed).masked_fill(~given["real"][..., None], 0.0)
            point = given["embeds"] + 0.5 * delta / sample_norms(delta, given["real"])[:, None, None]
            assert bool((given["losses"](point)[0] - found.losses <= found.increases).all())


def test_a_step_is_one_forward_and_one_backward_pass_to_the_embeddings_alone(texts: Texts) -> None:
    passes = {"forward": 0, "backward": 0}
    given = texts.of([0, 1])
    inner = given["losses"]

    def losses(embeds: Tensor) -> Any:
        passes["forward"] += 1
        if embeds.requires_grad:
            embeds.register_hook(lambda slope: passes.update(backward=passes["backward"] + 1))
        assert not any(parameter.requires_grad for parameter in texts.net.parameters())
        assert not any(module.training for module in texts.net.modules())
        return inner(embeds)

    ticks: list[tuple[int, int]] = []
    with frozen(texts.net):
        largest_increase(
            **{**given, "losses": losses}, eps=0.5, **PROBE, progress=lambda *at: ticks.append(at)
        )
    assert passes == {"forward": 2 * 13, "backward": 2 * 12}
    assert ticks == [(done, 24) for done in range(1, 25)]
    assert all(parameter.grad is None for parameter in texts.net.parameters())


def test_a_probed_network_is_given_back_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Linear(2, 1)).train()
    net[1].eval()
    net[0].weight.requires_grad_(False)
    flags = [parameter.requires_grad for parameter in net.parameters()]
    with pytest.raises(RuntimeError), frozen(net):
        assert not net.training
        raise RuntimeError
    assert net.training and not net[1].training
    assert [parameter.requires_grad for parameter in net.parameters()] == flags


def test_candidates_of_a_sample_share_one_norm() -> None:
    """A question with its candidates is one vector: as if they were one long text."""
    x, a = normal(2, 3, 4, 5), normal(2, 3, 4, 5, seed=1)
    real = torch.ones(2, 3, 4, dtype=torch.bool)
    real[0, 2] = False  # a candidate that only fills the batch
    found = largest_increase(
        lambda e: (a * e).sum((1, 2, 3)).tanh(), x, real, 0.3, steps=8, step_size=0.1, starts=2
    )
    long = largest_increase(
        lambda e: (a.flatten(1, 2) * e).sum((1, 2)).tanh(),
        x.flatten(1, 2),
        real.flatten(1, 2),
        0.3,
        steps=8,
        step_size=0.1,
        starts=2,
    )
    assert torch.equal(found.deltas.flatten(1, 2), long.deltas)
    assert bool((found.deltas[0, 2] == 0).all())
    norms = found.deltas.flatten(1).norm(dim=1).tolist()
    assert norms == pytest.approx([0.3, 0.3]) and found.deltas[1].flatten(1).norm(dim=1).max() < 0.3


def test_regression_is_the_squared_error() -> None:
    """(⟨a, x + δ⟩ - y)²: the ball's far side, (|r| + ε ‖a‖)²."""
    x, a, y = normal(3, 4, 2), normal(3, 4, 2, seed=1), normal(3, seed=2)
    rest = (a * x).sum((1, 2)) - y
    found = largest_increase(
        lambda e: sample_losses((a * e).sum((1, 2)), y), x, everywhere(x), 0.5, steps=2, step_size=1.0
    )
    wanted = (rest.abs() + 0.5 * a.flatten(1).norm(dim=1)).square() - rest.square()
    assert found.increases.tolist() == pytest.approx(wanted.tolist())
    assert found.right.tolist() == [True] * 3


def test_a_loss_that_is_not_finite_is_counted_and_never_the_largest() -> None:
    """Sample 0 is finite in a small ball only, 1 always, 2 nowhere, 3 has a slope without end at X."""
    x = torch.zeros(4, 2, 2, dtype=torch.float64)

    def losses(embeds: Tensor) -> Tensor:
        value = embeds.sum((1, 2))
        broken = torch.tensor([True, False, False, False]) & (value.detach() > 0.5)
        value = torch.where(broken, torch.inf, value)
        slope = torch.tensor([1.0, 1.0, torch.nan, 1.0]).double()
        steep = embeds.sum((1, 2))[3:].sqrt()
        return torch.cat([(value * slope)[:3], steep])

    # each step of 0.1 adds 0.2 to the sum of the four entries, until the ball's border, 1 / √4 each
    found = largest_increase(losses, x, everywhere(x), 1.0, steps=4, step_size=0.1)
    assert found.increases[:2].tolist() == pytest.approx([0.4, 0.8])
    assert bool(found.increases[2].isnan()) and found.increases[3] == 0
    assert found.nonfinite.tolist() == [2, 0, 5, 0]
    assert found.right.tolist() == [False, True, False, True]


def test_the_worst_of_all_points_is_kept_and_not_the_last() -> None:
    """A hill, which steps of this length walk across: its sums are 0, 0.2, 0.4, 0.6, its top is at 0.45."""
    x = torch.zeros(1, 2, 2, dtype=torch.float64)

    def losses(embeds: Tensor) -> Tensor:
        return -(embeds.sum((1, 2)) - 0.45).square()

    found = [largest_increase(losses, x, everywhere(x), 1.0, steps=n, step_size=0.1) for n in (1, 2, 3)]
    assert [float(one.deltas.sum()) for one in found] == pytest.approx([0.2, 0.4, 0.4])
    assert [float(one.increases) for one in found] == pytest.approx(
        [0.45**2 - 0.25**2] + [0.45**2 - 0.05**2] * 2
    )
    assert float(losses(x + 0.15)) < float(losses(x + 0.1))  # the control: the last point is lower


def test_right_is_right_at_every_point_that_is_visited() -> None:
    """Wrong on the way and right again at the end is wrong; sample 1 is wrong at the end alone, sample 2 nowhere."""
    x = torch.zeros(3, 2, 2, dtype=torch.float64)
    wrong = [(0.3, 0.5), (0.7, 9.0), (9.0, 9.0)]

    def losses(embeds: Tensor) -> Any:
        value = embeds.sum((1, 2))
        right = [not low < one < high for (low, high), one in zip(wrong, value.tolist())]
        return value, torch.tensor(right)

    # four steps of 0.1, each adds 0.2 to the sum of the four entries
    found = largest_increase(losses, x, everywhere(x), 1.0, steps=4, step_size=0.1)
    assert found.right.tolist() == [False, False, True]
    short = largest_increase(losses, x, everywhere(x), 1.0, steps=1, step_size=0.1)
    assert short.right.tolist() == [True] * 3


def test_a_gradient_however_small_has_a_direction() -> None:
    """Its square would vanish in single precision; the control is that the square does."""
    x, a = torch.zeros(2, 3, 4), normal(2, 3, 4).float()
    scale = torch.tensor([1e-28, 1e28])[:, None, None]
    assert float((a[0] * 1e-28).square().sum()) == 0 and float((a[1] * 1e28).square().sum()) == math.inf
    found = largest_increase(
        lambda e: (a * scale * e).sum((1, 2)), x, everywhere(x), 0.5, steps=1, step_size=1.0
    )
    assert torch.allclose(found.deltas, 0.5 * a / a.flatten(1).norm(dim=1)[:, None, None], rtol=1e-5)


def test_a_slope_of_zero_or_nan_leaves_a_sample_where_it_is() -> None:
    delta = normal(3, 2, 2)
    slope = normal(3, 2, 2, seed=1)
    slope[0], slope[1, 0, 0] = 0.0, torch.nan
    padding = torch.zeros(3, 2, 1, dtype=torch.bool)
    moved = uphill(delta, slope, padding, torch.full((3,), 9.0, dtype=torch.float64), 0.5)
    assert torch.equal(moved[:2], delta[:2])
    assert float((moved[2] - delta[2]).norm()) == pytest.approx(0.5)
    padding[1, 0] = True  # what is not finite is on padding, and does not count
    moved = uphill(delta, slope, padding, torch.full((3,), 9.0, dtype=torch.float64), 0.5)
    assert float((moved[1] - delta[1]).norm()) == pytest.approx(0.5) and bool(
        (moved[1, 0] == delta[1, 0]).all()
    )


def test_random_starts_are_a_samples_own() -> None:
    x = torch.zeros(4, 40, 30)
    real = torch.arange(40) < torch.tensor([40, 30, 1, 40])[:, None]
    assert bool((start_of(x, real, 0, range(4), 0) == 0).all())
    first = start_of(x, real, 0, [7, 8, 9, 7], 1)
    sizes = first.flatten(1).norm(dim=1)
    assert sizes[[0, 1]].tolist() == pytest.approx([1 / math.sqrt(3)] * 2, rel=0.05)
    assert bool((sizes <= 1).all()) and bool((first[~real] == 0).all())
    assert torch.equal(first[0], first[3]) and not torch.equal(first[0, :30], first[1, :30])
    longer = start_of(torch.zeros(1, 50, 30), torch.arange(50)[None] < 30, 0, [8], 1)
    assert torch.equal(longer[0, :30], first[1, :30])
    for seed, start in ((1, 1), (0, 2)):
        assert not torch.equal(first, start_of(x, real, seed, [7, 8, 9, 7], start))


def test_losses_of_classes_candidates_and_values() -> None:
    scores = torch.tensor([[0.0, 0.0], [3.0, 1.0], [30.0, 60.0], [torch.nan, 0.0]])
    losses, right = sample_losses(scores, torch.tensor([0, 0, 1, 1]))
    assert losses[:3].tolist() == pytest.approx(
        [math.log(2), math.log1p(math.exp(-2)), math.exp(-30)], rel=1e-3
    )
    assert losses.dtype == torch.float64 and right.tolist() == [
        False,
        True,
        True,
        False,
    ]  # a tie is no answer
    absent = torch.tensor([[1.0, 0.0, torch.finfo(torch.float32).min]])
    assert float(sample_losses(absent, torch.tensor([1]))[0]) == pytest.approx(math.log1p(math.e))
    squares = sample_losses(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 2.0]))
    assert isinstance(squares, Tensor) and squares.tolist() == [4.0, 0.0]


X, REAL = torch.zeros(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"embeds": X[0]}, r"embeds: \(3, 4\) torch.float32 \(allowed: "),
        ({"embeds": X.bfloat16()}, r"embeds: \(2, 3, 4\) torch.bfloat16 \(allowed: "),
        ({"embeds": X[:0], "real": REAL[:0]}, r"embeds: \(0, 3, 4\)"),
        ({"real": REAL[:1]}, r"real: \(1, 3\) torch.bool \(allowed: \(2, 3\)"),
        ({"real": REAL.long()}, r"real: \(2, 3\) torch.int64"),
        ({"real": torch.tensor([[True] * 3, [False] * 3])}, "real: sample 1 is all padding"),
        ({"eps": -0.1}, r"eps: \(\), from -0.1 \(allowed: "),
        ({"eps": math.nan}, r"eps: \(\), from nan \(allowed: "),
        ({"eps": torch.ones(3)}, r"eps: \(3,\), from 1 \(allowed: "),
        ({"steps": -1}, r"steps -1, .* \(allowed: "),
        ({"starts": 0}, r"starts 0, .* \(allowed: "),
        ({"step_size": -1.0}, r"step_size -1.0 \(allowed: "),
        ({"step_size": math.inf}, r"step_size inf \(allowed: "),
        ({"numbers": [1]}, r"numbers: 1 for 2 samples \(allowed: "),
        ({"losses": lambda e: e.sum()}, r"losses: \(\) for 2 samples \(allowed: \(2,\)\)"),
    ],
)
def test_bad_input_is_refused_in_one_line(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"losses": lambda e: e.sum((1, 2)), "embeds": X, "real": REAL, "eps": 0.1}
    with pytest.raises(ValueError, match=said) as caught:
        largest_increase(**{**given, "steps": 1, "step_size": 0.1, **change})
    assert "\n" not in str(caught.value)
