"""Which layers the spectral initialisation makes 1-Lipschitz."""

from __future__ import annotations

import pytest
from torch import nn

from relearn.measures.attention_cases import spectral_norms
from relearn.methods.spectral_start import spectral_start


def start(layer, seed, image):
    spectral_start(
        layer, None, None if image is None else iter([(image,)]), seed=seed, operator=image is not None
    )


@pytest.fixture(scope="module")
def rows():
    return spectral_norms.cases(start, channels=(8, 16), size=14)


def test_every_case_holds(rows) -> None:
    assert len(rows) == 2 * (4 + 2 * 2) + 2
    assert all(tuple(row) == spectral_norms.COLUMNS and row["holds"] for row in rows)


def test_only_overlapping_windows_make_the_printed_statement_false(rows) -> None:
    failed = {(row["case"], row["start"]) for row in rows if not row["printed_holds"]}
    assert failed == {("depth_wise", "flattened"), ("dense", "flattened"), ("equal", "flattened")}
    three, seven = (row["norm"] for row in rows if row["case"] == "equal")
    assert 2.8 < three < 3 and 5.9 < seven < 7  # borders take a little; 3 and 7 on a large image
    for row in rows:
        if row["case"] in ("linear", "patches", "merging", "point_wise"):
            assert row["norm"] == pytest.approx(1, rel=1e-4)


def test_a_start_that_does_not_divide_is_found_out() -> None:
    def plain(layer, seed, image):
        nn.init.xavier_normal_(layer.weight)

    rows = spectral_norms.cases(plain, channels=(8,), size=8)
    assert not any(row["holds"] for row in rows if row["case"] in ("linear", "patches", "merging"))
    assert not any(row["holds"] for row in rows if row["start"] == "operator")


def test_refusal() -> None:
    with pytest.raises(ValueError, match="size: 7"):
        spectral_norms.cases(start, channels=(8,), size=7)
