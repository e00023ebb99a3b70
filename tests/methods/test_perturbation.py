"""Starts, norms, ascents and projections of δ, against their formulas."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.methods.perturbation import Ball, ascend, entries, norms, project, start

REAL = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)
BAD = [
    ({"eps": None}, r"eps: missing \(allowed: 0 or more; it may be left out only with project: false\)"),
    ({"eps": -1.0}, r"eps: found -1.0 \(allowed: 0 or more, finite\)"),
    ({"eps": math.inf}, r"eps: found inf"),
    ({"eps": 1.0, "step_size": math.nan}, r"step_size: found nan"),
    ({"eps": 1.0, "start_norm": -0.1}, r"start_norm: found -0.1"),
    ({"eps": None, "project": False}, r"start_norm: missing, and there is no eps"),
    ({"eps": 1.0, "norm": "l1"}, r"norm: found 'l1' \(allowed: frobenius, l2, linf\)"),
    ({"eps": 1.0, "mask": "never"}, r"mask: found 'never' \(allowed: always, start\)"),
]


def rand(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_start_has_a_third_of_the_square_of_its_magnitude_and_never_more():
    generator = torch.Generator().manual_seed(3)
    delta = start((400, 30, 20), 400, 0.7, generator=generator).double()
    found = norms(delta, 400)
    assert float(found.max()) <= 0.7
    assert float(found.square().mean()) == pytest.approx(0.49 / 3, rel=0.01)
    assert delta.abs().max() <= 0.7 / math.sqrt(600)


def test_the_start_counts_a_samples_own_entries_over_all_its_rows():
    """The magnitude of a short sample is spread over fewer entries; two rows of a question are one sample."""
    torch.manual_seed(0)
    delta = start((4, 4, 8), 2, 1.0, real=REAL)
    torch.manual_seed(0)
    drawn = torch.rand(4, 4, 8) * 2 - 1
    for rows, count in ((slice(0, 2), 6 * 8), (slice(2, 4), 4 * 8)):
        expected = drawn[rows] / math.sqrt(count) * REAL[rows, :, None]
        assert torch.allclose(delta[rows], expected, rtol=1e-6)
    assert entries((4, 4, 8), 2, REAL).tolist() == [48, 32]


def test_the_start_in_a_cube_and_the_start_of_nothing():
    torch.manual_seed(0)
    cube = start((3, 2, 5, 5), 3, 0.3, norm="linf")
    assert 0.25 < float(cube.abs().max()) <= 0.3
    state = torch.get_rng_state()
    assert not start((3, 4, 2), 3, 0.0).any()
    assert torch.equal(state, torch.get_rng_state())


def test_a_start_beyond_the_ball_is_brought_back_to_it():
    torch.manual_seed(0)
    ball = Ball(0.1, 0.1, start_norm=5.0)
    assert torch.allclose(
        norms(ball.start((4, 6, 3), 4, None, torch.device("cpu")), 4), torch.full((4,), 0.1)
    )
    free = Ball(0.1, 0.1, start_norm=5.0, project=False)
    assert float(norms(free.start((4, 6, 3), 4, None, torch.device("cpu")), 4).min()) > 1


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([0.05, 0.4, 3.0]),
    st.sampled_from(["frobenius", "linf"]),
)
@settings(max_examples=25)
def test_a_step_against_one_sample_after_the_other(samples, candidates, eps, norm):
    rows = samples * candidates
    delta, gradient = 0.1 * rand(rows, 4, 3), rand(rows, 4, 3, seed=1)
    real = torch.rand(rows, 4, generator=torch.Generator().manual_seed(2)) > 0.4
    real[:, 0] = True
    moved, skipped = Ball(eps, 0.2, norm=norm).ascend(delta, gradient, samples, real)
    assert int(skipped) == 0
    for k in range(samples):
        own = slice(k * candidates, (k + 1) * candidates)
        g = gradient[own] * real[own, :, None]
        if norm == "linf":
            expected = (delta[own] + 0.2 * g.sign()).clamp(-eps, eps)
        else:
            step = delta[own] + 0.2 * g / math.sqrt(float((g**2).sum()))
            length = math.sqrt(float((step**2).sum()))
            expected = step * min(1.0, eps / length)
        assert torch.allclose(moved[own], expected, rtol=1e-12, atol=1e-15)


def test_no_sample_acts_on_another_one():
    delta, gradient, order = 0.1 * rand(6, 5, 2), rand(6, 5, 2, seed=1), torch.tensor([4, 0, 5, 2, 1, 3])
    ball = Ball(0.3, 0.2)
    moved = ball.ascend(delta, gradient, 6, None).delta
    assert torch.equal(ball.ascend(delta[order], gradient[order], 6, None).delta, moved[order])
    whole = ball.ascend(delta, gradient, 1, None).delta
    assert not torch.allclose(whole, moved)  # the control: one ball for the whole batch


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e30])
def test_a_step_does_not_see_the_gradients_scale(scale):
    delta, gradient = torch.zeros(2, 3, 4), rand(2, 3, 4).float()
    moved = ascend(delta, gradient * scale, 0.5, 2).delta
    assert torch.allclose(norms(moved, 2), torch.tensor([0.5, 0.5]), rtol=1e-6)
    assert torch.allclose(moved, ascend(delta, gradient, 0.5, 2).delta, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_a_norm_is_safe_from_squares_that_vanish_or_overflow(scale):
    """In single precision the squares do: the control."""
    values = rand(2, 3, 4)
    small = (values * scale).float()
    assert float(small[0].square().sum()) in (0.0, math.inf)
    expected = values.flatten(1).norm(dim=1) * scale
    assert torch.allclose(norms(small, 2).double(), expected, rtol=1e-6)
    half = (0.5 * expected[0]).item()
    assert torch.allclose(norms(project(small, half, 2), 2)[0].double(), expected[0] / 2, rtol=1e-6)
    small[1, 0, 0] = math.nan
    assert norms(small, 2).isfinite().tolist() == [True, False]


def test_a_gradient_of_zero_moves_nothing():
    delta = rand(2, 3, 4)
    assert torch.equal(ascend(delta, torch.zeros_like(delta), 0.5, 2).delta, delta)
    assert torch.equal(ascend(delta, torch.zeros_like(delta), 0.5, 2, norm="linf").delta, delta)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("norm", ["frobenius", "linf"])
def test_a_gradient_that_is_not_finite_stops_its_own_sample_only(bad, norm):
    delta, gradient = rand(3, 3, 4), rand(3, 3, 4, seed=1)
    clean = ascend(delta, gradient, 0.5, 3, norm=norm).delta
    gradient[1, 2, 0] = bad
    moved, skipped = ascend(delta, gradient, 0.5, 3, norm=norm)
    assert int(skipped) == 1
    assert torch.equal(moved[1], delta[1])
    assert torch.equal(moved[[0, 2]], clean[[0, 2]])
    gradient[2, 0, 0] = bad
    assert int(ascend(delta, gradient, 0.5, 3, norm=norm).skipped) == 2  # each is counted


def test_padding_is_never_perturbed_or_at_the_start_only():
    delta, gradient = Ball(1.0, 0.5).start((4, 4, 8), 4, REAL, torch.device("cpu")), rand(4, 4, 8)
    gradient[1, 3, 0] = math.nan  # on padding: nobody's business
    always = Ball(1.0, 0.5).ascend(delta, gradient, 4, REAL)
    assert not always.delta[~REAL].any() and int(always.skipped) == 0
    released = Ball(1.0, 0.5, mask="start").ascend(delta, rand(4, 4, 8), 4, REAL)
    assert not delta[~REAL].any() and bool(released.delta[~REAL].all())


@given(st.floats(0.01, 2.0), st.integers(1, 4))
@settings(max_examples=20)
def test_the_projection_is_the_nearest_point_of_the_ball(eps, samples):
    delta = rand(samples, 3, 2)
    inside = project(delta, eps, samples)
    assert bool((norms(inside, samples) <= eps * (1 + 1e-12)).all())
    assert torch.allclose(project(inside, eps, samples), inside, rtol=1e-12)
    others = project(rand(samples, 3, 2, seed=5), eps, samples)
    assert bool((norms(delta - inside, samples) <= norms(delta - others, samples) + 1e-12).all())
    assert not project(delta, 0.0, samples).any()


def test_when_nothing_but_plain_training_is_left():
    assert Ball(0.0, 0.1).is_point and Ball(1.0, 0.0, start_norm=0.0).is_point
    assert not Ball(0.0, 0.1, project=False).is_point  # a radius that nobody uses
    assert not Ball(1.0, 0.0).is_point and not Ball(1.0, 0.1, start_norm=0.0).is_point


@pytest.mark.parametrize(("found", "message"), BAD)
def test_settings_out_of_range_are_refused(found, message):
    with pytest.raises(ValueError, match=message):
        Ball(**{"step_size": 0.1, **found})


def test_a_sample_of_padding_is_refused():
    real = REAL.clone()
    real[2] = False
    with pytest.raises(
        ValueError, match=r"real: sample 2 is all padding \(allowed: at least one token per sample\)"
    ):
        start((4, 4, 8), 4, 0.0, real=real)
    assert torch.equal(
        entries((4, 4, 8), 2, real), torch.tensor([48.0, 8.0])
    )  # one candidate of a question may be empty
