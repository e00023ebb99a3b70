"""Theorem 2 on small stacks: the corrected product holds, and what the printed exponential leaves out shows."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from relearn.layers.center_norm import CenterNorm
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.weighted_residual import WeightedResidual
from relearn.measures.attention_cases import residual_stack
from relearn.measures.attention_cases.residual_stack import Parts

PARTS = Parts(
    attention=lambda dim, heads, eps: CosineAttention(dim, heads, tau=2.0, eps=eps),
    norm=CenterNorm,
    join=WeightedResidual,
)
SIZES = dict(blocks=(1, 3), lengths=(3,), dims=(4,), heads=2, eps=(1.0, 1e-6))


@pytest.fixture(scope="module")
def rows():
    return residual_stack.cases(PARTS, **SIZES)


def named(rows, case: str, **more):
    return [row for row in rows if row["case"] == case and all(row[k] == v for k, v in more.items())]


def test_every_case_holds(rows) -> None:
    assert len(rows) == 2 * 2 + 2 + 2 + 1
    assert all(tuple(row) == residual_stack.COLUMNS and row["holds"] for row in rows)
    assert all(row["norm"] > 0.5 for row in rows)


def test_what_the_printed_form_leaves_out(rows) -> None:
    small, wide = named(rows, "constant")
    assert (small["dim"], small["norm"], small["printed"]) == (2, pytest.approx(4), 1)
    assert wide["norm"] == pytest.approx((4 / 3) ** 2) and not wide["printed_holds"]
    third = named(rows, "identity", blocks=3)[0]
    assert third["norm"] == pytest.approx((1 + 1 / 3) ** 9) and third["printed"] == pytest.approx(math.e)
    assert not third["printed_holds"]
    (negative,) = named(rows, "negative")
    assert negative["norm"] == pytest.approx(1.9) and negative["printed"] == pytest.approx(0.1)


def test_at_the_papers_epsilon_the_exponential_says_nothing(rows) -> None:
    assert all(row["printed"] == math.inf for row in named(rows, "lipsformer", eps=1e-6))
    assert all(row["norm"] < row["corrected"] < math.inf for row in named(rows, "lipsformer", eps=1.0))


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


def test_refusal() -> None:
    with pytest.raises(ValueError, match=r"blocks: \[0\]"):
        residual_stack.cases(PARTS, **{**SIZES, "blocks": (0,)})
