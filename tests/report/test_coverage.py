"""Cells counted by hand: what the paper shows, what was measured, and what this version leaves out."""

from __future__ import annotations

import pytest

from relearn.report import artefacts, coverage

from .conftest import REPORTED, SWEEP, VICTIMS, evidence_of

ARTEFACTS = artefacts.load(REPORTED)
DEFINED = {
    "zhu2022.fig2.5": 2 * 8,
    # without a defence and under adversarial training nothing is removed: three columns, else all six
    "zhu2022.table2.1": (2 * 3 + 4 * 6) * 8,
    "zhu2022.table2.2": (2 * 3 + 4 * 6) * 8,
    "zhu2022.fig2.11": 3 * 12 * 8 + 480,
}


@pytest.mark.parametrize("name", ARTEFACTS)
def test_nothing_measured_of_everything_defined(name, tmp_path):
    found = coverage.cover(ARTEFACTS[name], evidence_of(tmp_path))
    assert (found.measured, found.defined) == (0, DEFINED[name])
    assert len(found.missing) == found.methods


def test_a_study_on_four_of_eight_victims(evidence):
    found = {name: coverage.cover(artefact, evidence) for name, artefact in ARTEFACTS.items()}
    assert found["zhu2022.fig2.5"].measured == 2 * 4
    assert found["zhu2022.fig2.5"].missing == ()
    assert found["zhu2022.table2.2"].measured == (3 + 4 * 6) * 4
    assert found["zhu2022.table2.2"].missing == ("Adversarial training",)
    swept = len(set(SWEEP) & set(ARTEFACTS["zhu2022.fig2.11"].sweep))
    assert found["zhu2022.fig2.11"].measured == 3 * swept * len(VICTIMS)
    assert found["zhu2022.fig2.11"].missing == ("class imbalance (right half)",)


def test_a_k_that_the_paper_does_not_show_is_no_cell(make_study, monkeypatch):
    from . import conftest

    monkeypatch.setattr(conftest, "SWEEP", (51, 10))
    study = make_study(
        victims=("SENet18",), targets=2, defences=("deep_knn",), removed=lambda *_: (5, 0, 0.5)
    )
    found = coverage.cover(ARTEFACTS["zhu2022.fig2.11"], evidence_of(study))
    assert found.measured == 3


def test_a_victim_that_the_paper_does_not_show_is_no_cell(make_study):
    study = make_study(victims=("ResNet18", "VGG19"), targets=2, defences=())
    assert coverage.cover(ARTEFACTS["zhu2022.fig2.5"], evidence_of(study)).measured == 2


def test_row_and_line(evidence):
    found = coverage.cover(ARTEFACTS["zhu2022.table2.1"], evidence)
    assert found.line() == "zhu2022.table2.1: 108 of 240 cells measured; nothing of Adversarial training"
    row = dict(zip(coverage.FIELDS, coverage.table([found], "mini")[0]))
    assert (row["share_frac"], row["methods_measured"], row["methods_defined"]) == (0.45, 5, 6)
    assert row["scale"] == "mini"
