"""Cells counted by hand: what the paper shows, what was measured, and what this version leaves out."""

import pytest

from relearn.report import artefacts, coverage

from ..studies.poisoning import fake_records, fake_settings
from ..studies.poisoning.fake_records import SWEEP
from ..studies.poisoning.fake_settings import SIZES
from .conftest import chapter, evidence_of

ARTEFACTS = chapter()
DEFENCES = (
    2 * 3 + 4 * 6
) * 8  # without a defence and under adversarial training nothing is removed: three columns, else all six
DEFINED = {
    "zhu2022.fig2.1": 2,
    "zhu2022.fig2.2": 2 * 2,
    "zhu2022.fig2.3": 2 * 2 * 2,
    "zhu2022.fig2.4": 2 * 2,
    "zhu2022.fig2.5": 2 * 8,
    "zhu2022.fig2.6": 3 * 8,
    "zhu2022.fig2.7": 2 * 8,
    "zhu2022.fig2.9": 2 * 8,
    "zhu2022.fig2.10": 1,
    "zhu2022.fig2.11": 3 * 12 * 8 + 3 * 10 * 2 * 8,
    "zhu2022.table2.1": DEFENCES,
    "zhu2022.table2.2": DEFENCES,
    "addition.bullseye_polytope": DEFENCES,
    "addition.gradient_matching": DEFENCES,
    "addition.adaptive_polytope": DEFENCES,
    "addition.defences": (3 + 4 * 5 + 6) * 8,  # none removes, filters certify nothing, a vote certifies
    "addition.mixed_batches": 6 * 3 * 8,
    "addition.attacks": 5 * 5 * 8,
    "addition.controls": 12 * 4 * 8,
    "addition.robustness": 0,  # as many rows as networks were measured
}


@pytest.mark.parametrize("name", ARTEFACTS)
def test_nothing_measured_of_everything_defined(name, tmp_path):
    found = coverage.cover(ARTEFACTS[name], evidence_of(tmp_path))
    assert (found.measured, found.defined) == (0, DEFINED[name])
    assert len(found.missing) == found.methods


def test_a_study_on_four_of_eight_victims(evidence):
    found = {
        name: coverage.cover(artefacts.expand_rows(artefact, evidence.runs), evidence)
        for name, artefact in ARTEFACTS.items()
    }
    counted = {name: one.measured for name, one in found.items()}
    swept = len(set(SWEEP) & set(ARTEFACTS["zhu2022.fig2.11"].sweeps["k"]))
    assert counted == {
        "zhu2022.fig2.1": 2,
        "zhu2022.fig2.2": 4,
        "zhu2022.fig2.3": 8,
        "zhu2022.fig2.4": 4,
        "zhu2022.fig2.5": 2 * 4,
        "zhu2022.fig2.6": 3 * 4,
        "zhu2022.fig2.7": 2 * 4,
        "zhu2022.fig2.9": 2 * 4,
        "zhu2022.fig2.10": 0,  # on ResNet18; the published one is DPN92
        "zhu2022.fig2.11": 3 * 4 * (swept + 2 * len(SIZES)),
        "zhu2022.table2.1": DEFENCES // 2,
        "zhu2022.table2.2": DEFENCES // 2,
        "addition.bullseye_polytope": (3 + 6) * 4,
        "addition.gradient_matching": (3 + 6) * 4,
        "addition.adaptive_polytope": (3 + 6) * 4,
        "addition.defences": (3 + 5) * 4,
        "addition.mixed_batches": 2 * 2 * 4,
        "addition.attacks": 5 * 3 * 4,  # these runs do not say what they fitted
        "addition.controls": 12 * 3 * 4,
        "addition.robustness": 3 * 4 * 4,  # roles, victims; clean, two eps, corruptions
    }
    assert found["zhu2022.fig2.10"].missing == ("Convex polytope",)
    assert found["addition.robustness"].measured == found["addition.robustness"].defined


def test_additions_are_no_published_cells(evidence):
    found = [coverage.cover(artefact, evidence) for artefact in ARTEFACTS.values()]
    published = sum(n for name, n in DEFINED.items() if name.startswith("zhu2022"))
    assert coverage.total(found)[1] == published
    assert {one.artefact for one in found if one.addition} == {n for n in DEFINED if n.startswith("addition")}
    assert "addition.attacks: addition, 60 of 200 cells measured" in {one.line() for one in found}


def test_a_curve_without_watched_victims_is_half_a_cell_pair(make_study):
    def unwatched(root, study):
        fake_settings.craft()(root, type("Blind", (), {"victims": (), "targets": 2})())

    found = coverage.cover(
        ARTEFACTS["zhu2022.fig2.3"], evidence_of(make_study(victims=(), targets=2, extras=(unwatched,)))
    )
    assert found.measured == 4


def test_a_k_that_the_paper_does_not_show_is_no_cell(make_study, monkeypatch):
    monkeypatch.setattr(fake_records, "SWEEP", (51, 10))
    study = make_study(
        victims=("SENet18",), targets=2, defences=("deep_knn",), removed=lambda *_: (5, 0, 0.5)
    )
    found = coverage.cover(ARTEFACTS["zhu2022.fig2.11"], evidence_of(study))
    assert found.measured == 3


def test_a_victim_that_the_paper_does_not_show_is_no_cell(make_study):
    study = make_study(victims=("ResNet18", "VGG19"), targets=2, defences=())
    assert coverage.cover(ARTEFACTS["zhu2022.fig2.5"], evidence_of(study)).measured == 2


def test_row_and_line(make_study):
    bare = evidence_of(make_study(defences=("deep_knn",), targets=2))
    found = coverage.cover(ARTEFACTS["zhu2022.table2.1"], bare)
    lacking = "L2-norm outliers, One-class SVM, Random eviction, Adversarial training"
    assert found.line() == f"zhu2022.table2.1: 36 of 240 cells measured; none of {lacking}"
    row = dict(zip(coverage.FIELDS, coverage.table([found], "mini")[0]))
    assert (row["share_frac"], row["methods_measured"], row["methods_defined"]) == (0.15, 2, 6)
    assert (row["scale"], row["addition"]) == ("mini", 0)
