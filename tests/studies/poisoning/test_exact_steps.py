"""hull_proposition and toy_example: the counts of the proposition, and the side of the target in the plane."""

import numpy as np


def test_hull_proposition_finds_no_separator_inside_and_always_one_outside(chain):
    record = chain.step("hull_proposition", "hull", {"dimension": 2048, "poisons": 5, "problems": 4})
    metrics = record["metrics"]
    assert metrics["inside_count"] == metrics["outside_count"] == 4
    assert metrics["inside_separators_count"] == 0 and metrics["outside_separators_count"] == 4


def test_toy_example_reports_which_poisons_mislead_the_svm(chain, read_trials):
    record = chain.step("toy_example", "toy", {})
    rows = read_trials(chain.path("toy"))
    assert list(rows[0]) == ["panel", "kind", "x", "y"]
    for panel, taken in (("feature_collision", 0), ("convex_polytope", 1)):
        assert record["metrics"][f"{panel}_targets_taken_count"] == taken
        here = [row for row in rows if row["panel"] == panel]
        first, second = (
            np.array([float(r["x"]), float(r["y"])]) for r in here if r["kind"] == "boundary_after"
        )
        (target,) = (np.array([float(r["x"]), float(r["y"])]) for r in here if r["kind"] == "target")
        along, to = second - first, target - first
        assert (along[0] * to[1] - along[1] * to[0] < 0) == bool(taken)
