"""Theorem 1 case by case: what is attained, what the printed bound misses, and that a wrong layer is found out."""

from __future__ import annotations

import math

import pytest
import torch

from relearn.layers.cosine_attention import CosineAttention
from relearn.measures.attention_cases import cosine


def make(dim: int, heads: int, tau: float, eps: float) -> CosineAttention:
    return CosineAttention(dim, heads, tau=tau, eps=eps, project=False, average_heads=False)


@pytest.fixture(scope="module")
def rows():
    return cosine.cases(
        make, lengths=(1, 4), dims=(4,), heads=2, taus=(1.0, 12.0), spreads=(0.3, 3.0), steps=12
    )


def of(rows, case: str, p: str, **more):
    return [
        row
        for row in rows
        if (row["case"], row["p"]) == (case, p) and all(row[k] == v for k, v in more.items())
    ]


def test_every_case_holds_and_the_printed_form_fails_where_it_should(rows) -> None:
    assert len(rows) == 2 * (2 * 2 * 2 * 2 + 2 * 2 + 3)
    assert all(tuple(row) == cosine.COLUMNS and row["holds"] for row in rows)
    failed = {(row["case"], row["p"]) for row in rows if not row["printed_holds"]}
    assert failed == {("transposes", "inf"), ("width", "inf")}


def test_the_numbers_of_the_errata(rows) -> None:
    """In units of ε^(-1/2), ε = 1e-6."""
    (q9,) = of(rows, "transposes", "inf")
    assert q9["norm"] / 1e3 == pytest.approx(35.9964, abs=1e-4) and q9["printed"] / 1e3 == pytest.approx(
        24.16
    )
    (q10,) = of(rows, "width", "inf")
    assert q10["norm"] / 1e3 == pytest.approx(2.151439, abs=1e-6) and q10["printed"] / 1e3 == pytest.approx(2)


def test_what_is_attained(rows) -> None:
    assert of(rows, "lone", "two")[0]["share"] == pytest.approx(1)
    for row in of(rows, "values", "two", length=4):  # all rows of P alike: √N times the norm of one
        p = torch.tensor([row["tau"], *[-row["tau"]] * 3], dtype=torch.float64).softmax(0)
        assert row["norm"] * row["eps"] ** 0.5 == pytest.approx(math.sqrt(4) * float(p.norm()), rel=1e-5)
    for row in of(rows, "keys", "two", tau=12.0, length=4):
        term = row["tau"] * math.sqrt(4 / row["eps"])
        assert row["norm"] / term == pytest.approx(1 / math.sqrt(2), rel=2e-2)


def test_the_ascent_does_not_lose(rows) -> None:
    for p in ("two", "inf"):
        pairs = list(zip(of(rows, "random", p), of(rows, "ascent", p)))
        assert all(b["norm"] >= a["norm"] * (1 - 1e-9) for a, b in pairs)
        assert any(b["norm"] > 1.2 * a["norm"] for a, b in pairs)


def test_a_layer_that_hardly_smoothes_is_found_out() -> None:
    def sharp(dim: int, heads: int, tau: float, eps: float) -> CosineAttention:
        return make(dim, heads, tau, eps * 1e-4)

    rows = cosine.cases(sharp, lengths=(1,), dims=(2,), heads=1, taus=(1.0,), spreads=(1e-3,), steps=0)
    assert not any(row["holds"] for row in of(rows, "random", "two"))


def test_the_definition_is_the_layers() -> None:
    torch.manual_seed(0)
    layer, x = make(3, 1, 2.0, 0.1).double(), torch.randn(2, 4, 3, dtype=torch.float64)
    torch.nn.init.zeros_(layer.qkv.bias)
    maps = [one[0] for one in layer.maps()]
    torch.testing.assert_close(cosine.single_head(x, *maps, 2.0, 0.1), layer(x))


def test_refusal() -> None:
    with pytest.raises(ValueError, match=r"lengths: \[0\]"):
        cosine.cases(make, lengths=(0,), dims=(2,), heads=1, taus=(1.0,), spreads=(1.0,))
