"""Formulas in plain text become HTML that reads well, and names of the code stay as they are."""

from __future__ import annotations

import pytest

from relearn.report.views.formulas import markup


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("|W^Q|_2 <= sqrt(N) eps^(-1/2)", "|W<sup>Q</sup>|<sub>2</sub> ≤ √(N) ε<sup>-1/2</sup>"),
        ("Lip_inf and |Q|_F", "Lip<sub>∞</sub> and |Q|<sub>F</sub>"),
        ("(a+b)^2 sigma_max(W)", "(a+b)<sup>2</sup> σ<sub>max</sub>(W)"),
        ("W^Q,h over x_ij^2", "W<sup>Q,h</sup> over x<sub>ij</sub><sup>2</sup>"),
        ("P^(i) -> alpha", "P<sup>(i)</sup> → α"),
        ("K~_j' and N^(1/4)", "K~<sub>j</sub>' and N<sup>1/4</sup>"),
        ("spectral_init of train_from_init", "spectral_init of train_from_init"),
        ("the alphabet and delta_x", "the alphabet and δ<sub>x</sub>"),
        ("<b>bold</b> & more", "&lt;b&gt;bold&lt;/b&gt; &amp; more"),
    ],
)
def test_a_formula_is_set(plain: str, shown: str) -> None:
    assert markup(plain) == shown
