"""L2 attention: what distances mean (shifts, precision), tied and untied, the bound, and the layer that is divided by it."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relearn.layers import l2_attention
from relearn.layers.attention_kinds import attention
from relearn.layers.l2_attention import L2Attention
from relearn.maths.l2_bounds import bound_two
from relearn.maths.lambert import covariance_bound


def jacobian(layer: nn.Module, x: Tensor, **given: Any) -> Tensor:
    """(N D, N D) of one sequence."""
    found = torch.autograd.functional.jacobian(lambda x: layer(x, **given), x)
    return found.flatten(2).flatten(0, 1)


def norm(matrix: Tensor, p: str) -> float:
    return (matrix.abs().sum(-1).max() if p == "inf" else torch.linalg.matrix_norm(matrix, 2)).item()


def filled(layer: L2Attention, spread: float) -> L2Attention:
    """float64, plain, normal weights of this size."""
    with torch.no_grad():
        for one in layer.double().parameters():
            one.normal_(std=spread)
    layer.fused = False
    return layer


@pytest.mark.parametrize("kind", ["l2_tied", "l2_matched", "contractive"])
def test_tied_weights_see_differences_alone(kind: str) -> None:
    """A common shift of all tokens leaves the probabilities; controls: untied, and dot products."""
    torch.manual_seed(0)
    x, shift = torch.randn(2, 6, 12, dtype=torch.float64), torch.randn(12, dtype=torch.float64)
    layer = attention(kind, 12, 3).double()
    torch.testing.assert_close(
        layer.probabilities(x + 7 * shift), layer.probabilities(x), rtol=1e-10, atol=1e-12
    )
    for control in ("l2", "dp"):
        other = attention(control, 12, 3).double()
        assert not torch.allclose(other.probabilities(x + 7 * shift), other.probabilities(x), atol=0.01)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("given", ["plain", "causal", "mask"])
def test_float32_far_from_the_origin(
    tied: bool, fused: bool, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cloud of width 1 at distance 10,000: float32 agrees with float64; without the shift, as control, it does not."""
    torch.manual_seed(0)
    layer = L2Attention(16, 2, tied=tied, fused=fused)
    if not tied:  # distances of untied maps grow with the distance unless the maps are alike
        layer.k.weight = nn.Parameter(layer.q.weight.detach().clone())
    x = torch.randn(2, 9, 16) + 1e4 * torch.randn(16)
    mask = (torch.rand(9, 9) < 0.5) | torch.eye(9, dtype=torch.bool)
    kw: dict[str, Any] = {"plain": {}, "causal": {"causal": True}, "mask": {"mask": mask}}[given]

    def results() -> tuple[Tensor, Tensor]:
        leaf = x.clone().requires_grad_()
        y = layer(leaf, **kw)
        # An output is around 10,000, of which float32 holds four decimals; its derivative is around 1.
        return y.detach().double() / 1e4, torch.autograd.grad(y[0].square().sum() / 2e4, leaf)[0].double()

    single = results()
    double_layer, layer, x = layer, layer.double(), x.double()
    double_layer.fused = False
    for one, other in zip(single, results()):
        torch.testing.assert_close(one, other, rtol=0, atol=5e-6 * max(1.0, other.abs().max().item()))
    layer, x = layer.float(), x.float()
    layer.fused = fused
    monkeypatch.setattr(l2_attention, "central_token", lambda x, mask, causal: torch.zeros_like(x[:, :1]))
    lost = (results()[1] - single[1]).abs().max().item()
    assert lost > 1e-3 * single[1].abs().max().item()


