"""Steepest slopes of activation functions against closed forms, finite differences and what qi2023 prints."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relearn.measures.attention_cases import activations
from relearn.measures.attention_cases.activations import APPENDIX, FUNCTIONS, SECTION, bend, slope, steepest


def by_name(rows):
    return {(row["activation"], row["place"]): row for row in rows}


def test_every_constant_is_found_and_gelu_alone_is_steeper_than_printed():
    rows = activations.cases(pairs=200)
    assert [tuple(row) for row in rows] == [activations.COLUMNS] * 12 and all(row["holds"] for row in rows)
    failed = {key for key, row in by_name(rows).items() if not row["printed_holds"]}
    gelus = {name for name in FUNCTIONS if "gelu" in name}
    assert failed == {(name, SECTION) for name in gelus} | {("gelu", APPENDIX), ("gelu_tanh", APPENDIX)}


def test_constants_and_places_by_hand():
    found = {name: steepest(function) for name, function in FUNCTIONS.items()}
    assert found["sigmoid"] == pytest.approx((0, 0.25)) and found["tanh"] == pytest.approx((0, 1))
    assert found["relu"][1] == 1 and found["relu"][0] > 0
    # x Φ(x) has the second derivative (2 - x²) φ(x)
    normal = torch.distributions.Normal(0.0, 1.0)
    root = torch.tensor(math.sqrt(2), dtype=torch.float64)
    wanted = float(normal.cdf(root) + root * normal.log_prob(root).exp())
    assert found["gelu"] == pytest.approx((math.sqrt(2), wanted), rel=1e-7)
    one, two = (FUNCTIONS["gelu"](torch.tensor([x], dtype=torch.float64)) for x in (1.0, 2.0))
    assert float(two - one) == pytest.approx(1.113155, abs=1e-6)  # a secant steeper than the printed 1
    x, norm = found["gelu_sigmoid"]
    assert 1.702 * x * math.tanh(1.702 * x / 2) == pytest.approx(2) and f"{norm:.4f}" == "1.0998"


@pytest.mark.parametrize("name", FUNCTIONS)
@given(x=st.floats(-6, 6))
def test_slopes_and_bends_are_differences(name, x):
    h, at = 1e-4, torch.tensor([x], dtype=torch.float64)
    if name == "relu" and abs(x) < 2 * h:
        return
    f = FUNCTIONS[name]
    assert float(slope(f, at)) == pytest.approx(float((f(at + h) - f(at - h)) / (2 * h)), abs=1e-7)
    second = float((f(at + h) - 2 * f(at) + f(at - h)) / h**2)
    assert float(bend(f, at)) == pytest.approx(second, abs=1e-5)


@given(shift=st.floats(-3, 3), scale=st.floats(0.5, 4))
def test_the_steepest_place_is_found_wherever_it_is(shift, scale):
    at, norm = steepest(lambda x: -torch.sigmoid(scale * (x - shift)))
    assert norm == pytest.approx(scale / 4, rel=1e-12) and at == pytest.approx(shift, abs=1e-6)


def test_a_secant_shows_what_an_interval_with_too_small_a_slope_would_hide(monkeypatch):
    monkeypatch.setattr(activations, "steepest", lambda function: (0.0, 1.0))
    rows = by_name(activations.cases(pairs=500))
    assert not rows["gelu", SECTION]["holds"] and rows["relu", SECTION]["secant"] == 1
    monkeypatch.setattr(activations, "steepest", lambda function: (0.0, activations.constant("gelu")))
    rows = by_name(activations.cases(pairs=1))
    assert not rows["gelu", SECTION]["holds"]  # the bound's number without its place


@pytest.mark.parametrize("name", FUNCTIONS)
def test_secants_lie_below_the_bound_and_come_near(name):
    at, norm = steepest(FUNCTIONS[name])
    far = activations.largest_secant(FUNCTIONS[name], 9.0, 300)
    near = activations.largest_secant(FUNCTIONS[name], at, 1)
    assert far <= norm * (1 + 1e-12) and near == pytest.approx(norm, rel=1e-6)
    assert activations.largest_secant(FUNCTIONS["sigmoid"], 9.0, 3, 0) != activations.largest_secant(
        FUNCTIONS["sigmoid"], 9.0, 3, 1
    )


def test_curves_hold_values_and_slopes():
    rows = activations.curves(reach=2.0, points=5)
    tanh = [row for row in rows if row["activation"] == "tanh"]
    assert [row["x"] for row in tanh] == [-2, -1, 0, 1, 2]
    assert [row["value"] for row in tanh] == pytest.approx([math.tanh(row["x"]) for row in tanh])
    assert [row["slope"] for row in tanh] == pytest.approx([1 - math.tanh(row["x"]) ** 2 for row in tanh])


def test_rounding_as_printed_and_refusals():
    assert activations.rounds_to(1.09984, "1.0998") and not activations.rounds_to(1.09986, "1.0998")
    assert activations.rounds_to(0.25, "0.25") and not activations.rounds_to(1.0998, "1.099")
    for call, said in (
        (lambda: activations.cases(pairs=0), "pairs is 0; allowed: 1 or more"),
        (lambda: activations.cases(pairs=1, functions={"swish": torch.tanh}), "activation 'swish'; allowed"),
        (lambda: activations.curves(reach=0.0, points=5), "reach is 0.0, points 5; allowed"),
        (lambda: activations.curves(reach=1.0, points=1), "points 1; allowed"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
