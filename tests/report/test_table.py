"""Cells against sums done by hand, and what a cell says when there is nothing to average."""

import math
import re

import pytest

from relearn.report import artefacts, table
from relearn.report.statistics import clustered_share

from ..studies.poisoning.fake_records import POISONS, write_run
from .conftest import every_artefact, evidence_of

ARTEFACTS = every_artefact()
FC, CP = ARTEFACTS["zhu2022.table2.1"], ARTEFACTS["zhu2022.table2.2"]


def cell(cells, row, column):
    return next(c for c in cells if (c.row.id, c.column.id) == (row, column))


def train(root, defence, victim, outcomes, seed=0, attack="convex_polytope", outcome="ok", k=None):
    """A fine-tuning run with these successes of targets 0, 1, …"""
    rows = [
        {"target": t, "k": k, "chosen": 1, "predicted": 0, "success": s, "test_accuracy_frac": 0.8 + t / 100}
        for t, s in enumerate(outcomes)
    ]
    labels = {"setting": "transfer", "attack": attack, "defence": defence, "victim": victim}
    place = f"transfer/{attack}/{defence}/{victim}"
    write_run(root, "train", place, labels, {}, seed=seed, rows=rows, outcome=outcome)


def build(root, artefact=CP):
    return table.build(artefact, evidence_of(root))


@pytest.fixture(scope="module")
def two_victims(tmp_path_factory):
    """Undefended, SENet18 loses 3 of 4 targets, DPN92 1 of 2; random eviction saves two of the four."""
    root = tmp_path_factory.mktemp("two")
    train(root, "none", "SENet18", [1, 1, 1, 0])
    train(root, "none", "DPN92", [1, 0])
    train(root, "random_eviction", "SENet18", [0, 1, 1, 0])
    train(root, "random_eviction", "DPN92", [0, 1])
    return build(root)


def test_victims_weigh_the_same_and_trials_do_in_the_pool(two_victims):
    all_attacks = cell(two_victims, "random_eviction", "defence_success")
    assert all_attacks.mean == pytest.approx((2 / 4 + 1 / 2) / 2)
    undefended = cell(two_victims, "none", "defence_success")
    assert undefended.mean == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert undefended.spread == pytest.approx(abs(1 / 4 - 1 / 2) / math.sqrt(2))
    assert undefended.pooled == pytest.approx(2 / 6)
    ends = clustered_share([0, 0, 0, 1, 0, 1], [0, 1, 2, 3, 0, 1])  # defended; two victims share two targets
    assert (undefended.low, undefended.high) == (ends.low, ends.high)
    assert (len(undefended.members), undefended.trials) == (2, 6)


def test_effective_attacks_are_those_that_succeed_undefended(two_victims):
    effective = cell(two_victims, "random_eviction", "defence_success_effective")
    # SENet18: targets 0, 1, 2 count, one of them is saved; DPN92: target 0 counts and is saved. That DPN92's
    # target 1 is lost by the defence is no matter here: the attack did not work before.
    assert effective.members == {"SENet18": [1.0, 0.0, 0.0], "DPN92": [1.0]}
    assert effective.mean == pytest.approx((1 / 3 + 1) / 2)
    assert cell(two_victims, "none", "defence_success_effective").mean == 0.0


def test_published_code_is_compared_only_with_the_comparable_column(two_victims):
    effective = cell(two_victims, "random_eviction", "defence_success_effective")
    assert effective.published == {"published code": 0.3324}
    label, away = effective.deviation()
    assert (label, away) == ("published code", pytest.approx((1 / 3 + 1) / 2 - 0.3324))
    assert effective.published_members["DPN92"] == {"published code": 0.2222}
    assert not cell(two_victims, "random_eviction", "defence_success").published
    assert cell(two_victims, "adversarial_training", "defence_success_effective").deviation() is None


def test_every_cell_is_there_and_says_why_it_is_empty(two_victims):
    assert len(two_victims) == 6 * 6
    assert cell(two_victims, "deep_knn", "mcc").status == "not_run"
    assert cell(two_victims, "none", "mcc").status == "not_applicable"
    assert cell(two_victims, "adversarial_training", "test_accuracy").status == "not_run"


def test_cells_name_their_runs(two_victims):
    runs = cell(two_victims, "random_eviction", "test_accuracy").runs
    assert runs == (
        "runs/poisoning/train/transfer/convex_polytope/random_eviction/DPN92/seed0",
        "runs/poisoning/train/transfer/convex_polytope/random_eviction/SENet18/seed0",
    )


def test_seeds_join_the_trials_of_their_victim(tmp_path):
    train(tmp_path, "none", "SENet18", [1, 0], seed=0)
    train(tmp_path, "none", "SENet18", [0, 0], seed=1)
    found = cell(build(tmp_path), "none", "defence_success")
    assert (found.mean, found.spread, found.trials) == (0.75, None, 4)


def test_the_same_target_of_another_seed_is_another_attack(tmp_path):
    train(tmp_path, "none", "SENet18", [1], seed=0)
    train(tmp_path, "none", "SENet18", [0], seed=1)
    train(tmp_path, "one_class_svm", "SENet18", [1], seed=0)
    train(tmp_path, "one_class_svm", "SENet18", [1], seed=1)
    assert cell(build(tmp_path), "one_class_svm", "defence_success_effective").trials == 1


