"""Theorem 1 case by case: what is attained, what the printed bound misses, and that a wrong layer is found out.

Theorem 2 on small stacks: the corrected product holds, and what the printed exponential leaves out shows.
"""

import math

import pytest
import torch
from torch import nn

from relearn.layers.center_norm import CenterNorm
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.weighted_residual import WeightedResidual
from relearn.measures.attention_cases import cosine, residual_stack
from relearn.measures.attention_cases.residual_stack import Parts


def make(dim: int, heads: int, tau: float, eps: float) -> CosineAttention:
    return CosineAttention(dim, heads, tau=tau, eps=eps, project=False, average_heads=False)


@pytest.fixture(scope="module")
def rows_of_attention():
    return cosine.cases(
        make, lengths=(1, 4), dims=(4,), heads=2, taus=(1.0, 12.0), spreads=(0.3, 3.0), steps=12
    )


def of(rows_of_attention, case: str, p: str, **more):
    return [
        row
        for row in rows_of_attention
        if (row["case"], row["p"]) == (case, p) and all(row[k] == v for k, v in more.items())
    ]


def test_every_case_holds_and_the_printed_form_fails_where_it_should(rows_of_attention) -> None:
    assert len(rows_of_attention) == 2 * (2 * 2 * 2 * 2 + 2 * 2 + 3)
    assert all(tuple(row) == cosine.COLUMNS and row["holds"] for row in rows_of_attention)
    failed = {(row["case"], row["p"]) for row in rows_of_attention if not row["printed_holds"]}
    assert failed == {("transposes", "inf"), ("width", "inf")}


def test_the_numbers_of_the_errata(rows_of_attention) -> None:
    """In units of ε^(-1/2), ε = 1e-6."""
    (q9,) = of(rows_of_attention, "transposes", "inf")
    assert q9["norm"] / 1e3 == pytest.approx(35.9964, abs=1e-4) and q9["printed"] / 1e3 == pytest.approx(
        24.16
    )
    (q10,) = of(rows_of_attention, "width", "inf")
    assert q10["norm"] / 1e3 == pytest.approx(2.151439, abs=1e-6) and q10["printed"] / 1e3 == pytest.approx(2)


def test_what_is_attained(rows_of_attention) -> None:
    assert of(rows_of_attention, "lone", "two")[0]["share"] == pytest.approx(1)
    for row in of(
        rows_of_attention, "values", "two", length=4
    ):  # all rows of P alike: √N times the norm of one
        p = torch.tensor([row["tau"], *[-row["tau"]] * 3], dtype=torch.float64).softmax(0)
        assert row["norm"] * row["eps"] ** 0.5 == pytest.approx(math.sqrt(4) * float(p.norm()), rel=1e-5)
    for row in of(rows_of_attention, "keys", "two", tau=12.0, length=4):
        term = row["tau"] * math.sqrt(4 / row["eps"])
        assert row["norm"] / term == pytest.approx(1 / math.sqrt(2), rel=2e-2)


def test_the_ascent_does_not_lose(rows_of_attention) -> None:
    for p in ("two", "inf"):
        pairs = list(zip(of(rows_of_attention, "random", p), of(rows_of_attention, "ascent", p)))
        assert all(b["norm"] >= a["norm"] * (1 - 1e-9) for a, b in pairs)
        assert any(b["norm"] > 1.2 * a["norm"] for a, b in pairs)


def test_a_layer_that_hardly_smoothes_is_found_out() -> None:
    def sharp(dim: int, heads: int, tau: float, eps: float) -> CosineAttention:
        return make(dim, heads, tau, eps * 1e-4)

    rows_of_attention = cosine.cases(
        sharp, lengths=(1,), dims=(2,), heads=1, taus=(1.0,), spreads=(1e-3,), steps=0
    )
    assert not any(row["holds"] for row in of(rows_of_attention, "random", "two"))


