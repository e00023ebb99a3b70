"""Ascent on the input: functions of known Lipschitz constant, bounds that hold and the layer that has none."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.l2_attention import L2Attention
from relearn.measures.lipschitz import ascend, two_point

DTYPE = torch.float64


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DTYPE)


def norm_of(f: Callable[[Tensor], Tensor], x: Tensor, p: str) -> float:
    """The slow truth for one member of a batch."""
    whole = torch.autograd.functional.jacobian(lambda z: f(z[None])[0], x).reshape(-1, x.numel())
    return float(torch.linalg.matrix_norm(whole, math.inf if p == "inf" else 2))


def layer(kind: type, dim: int, heads: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return kind(dim, heads, fused=False).to(DTYPE)


@pytest.mark.parametrize("p", ["inf", "two"])
def test_of_a_linear_map_every_start_has_the_norm_of_the_matrix(p):
    matrix = draw(3, 5)
    found = ascend(lambda x: x @ matrix.T, draw(4, 5, seed=1), p=p, steps=40, tolerance=1e-9)
    norm = float(torch.linalg.matrix_norm(matrix, math.inf if p == "inf" else 2))
    assert torch.allclose(found.values, torch.full((4,), norm, dtype=DTYPE))
    assert torch.allclose(found.first_values, found.values) and torch.equal(found.inputs, draw(4, 5, seed=1))
    assert float(found.curve[-1].max()) == pytest.approx(
        norm, rel=1e-6
    )  # for two: u has found its way meanwhile


@pytest.mark.parametrize("p", ["inf", "two"])
def test_sine_reaches_its_constant_and_never_passes_it(p):
    starts = 1.2 + 0.2 * draw(5, 3)
    found = ascend(torch.sin, starts, p=p, steps=200, lr=0.05)
    assert float(found.values.min()) > 1 - 1e-4 and float(found.values.max()) <= 1 + 1e-12
    assert float(found.first_values.max()) < 0.9


@pytest.mark.parametrize("p", ["inf", "two"])
def test_a_tanh_layer_reaches_its_constant_and_never_passes_it(p):
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    torch.manual_seed(0)
    nn.init.orthogonal_(net[0].weight)
    net[0].weight.data *= torch.tensor([[2.0], [1.0], [1.0], [0.5]])
    weight = net[0].weight.detach().double()
    constant = float(torch.linalg.matrix_norm(weight, math.inf if p == "inf" else 2))
    found = ascend(net, 0.5 * draw(6, 4).float(), p=p, steps=300, lr=0.05)
    assert float(found.values.max()) == pytest.approx(constant, rel=1e-3)
    assert float(found.values.max()) <= constant * (1 + 1e-9)
    assert found.values.dtype == DTYPE and found.inputs.dtype == torch.float32


@pytest.mark.parametrize("p", ["inf", "two"])
@pytest.mark.parametrize("lr", [0.1, 30.0])
def test_values_are_those_of_the_inputs_and_never_below_the_start(p, lr):
    """At a rate of 30 the way itself goes far below the start (control), the values do not."""
    net = layer(L2Attention, 2, 2)
    starts = draw(4, 5, 2, seed=3)
    found = ascend(net, starts, p=p, steps=25, lr=lr, tolerance=1e-9)
    for value, first, x, start in zip(found.values, found.first_values, found.inputs, starts):
        assert float(value) == pytest.approx(norm_of(net, x, p), rel=1e-7)
        assert float(first) == pytest.approx(norm_of(net, start, p), rel=1e-7)
    assert bool((found.values >= found.first_values).all())
    rising = found.envelope.diff(dim=0)
    assert bool((rising >= 0).all()) and bool((found.curve <= found.envelope).all())
    assert bool((found.envelope[-1] <= found.values * (1 + 1e-7)).all())
    if lr == 30.0:
        assert bool((found.curve[-1] < 0.9 * found.first_values).any())


def test_every_running_value_is_a_lower_bound_at_its_input():
    """For p = two u lags behind, so the first running value is below the norm of the start, not above."""
    net = layer(L2Attention, 2, 1)
    starts = draw(5, 6, 2)
    found = ascend(net, starts, p="two", steps=1, tolerance=1e-10)
    assert bool((found.curve[0] < found.first_values).all())
    rows = ascend(net, starts, p="inf", steps=1)
    assert torch.allclose(rows.curve[0], rows.first_values)  # the best row is found exactly


def test_values_of_float32_are_computed_in_float64():
    net = layer(L2Attention, 1, 1)
    coarse = copy.deepcopy(net).float()
    starts = 3 * draw(3, 8, 1)
    found = ascend(coarse, starts.float(), steps=50)
    again = ascend(lambda x: coarse.row(x, 0), starts.float(), steps=50, exact=lambda x: net.row(x, 0))
    for value, x in zip(found.values, found.inputs):
        assert float(value) == pytest.approx(
            norm_of(copy.deepcopy(coarse).double(), x.double(), "inf"), rel=1e-13
        )
    for value, x in zip(again.values, again.inputs):
        assert float(value) == pytest.approx(norm_of(lambda z: net.row(z, 0), x.double(), "inf"), rel=1e-13)
    assert float((found.curve[-1].double() - found.values).abs().max()) > 0  # float32 would show


@pytest.mark.parametrize("p", ["inf", "two"])
def test_starts_do_not_touch_each_other(p):
    net = layer(L2Attention, 2, 2)
    starts = draw(5, 4, 2)
    whole = ascend(net, starts, p=p, steps=30)
    for batch in (1, 2):
        parts = ascend(net, starts, p=p, steps=30, batch=batch)
        assert torch.allclose(parts.values, whole.values, rtol=1e-6)
        assert torch.allclose(parts.curve, whole.curve, rtol=1e-6)
    assert parts.curve.shape == (30, 5)
    alone = ascend(net, starts[:1], p=p, steps=30)
    assert torch.allclose(alone.inputs[0], whole.inputs[0], rtol=1e-6)


def test_a_block_row_bounds_the_whole_from_below_and_gets_as_far():
    net = layer(L2Attention, 2, 1)
    starts = 2 * draw(6, 7, 2, seed=2)
    for p in ("inf", "two"):
        row = ascend(lambda x: net.row(x, 0), starts, p=p, steps=150)
        for value, x in zip(row.values, row.inputs):
            assert float(value) <= norm_of(net, x, p) * (1 + 1e-9)
    whole = ascend(net, starts, p="inf", steps=150)
    assert float(ascend(lambda x: net.row(x, 0), starts, steps=150).values.max()) == pytest.approx(
        float(whole.values.max()), rel=0.05
    )


@given(
    st.integers(0, 99),
    st.integers(1, 6),
    st.sampled_from([(1, 1), (2, 1), (2, 2)]),
    st.sampled_from([0.5, 3.0]),
)
@settings(max_examples=6)
def test_tied_l2_attention_stays_below_its_bounds(seed, length, sizes, stretch):
    net = layer(L2Attention, *sizes, seed=seed)
    net.q.weight.data *= stretch
    starts = 4 * draw(4, length, sizes[0], seed=seed)
    for p in ("inf", "two"):
        more = {} if p == "inf" else {"masked": False}
        bound = float(net.lipschitz_bound(length, p, **more).detach())
        assert float(ascend(net, starts, p=p, steps=40, lr=0.3).values.max()) <= bound * (1 + 1e-9)


def test_dot_products_pass_every_bound_that_holds_for_l2():
    """Theorem 3.1, the control: same sizes and weights, and the norm goes on growing."""
    net, control = layer(DotProductAttention, 2, 1), layer(L2Attention, 2, 1)
    for one in (net, control):
        for weight in one.parameters():
            nn.init.eye_(weight)
    bound = float(control.lipschitz_bound(6, "inf").detach())
    starts = 2 * draw(4, 6, 2)
    found = ascend(lambda x: net.row(x, 0), starts, steps=400, lr=0.1)
    assert float(found.values.max()) > 50 * bound and found.late_rise > 0.02
    below = ascend(lambda x: control.row(x, 0), starts, steps=400, lr=0.1)
    assert float(below.values.max()) <= bound and below.late_rise < 1e-3


def test_figure_2_gets_as_far_as_the_construction():
    """N = 100, D = H = 1, weights 1, starts as in appendix I; 0.85 of the construction is what must be reached."""
    net = layer(L2Attention, 1, 1)
    for weight in net.parameters():
        nn.init.ones_(weight)
    generator = torch.Generator().manual_seed(0)
    reach = 10 * torch.rand(12, 1, 1, generator=generator, dtype=DTYPE)
    starts = reach * (2 * torch.rand(12, 100, 1, generator=generator, dtype=DTYPE) - 1)
    found = ascend(lambda x: net.row(x, 0), starts, steps=150)
    best, bound = float(found.values.max()), float(net.lipschitz_bound(100, "inf").detach())
    assert 0.97 * two_point(100).value < best <= bound and found.late_rise < 1e-3


def test_what_leaves_the_finite_numbers_keeps_the_best_it_had():
    """√(1 - x) has no derivative beyond 1, and a step of 0.05 leads there."""
    found = ascend(lambda x: (1 - x).sqrt(), torch.tensor([[0.0], [-9.0]]), steps=60, lr=0.05)
    assert not math.isfinite(float(found.curve[-1, 0])) and bool(found.envelope.isfinite().all())
    assert bool(found.values.isfinite().all()) and float(found.values[0]) > 1.5
    assert float(found.values[0]) == pytest.approx(0.5 / math.sqrt(1 - float(found.inputs[0].double())))
    onto = ascend(lambda x: (1 - x).sqrt(), torch.tensor([[0.5]]), steps=2, lr=0.5)
    assert float(onto.curve[1]) == math.inf and float(onto.inputs) == 0.5  # an infinite slope is not the best


def test_nothing_to_climb():
    for f in (lambda x: torch.zeros(len(x), 2, dtype=DTYPE), lambda x: x.sum(1).round()):
        for p in ("inf", "two"):
            found = ascend(f, draw(2, 3), p=p, steps=3)
            assert torch.equal(found.values, torch.zeros(2, dtype=DTYPE)) and found.late_rise == 0
    none = ascend(torch.sin, draw(2, 3), steps=0)
    assert none.curve.shape == (0, 2) and torch.equal(none.values, none.first_values)


def test_progress_is_reported():
    calls: list[tuple[int, int]] = []
    ascend(torch.sin, draw(3, 2), steps=2, batch=2, progress=lambda *now: calls.append(now))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"p": "one"}, "p: 'one'"),
        ({"starts": torch.ones(3)}, "starts: shape"),
        ({"starts": torch.ones(0, 3)}, "starts: shape"),
        ({"starts": torch.ones(2, 3, dtype=torch.int64)}, "starts: shape"),
        ({"steps": -1}, "steps -1"),
        ({"lr": 0.0}, "lr 0.0"),
        ({"batch": 0}, "batch 0"),
        ({"f": lambda x: x.sum()}, "f: returns"),
        ({"f": lambda x: (x,)}, "f: returns tuple"),
    ],
)
def test_wrong_arguments_are_refused(change, match):
    given = {"f": torch.sin, "starts": draw(2, 3), "steps": 2} | change
    with pytest.raises(ValueError, match=match):
        ascend(given.pop("f"), given.pop("starts"), **given)
