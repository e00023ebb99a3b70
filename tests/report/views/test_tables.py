"""The published value is shown in the cell of the measured value."""

import pytest

from relearn.report.views.formulas import markup
from relearn.report.views.names import breakable, heading, label
from relearn.report.views.tables import Shown, fold_published

HEADER = ["Defence", "Rate, %", "Paper", "Published code", "Deviation", "Kept, %"]
LINES = [
    ["none", "10.0 (4)", "12.0", "-", "-2.0", "n/a"],
    ["k-NN", "not run", "0.0", "1.0", "-", "95.0 (4)"],
]


def test_published_values_and_deviations_are_below_the_measured_ones() -> None:
    header, lines = fold_published(HEADER, LINES)
    assert header == ["Defence", "Rate, %", "Kept, %"]
    assert lines == [
        [Shown("none"), Shown("10.0 (4)", "paper 12.0 · Δ -2.0"), Shown("n/a", "", True)],
        [Shown("k-NN"), Shown("not run", "paper 0.0 · published code 1.0", True), Shown("95.0 (4)")],
    ]


def test_no_number_is_lost() -> None:
    _, lines = fold_published(HEADER, LINES)
    shown = " ".join(f"{cell.text} {cell.beside}" for line in lines for cell in line)
    assert all(text in shown for line in LINES for text in line if text != "-")


def test_a_row_of_several_lines_is_named_once_and_measures_are_words() -> None:
    lines = [["CvT", "Top-1, %", "65.0"], ["CvT", "Size, M", "not run"], ["ViL", "Top-1, %", "66.0"]]
    _, found = fold_published(["Network", "Measure", "CIFAR-10"], lines)
    assert [line[0].again for line in found] == [False, True, False]
    assert [[cell.words for cell in line] for line in found] == [[False, True, False]] * 3


def test_a_name_breaks_behind_a_separator_only() -> None:
    assert breakable("cp_beats_fc") == "cp_<wbr>beats_<wbr>fc"
    assert breakable("a.b/<c>") == "a.<wbr>b/<wbr>&lt;c&gt;"


def test_artefacts_are_called_as_people_call_them() -> None:
    assert heading("zhu2022.table2.2", "Defences") == "Table 2.2: Defences"
    assert heading("addition.attacks", "Addition: attacks") == "Addition: attacks"
    assert [label(one) for one in ("kim2020.fig10", "addition.robustness", "touvron2021.facts")] == [
        *("Figure 10", "Addition", "facts")
    ]
    assert heading("zhu2022.table5.8.accuracy", "Top-1") == "Table 5.8, accuracy: Top-1"
    assert heading("qi2023.table2.accuracy", "Top-1") == "Table 2, accuracy: Top-1"


# Formulas in plain text become HTML that reads well, and names of the code stay as they are.


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
