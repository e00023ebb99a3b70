"""Attack success and the threat model: the predicate, the budget in every unit, each way to break it."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relearn.measures.attack_success import ThreatModel, rejections, succeeded

MODEL = ThreatModel("gray_box", poisons_count=5, class_count=50, fine_tune_count=500, eps=0.1)


def bases():
    return np.random.default_rng(0).integers(0, 256, size=(5, 3, 4, 4), dtype=np.uint8)


def shifted(images, by):
    return np.clip(images.astype(int) + by, 0, 255).astype(np.uint8)


def test_success_is_the_poisons_class_and_nothing_else():
    """Wrong in another way is no success: class 3 instead of 6 does not count for an attack towards 8."""
    assert succeeded([8, 6, 3, 8], 8).tolist() == [True, False, False, True]
    found = succeeded(torch.tensor([[8], [0]]), 8)
    assert found.shape == (2, 1) and found.dtype == np.bool_
    assert int(succeeded(8, 8)) == 1 and int(succeeded(7, 8)) == 0
    assert succeeded([], 8).shape == (0,)
    with pytest.raises(ValueError, match="predicted holds float64; allowed: whole numbers"):
        succeeded([0.9, 0.1], 8)


def test_the_budget_stands_in_every_unit():
    assert MODEL.poisons_of_class_frac == 0.1 and MODEL.poisons_of_set_frac == 0.01
    assert MODEL.eps_255 == pytest.approx(25.5)
    stated = json.loads(json.dumps(MODEL.to_dict()))
    assert stated["eps"] == 0.1 and stated["eps_unit"] == "[0,1] pixel scale"
    assert stated["eps_255"] == pytest.approx(25.5) and stated["norm"] == "linf"
    assert (
        stated["knowledge"] == "gray_box"
        and stated["setting"] == "transfer"
        and stated["clean_label"] is True
    )
    assert (stated["poisons_count"], stated["poisons_of_class_frac"], stated["poisons_of_set_frac"]) == (
        5,
        0.1,
        0.01,
    )
    fields = {field.name for field in dataclasses.fields(ThreatModel)}
    assert fields <= set(stated)


def test_no_poison_in_an_empty_set_has_no_share():
    empty = ThreatModel("black_box", 0, 0, 0, 0.0)
    assert np.isnan(empty.poisons_of_class_frac) and empty.to_dict()["poisons_of_set_frac"] is None


@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("by", [0, 25, -25])
def test_what_keeps_to_the_budget_passes(wrap, by):
    MODEL.check(wrap(shifted(bases(), by)), wrap(bases()))
    MODEL.check(wrap(np.stack([shifted(bases(), by)] * 2)), wrap(bases()))
    MODEL.check(
        wrap(shifted(bases(), by)),
        wrap(bases()),
        labels=wrap(np.full(5, 8)),
        base_labels=wrap(np.full(5, 8)),
    )


def test_the_targets_that_leave_the_ball_around_their_own_bases_are_named():
    own = np.stack([bases(), 255 - bases()])
    poisons = np.stack([shifted(own[0], 26), shifted(own[1], 25)])
    assert list(rejections(poisons, own, MODEL)) == [0] and list(rejections(poisons, own[0], MODEL)) == [0, 1]
    with pytest.raises(ValueError, match="there are 4 poisons; the budget is 5"):
        rejections(poisons[:, :4], own[:, :4], MODEL)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
def test_a_change_passes_exactly_when_it_is_at_most_eps(base, poison, steps):
    model = dataclasses.replace(MODEL, poisons_count=1, eps=steps / 255)
    images = [np.full((1, 1, 1, 1), value, np.uint8) for value in (poison, base)]
    if abs(base - poison) <= steps:
        model.check(*images)
    else:
        with pytest.raises(ValueError, match="differs from its base"):
            model.check(*images)


def test_the_published_budget_ends_at_25_of_255():
    """26/255 = 0.102 exceeds 0.1: rounding up to 8 bits would break the budget."""
    one = bases()
    one[:] = 100
    poisoned = one.copy()
    poisoned[3, 1, 2, 0] = 126
    stated = r"poisons\[3, 1, 2, 0\] differs .* 26/255 = 0\.102; eps allows 25\.5/255 = 0\.1"
    with pytest.raises(ValueError, match=stated):
        MODEL.check(poisoned, one)
    poisoned[3, 1, 2, 0] = 74  # downwards likewise, and without wrapping round at zero
    with pytest.raises(ValueError, match="26/255"):
        MODEL.check(poisoned, one)
    with pytest.raises(ValueError, match="255/255 = 1;"):
        MODEL.check(np.full_like(one, 255), np.zeros_like(one))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"poisons": bases().astype(np.float32) / 255}, "poisons hold float32; allowed: uint8"),
        ({"bases": bases().astype(np.int64)}, "bases hold int64"),
        ({"poisons": bases()[:4], "bases": bases()[:4]}, "there are 4 poisons; the budget is 5"),
        ({"poisons": bases()[:4]}, r"poisons have shape \(4, 3, 4, 4\), bases \(5, 3, 4, 4\)"),
        ({"poisons": bases()[0]}, "have shape"),
        ({"bases": np.stack([bases()] * 2)}, "allowed: the same"),
        ({"labels": [8] * 5}, "base_labels is missing"),
        (
            {"labels": [8, 8, 6, 8, 8], "base_labels": [8] * 5},
            r"poisons\[2\] has label 6, its base 8; clean_label allows no other",
        ),
    ],
)
def test_each_way_out_of_the_threat_model_is_named(change, match):
    arguments = {"poisons": bases(), "bases": bases()} | change
    with pytest.raises(ValueError, match=match):
        MODEL.check(**arguments)


def test_dirty_labels_may_differ():
    dirty = dataclasses.replace(MODEL, clean_label=False)
    dirty.check(bases(), bases(), labels=[1] * 5, base_labels=[8] * 5)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"knowledge": "none"}, "knowledge is 'none'; allowed: white_box, gray_box, black_box, transfer"),
        ({"norm": "l2"}, "norm is 'l2'; allowed: linf"),
        ({"setting": "scratch"}, "setting is 'scratch'; allowed: transfer, end_to_end"),
        ({"eps": 25.5}, r"eps is 25\.5; allowed: 0 to 1"),
        ({"eps": -0.1}, "eps is"),
        ({"eps": float("nan")}, "eps is nan"),
        ({"poisons_count": 51}, "found 51, 50, 500"),
        ({"poisons_count": -1}, "found -1"),
        ({"class_count": 501}, "found 5, 501, 500"),
    ],
)
def test_a_threat_model_that_cannot_be_is_refused(change, match):
    with pytest.raises(ValueError, match=match):
        dataclasses.replace(MODEL, **change)