def test_a_diverged_run_is_counted_and_not_averaged(tmp_path):
    train(tmp_path, "none", "SENet18", [1, 1])
    train(tmp_path, "none", "DPN92", [0, 0], outcome="diverged")
    found = cell(build(tmp_path), "none", "defence_success")
    assert (found.mean, found.diverged, list(found.members)) == (0.0, 1, ["SENet18"])
    train(tmp_path, "random_eviction", "DPN92", [0, 0], outcome="diverged")
    assert cell(build(tmp_path), "random_eviction", "defence_success").status == "diverged"


def test_no_attack_that_works_leaves_no_value(tmp_path):
    train(tmp_path, "none", "SENet18", [0, 0])
    found = cell(build(tmp_path), "none", "defence_success_effective")
    assert (found.status, found.mean) == ("no_value", None)


def test_the_chosen_k_counts_and_not_the_sweep(evidence):
    cells = table.build(CP, evidence)
    assert cell(cells, "deep_knn", "mcc").mean == pytest.approx(0.5)  # of k = 50
    assert cell(cells, "deep_knn", "defence_success").trials == 80
    assert cell(cells, "l2_outliers", "clean_removed").mean == pytest.approx(45 / 495)
    assert cell(cells, "one_class_svm", "poisons_removed").mean == pytest.approx(1 / POISONS)


def test_attacks_do_not_mix(evidence):
    polytope, collision = (table.build(artefact, evidence) for artefact in (CP, FC))
    assert cell(polytope, "none", "defence_success").mean == pytest.approx(1 - 10 / 20)
    assert cell(collision, "none", "defence_success").mean == pytest.approx(1 - 5 / 20)


def test_a_trial_without_the_column_is_named(tmp_path):
    labels = {"setting": "transfer", "attack": "convex_polytope", "defence": "none", "victim": "SENet18"}
    write_run(
        tmp_path, "train", "convex_polytope/none/SENet18", labels, {}, rows=[{"target": 0, "chosen": 1}]
    )
    with pytest.raises(
        ValueError, match=re.escape("none/SENet18/seed0/trials.csv: defence_success: KeyError")
    ):
        build(tmp_path)


def test_records_of_another_scale_are_left_out_by_name(tmp_path):
    from relearn.report.runs import load

    write_run(
        tmp_path, "train", "a/none/b", {"attack": "a", "defence": "none", "victim": "b"}, {}, scale="small"
    )
    runs, problems = load(tmp_path, "mini")
    assert not runs
    assert problems == ["runs/poisoning/train/a/none/b/seed0: found scale small, allowed: mini"]


def test_every_network_has_a_row_and_every_eps_a_column(evidence):
    robust = artefacts.expand_rows(ARTEFACTS["addition.robustness"], evidence.runs)
    assert len(robust.rows) == 3 * 4 and robust.rows[0].title == "DenseNet121-drop0 (victim)"
    assert {row.title.split()[1] for row in robust.rows if "unreliable" in row.note} == {"(robust)"}
    assert [column.title for column in robust.columns] == [
        "Clean",
        "PGD, eps 2.55/255",
        "PGD, eps 7.65/255",
        "Corruptions",
    ]
    cells = table.build(robust, evidence)
    one = {c.column.title: c.mean for c in cells if c.row.id == "robust/SENet18-drop0"}
    # accuracy 0.9, less ten times eps, less 0.02 or 0.04 a severity of 1 or 2
    wanted = {
        "Clean": 0.9,
        "PGD, eps 2.55/255": 0.8,
        "PGD, eps 7.65/255": 0.6,
        "Corruptions": 0.9 - 0.03 * 1.5,
    }
    assert one == pytest.approx(wanted)
    assert all(c.status == "measured" and "/evaluate_networks/" in c.runs[0] for c in cells)


def test_an_unknown_quantity_is_refused():
    from relearn.report.quantities import quantity

    with pytest.raises(ValueError, match="found quantity colour, allowed: attack_success"):
        quantity("colour")


def test_an_addition_is_compared_with_no_paper(evidence):
    from relearn.report import table_formats

    ours = ARTEFACTS["addition.bullseye_polytope"]
    header, lines = table_formats.header_and_rows(ours, table.build(ours, evidence))
    assert "Paper" not in header and "Deviation" not in header and header[0] == "Defence"
    assert dict(zip(header, lines[-1]))["MCC"] == "0.500 ± 0.000 (4)"


def test_a_rejected_poison_counts_as_a_failure(tmp_path):
    # the train step writes no success for it; the rate is of all four, not of the three that were let in
    train(tmp_path, "none", "SENet18", [1, 0, 1, 1])
    assert cell(build(tmp_path), "none", "defence_success").mean == pytest.approx(1 / 4)


def test_another_setting_is_another_population(tmp_path):
    train(tmp_path, "none", "SENet18", [1, 1])
    labels = {"setting": "end_to_end", "attack": "convex_polytope", "defence": "none", "victim": "SENet18"}
    row = {"target": 0, "k": None, "chosen": 1, "success": 0, "test_accuracy_frac": 0.1}
    write_run(tmp_path, "train", "end_to_end/convex_polytope/none/SENet18", labels, {}, rows=[row])
    found = cell(build(tmp_path), "none", "defence_success")
    assert (found.mean, found.trials) == (0.0, 2)
