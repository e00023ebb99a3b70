"""The comparison itself: a case in closed form, and every way in which a strategy can be wrong is seen."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import cross_entropy

from relearn.measures.virtual_batch import compare

Settings = dict[str, Any]


def case() -> tuple[nn.Module, tuple[Tensor, Tensor], list[Tensor]]:
    """A network with two masks a pass, a batch, and the δ of three passes."""
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), nn.Dropout(0.4), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 3)]
    batch = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0])
    return nn.Sequential(*layers).double().train(), batch, list(torch.randn(3, 5, 4, dtype=torch.float64))


class Passes:
    """Three passes over given δ; each argument is one mistake."""

    def __init__(self, places: list[Tensor], **wrong: Any) -> None:
        self.places, self.deltas, self.wrong = places, [], wrong  # type: ignore[var-annotated]

    def __call__(self, model: nn.Module, loss: Any, batch: Any) -> Tensor:
        total, state, wrong = torch.zeros((), dtype=torch.float64), torch.get_rng_state(), self.wrong
        for t, place in enumerate(self.places):
            if t and wrong.get("reuse", True):
                torch.set_rng_state(state)
            if not wrong.get("silent"):
                self.deltas.append(place.clone())
            value = loss(model(batch[0] + place * wrong.get("scale", 1.0)), *batch[1:])
            (value * wrong.get("weight", 1 / 3)).backward()
            total += value.detach() * wrong.get("told", 1 / 3)
        if wrong.get("uneven"):
            F.dropout(torch.ones(3))
        if wrong.get("lost"):
            model[0].bias.grad = None
        return total


def compared(**wrong: Any) -> Any:
    model, batch, places = case()
    strategy = Passes(places, **wrong)
    return compare(strategy, strategy.deltas, model, cross_entropy, batch)


@pytest.mark.parametrize("reuse", [True, False])
def test_passes_that_are_right_agree(reuse: bool) -> None:
    found = compared(reuse=reuse)
    assert found.difference < 1e-14 and found.loss_difference < 1e-14
    assert (found.passes, found.masks, found.reused) == (3, 2, reuse)


@pytest.mark.parametrize(
    ("wrong", "difference", "loss_difference"),
    [
        ({"weight": 1.0}, 2.0, 0.0),  # the sum: three times the mean
        ({"weight": 0.5}, 0.5, 0.0),  # divided by K - 1
        ({"told": 1.0}, 0.0, 2.0),
        ({"lost": True}, float("inf"), 0.0),
    ],
)
def test_a_wrong_weight_or_a_missing_gradient_is_seen(
    wrong: Settings, difference: float, loss_difference: float
) -> None:
    found = compared(**wrong)
    assert found.difference == pytest.approx(difference, abs=1e-12)
    assert found.loss_difference == pytest.approx(loss_difference, abs=1e-12)


def test_perturbations_other_than_the_recorded_ones_are_detected() -> None:
    found = compared(scale=-1.0)
    assert found.difference > 1e-2 and found.loss_difference > 1e-3


def test_of_squares_it_is_known() -> None:
    """L = mean ½ (w x)², one weight: g = w · mean over samples and passes of (x + δ)²."""
    model = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        model.weight.fill_(3.0)
    x, deltas = torch.tensor([[1.0], [2.0]]).double(), []  # type: ignore[var-annotated]

    def strategy(model: nn.Module, loss: Any, batch: Any) -> Tensor:
        deltas.extend([torch.zeros(2, 1).double(), torch.ones(2, 1).double()])
        model.weight.grad = torch.full((1, 1), 3.0 * (1 + 4 + 4 + 9) / 4 * 1.25).double()
        return torch.tensor(4.5 * (1 + 4 + 4 + 9) / 4).double()

    found = compare(strategy, deltas, model, lambda out: out.square().mean() / 2, (x,))
    assert found.difference == pytest.approx(0.25) and found.loss_difference == pytest.approx(0, abs=1e-14)
    assert (found.passes, found.masks, found.reused) == (2, 0, False)
    assert model.weight.grad is None


def test_what_cannot_be_compared_is_refused_in_a_line() -> None:
    with pytest.raises(
        ValueError,
        match=r"^passes: found 0 with 6 masks \(allowed: at least one, with equally many masks each\)$",
    ):
        compared(silent=True)
    with pytest.raises(ValueError, match=r"^passes: found 3 with 7 masks \(allowed: "):
        compared(uneven=True)