def test_centre_is_a_token_that_rows_see() -> None:
    x = torch.arange(2 * 4, dtype=torch.float64).reshape(2, 4, 1)

    def centre(mask: list | None, causal: bool = False) -> list[float]:
        given = None if mask is None else torch.tensor(mask, dtype=torch.bool)
        return l2_attention.central_token(x, given, causal).flatten().tolist()

    assert centre(None) == [1.5, 5.5]
    assert centre(None, causal=True) == [0.0, 4.0]
    assert centre([[[[0, 0, 1, 1]]]]) == [2.0, 6.0]
    assert centre([[[[0, 1, 0, 1]]], [[[0, 0, 0, 1]]]]) == [1.0, 7.0]
    # the first that all see, and if there is none the first that any sees; heads count as rows
    assert centre([[[[0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 1, 0]]]]) == [2.0, 6.0]
    assert centre([[[[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]]]) == [1.0, 5.0]
    assert centre([[[[0, 1, 1, 1]], [[0, 0, 1, 1]]]]) == [2.0, 6.0]


def test_the_forms_lead_into_each_other() -> None:
    """Untied with equal maps is tied without A_h; A_h on values X W^V is the tied form; A_h untied is W^Q W^Q^T / s."""
    torch.manual_seed(0)
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    tied = L2Attention(12, 3, value_map=False).double()
    untied = L2Attention(12, 3, tied=False, value_map=False).double()
    mapped = L2Attention(12, 3).double()
    both = L2Attention(12, 3, tied=False).double()
    for one in (untied, mapped, both):
        one.load_state_dict(tied.state_dict() | ({} if one is mapped else {"k.weight": tied.q.weight}))
    torch.testing.assert_close(untied(x), tied(x), rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(both(x), mapped(x), rtol=1e-11, atol=1e-13)
    # A_h taken into W^V by hand
    wq, wv, _ = mapped.maps()
    with torch.no_grad():
        tied.v.weight.copy_((wq @ wq.mT / 2 @ wv).mT.flatten(0, 1))
    torch.testing.assert_close(tied(x), mapped(x), rtol=1e-11, atol=1e-13)


def test_maps_are_those_of_the_formula() -> None:
    torch.manual_seed(0)
    layer = L2Attention(12, 3, query_width=5).double()
    x = torch.randn(6, 12, dtype=torch.float64)
    wq, wv, wo = layer.maps()
    assert wq.shape == (3, 12, 5) and wv.shape == (3, 12, 4) and wo.shape == (12, 12)
    heads = []
    for q, v in zip(wq, wv):
        p = torch.softmax(-(torch.cdist(x @ q, x @ q) ** 2) / 2, -1)
        heads.append(p @ x @ (q @ q.T / 2) @ v)
    torch.testing.assert_close(torch.cat(heads, -1) @ wo, layer(x), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(layer.probabilities(x)[0, 2], p, rtol=1e-10, atol=1e-12)


def test_counts_of_parameters() -> None:
    count = {
        kind: sum(one.numel() for one in attention(kind, 16, 4).parameters())
        for kind in ("dp", "l2", "l2_tied", "l2_matched", "contractive")
    }
    assert count["dp"] == count["l2"] == count["l2_matched"] == 4 * 16**2
    assert count["l2_tied"] == count["contractive"] == 3 * 16**2


@pytest.mark.parametrize("width", [4, 8])
def test_bound_is_that_of_theorem_3_2(width: int) -> None:
    """By loops over the maps, with s = sqrt(D/H) for both widths; p = two is the bound under a mask unless said otherwise."""
    torch.manual_seed(0)
    layer = filled(L2Attention(12, 3, query_width=width), 1.0)
    s, c = 2.0, covariance_bound(9)
    q = [layer.q.weight[h * width : (h + 1) * width].T for h in range(3)]
    v = [layer.v.weight[h * 4 : (h + 1) * 4].T for h in range(3)]

    def rows(w: Tensor) -> float:
        return max(sum(abs(one) for one in row) for row in w.tolist())

    expected = (4 * c * math.sqrt(width) / s + 1 / s) * max(rows(w) * rows(w.T) for w in q)
    expected *= max(rows(w.T) for w in v) * rows(layer.out.weight)
    assert layer.lipschitz_bound(9).item() == pytest.approx(expected, rel=1e-12)
    for kw in ({}, {"masked": False}, {"form": "corrected"}):
        wanted = bound_two(*layer.maps(), 9, scale=s, **{"masked": True, **kw})
        assert layer.lipschitz_bound(9, "two", **kw).item() == pytest.approx(wanted.item(), rel=1e-12)
    assert layer.lipschitz_bound(1000, "two", masked=False) < 0.8 * layer.lipschitz_bound(1000, "two")
    assert layer.lipschitz_bound(3) < layer.lipschitz_bound(9)
    assert layer.bfloat16().lipschitz_bound(9).dtype == torch.float32


@pytest.mark.parametrize("p", ["inf", "two"])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_a_contractive_layer_holds_its_constant(p: Any, spread: float) -> None:
    """Jacobians at many inputs, with and without masks, random ones and those that make the derivative large.

    Controls at the same inputs: the layer that is not divided, and dot products divided by the same number.
    """
    torch.manual_seed(0)
    layer = filled(L2Attention(4, 2, contractive=p, scale=0.7), spread)
    free, dots = L2Attention(4, 2, fused=False).double(), attention("dp", 4, 2).double()
    free.load_state_dict(layer.state_dict())
    dots.load_state_dict(layer.state_dict() | {"k.weight": layer.q.weight})
    dots.fused = False
    mask = torch.rand(5, 5) < 0.4
    largest = {"layer": 0.0, "free": 0.0, "dots": 0.0}
    for width in (0.01, 0.3, 1.0, 30.0, 1000.0):
        x = width / spread * torch.randn(5, 4, dtype=torch.float64)
        x[0] = 0.0
        for kw in ({}, {"causal": True}, {"mask": mask | torch.eye(5, dtype=torch.bool)}):
            bound = layer.lipschitz_bound(5, p, **({"masked": bool(kw)} if p == "two" else {}))
            largest["layer"] = max(largest["layer"], norm(jacobian(layer, x, **kw), p))
            largest["free"] = max(largest["free"], norm(jacobian(free, x, **kw), p))
            largest["dots"] = max(largest["dots"], norm(jacobian(dots, x, **kw) * 0.7 / bound, p))
            # it is the layer divided by its bound, and not by less
            torch.testing.assert_close(layer(x, **kw), free(x, **kw) * 0.7 / bound, rtol=1e-11, atol=1e-14)
    assert 0.02 * 0.7 < largest["layer"] <= 0.7
    assert largest["dots"] > 0.7
    assert spread < 1 or largest["free"] > 0.7


@pytest.mark.parametrize("fused", [False, True])
def test_a_given_length_keeps_the_divisor(fused: bool) -> None:
    """With max_length the length of the input plays no part: earlier causal outputs keep their bits; without, it leaks."""
    torch.manual_seed(0)
    x = torch.randn(1, 8, 12)
    known = L2Attention(12, 3, contractive="inf", max_length=10, fused=fused)
    torch.testing.assert_close(known(x[:, :5], causal=True), known(x, causal=True)[:, :5])
    unknown = L2Attention(12, 3, contractive="inf", fused=fused)
    unknown.load_state_dict(known.state_dict())
    ratio = unknown(x[:, :5], causal=True) / unknown(x, causal=True)[:, :5]
    expected = (unknown.lipschitz_bound(8) / unknown.lipschitz_bound(5)).item()
    torch.testing.assert_close(ratio, torch.full_like(ratio, expected), rtol=1e-3, atol=0)
    for i in (1, 7):
        torch.testing.assert_close(unknown.row(x, i, causal=True), unknown(x, causal=True)[:, i])
    for call in (known, lambda x: known.row(x, 0)):
        with pytest.raises(ValueError, match=r"x: 11 tokens \(allowed: max_length, 10"):
            call(torch.randn(1, 11, 12))


def test_two_norm_division_follows_the_mask() -> None:
    """Under a mask the layer divides by the looser bound, unless an argument selects another."""
    torch.manual_seed(0)
    x = torch.randn(400, 4, dtype=torch.float64)
    everything = torch.ones(400, 400, dtype=torch.bool)

    def ratio(masked: bool | None) -> float:
        layer = L2Attention(4, 2, contractive="two", masked=masked, fused=False).double()
        return (layer(x, mask=everything) / layer(x)).mean().item()

    layer = L2Attention(4, 2).double()
    apart = (layer.lipschitz_bound(400, "two") / layer.lipschitz_bound(400, "two", masked=False)).item()
    assert ratio(None) == pytest.approx(1 / apart, rel=1e-6) and apart > 1.1
    assert ratio(True) == pytest.approx(1.0, rel=1e-6) and ratio(False) == pytest.approx(1.0, rel=1e-6)


def test_hidden_from_itself() -> None:
    """Appendix G: such a mask is refused where a constant is promised, because there is none: the Jacobian grows with the cloud."""
    torch.manual_seed(0)
    mask = ~torch.eye(5, dtype=torch.bool)
    layer = L2Attention(4, 2, contractive="inf")
    with pytest.raises(ValueError, match="token 0 of sequence 0, head 0, is hidden from itself"):
        layer(torch.randn(5, 4), mask=mask)
    free = filled(L2Attention(4, 2), 1.0)
    between = torch.randn(4, dtype=torch.float64) * torch.tensor([[0.0], [1.0], [-1.0]])
    mask = ~torch.eye(3, dtype=torch.bool)
    near, far = (norm(jacobian(free, width * between, mask=mask), "inf") for width in (10.0, 1000.0))
    assert far > 9000 * near and far > free.lipschitz_bound(3)
    assert norm(jacobian(free, 1000 * between), "inf") < free.lipschitz_bound(3)  # control: each sees itself


def test_weights_of_zero_are_a_layer_of_zero() -> None:
    layer = L2Attention(4, 2, contractive="inf")
    for one in layer.parameters():
        nn.init.zeros_(one)
    assert torch.equal(layer(torch.randn(3, 4)), torch.zeros(3, 4))


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"query_width": 0}, "query_width: 0"),
        ({"contractive": "one"}, "contractive: 'one'"),
        ({"contractive": "inf", "tied": False}, "contractive: 'inf': no bound for tied = False"),
        (
            {"contractive": "inf", "value_map": False},
            "contractive: 'inf': no bound for tied = True, value_map = False",
        ),
        ({"scale": 0.0}, "scale: 0.0"),
        ({"scale": math.nan}, "scale: nan"),
        ({"scale": math.inf}, "scale: inf"),
        ({"max_length": 0}, "max_length: 0"),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict, match: str) -> None:
    with pytest.raises(ValueError, match=f"{match}.*allowed"):
        L2Attention(12, 3, **wrong)


def test_no_bound_no_number() -> None:
    for layer in (L2Attention(12, 3, tied=False), L2Attention(12, 3, value_map=False)):
        with pytest.raises(ValueError, match="lipschitz_bound: no bound for"):
            layer.lipschitz_bound(5)
    with pytest.raises(ValueError, match="p: 'one'"):
        L2Attention(12, 3).lipschitz_bound(5, "one")