def test_the_definition_is_the_layers() -> None:
    torch.manual_seed(0)
    layer, x = make(3, 1, 2.0, 0.1).double(), torch.randn(2, 4, 3, dtype=torch.float64)
    torch.nn.init.zeros_(layer.qkv.bias)
    maps = [one[0] for one in layer.maps()]
    torch.testing.assert_close(cosine.single_head(x, *maps, 2.0, 0.1), layer(x))


def test_cosine_cases_refuse_a_length_of_zero() -> None:
    with pytest.raises(ValueError, match=r"lengths: \[0\]"):
        cosine.cases(make, lengths=(0,), dims=(2,), heads=1, taus=(1.0,), spreads=(1.0,))


PARTS = Parts(
    attention=lambda dim, heads, eps: CosineAttention(dim, heads, tau=2.0, eps=eps),
    norm=CenterNorm,
    join=WeightedResidual,
)
SIZES = dict(blocks=(1, 3), lengths=(3,), dims=(4,), heads=2, eps=(1.0, 1e-6))


@pytest.fixture(scope="module")
def rows_of_stack():
    return residual_stack.cases(PARTS, **SIZES)


def named(rows_of_stack, case: str, **more):
    return [row for row in rows_of_stack if row["case"] == case and all(row[k] == v for k, v in more.items())]


def test_every_stack_obeys_the_corrected_product(rows_of_stack) -> None:
    assert len(rows_of_stack) == 2 * 2 + 2 + 2 + 1
    assert all(tuple(row) == residual_stack.COLUMNS and row["holds"] for row in rows_of_stack)
    assert all(row["norm"] > 0.5 for row in rows_of_stack)


def test_what_the_printed_form_leaves_out(rows_of_stack) -> None:
    small, wide = named(rows_of_stack, "constant")
    assert (small["dim"], small["norm"], small["printed"]) == (2, pytest.approx(4), 1)
    assert wide["norm"] == pytest.approx((4 / 3) ** 2) and not wide["printed_holds"]
    third = named(rows_of_stack, "identity", blocks=3)[0]
    assert third["norm"] == pytest.approx((1 + 1 / 3) ** 9) and third["printed"] == pytest.approx(math.e)
    assert not third["printed_holds"]
    (negative,) = named(rows_of_stack, "negative")
    assert negative["norm"] == pytest.approx(1.9) and negative["printed"] == pytest.approx(0.1)


def test_at_the_papers_epsilon_the_exponential_says_nothing(rows_of_stack) -> None:
    assert all(row["printed"] == math.inf for row in named(rows_of_stack, "lipsformer", eps=1e-6))
    assert all(
        row["norm"] < row["corrected"] < math.inf for row in named(rows_of_stack, "lipsformer", eps=1.0)
    )


def test_a_norm_that_stretches_is_found_out() -> None:
    class Stretches(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 10 * (x - x.mean(-1, keepdim=True))

    wrong = residual_stack.cases(Parts(PARTS.attention, Stretches, PARTS.join), **{**SIZES, "eps": (1.0,)})
    assert not any(row["holds"] for row in named(wrong, "constant"))
    assert not named(wrong, "lipsformer", blocks=3)[0]["holds"]


def test_a_join_that_forgets_alpha_is_found_out() -> None:
    class Plain(nn.Module):
        def __init__(self, dim: int, alpha: float) -> None:
            super().__init__()
            self.alpha = nn.Parameter(torch.ones(dim))

        def forward(self, x: torch.Tensor, branch: torch.Tensor) -> torch.Tensor:
            return x + branch

    wrong = residual_stack.cases(Parts(PARTS.attention, CenterNorm, Plain), **SIZES)
    assert not named(wrong, "identity", blocks=3)[0]["holds"]


def test_stack_cases_refuse_no_blocks() -> None:
    with pytest.raises(ValueError, match=r"blocks: \[0\]"):
        residual_stack.cases(PARTS, **{**SIZES, "blocks": (0,)})
