"""What claims.md and the report write about a claim's runs."""

from relearn.report.claims_formats import folded


def test_runs_that_differ_in_the_seed_only_are_one_line() -> None:
    runs = ["runs/a/x/seed0", "runs/a/y/seed3", "runs/a/x/seed2", "runs/a/count"]
    assert folded(runs) == ["runs/a/x/seed{0,2}", "runs/a/y/seed3", "runs/a/count"]
    assert folded([]) == []
