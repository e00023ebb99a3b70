"""Leaderboards: their numbers against pandas, and who gets a rank."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from relearn.report import leaderboard, runs
from relearn.report.leaderboard import Row
from relearn.report.quantities import Trial
from relearn.report.statistics import Interval, student_mean
from relearn.studies.study import load

PUBLISHED = Path(__file__).resolve().parents[2] / "results/published/mini"


def row(method: str, estimate: float, low: float = 0.0, missing: int = 0) -> Row:
    return Row("s", "b", "mini", "", method, Interval(estimate, low, 1.0), "3 seeds", missing, 0.1, "")


def ranks(rows: Sequence[Row]) -> list[tuple[str, int | None]]:
    return [(one.method, one.rank) for one in rows]


def test_the_best_comes_first_ties_share_a_rank_and_gaps_follow() -> None:
    made = [row("a", 0.3), row("b", 0.9), row("c", 0.9), row("d", 0.5)]
    assert ranks(leaderboard.rank_rows(made, "higher")) == [("b", 1), ("c", 1), ("d", 3), ("a", 4)]
    assert ranks(leaderboard.rank_rows(made, "lower")) == [("a", 1), ("d", 2), ("b", 3), ("c", 3)]


@pytest.mark.parametrize(
    "ends", [(math.nan, math.nan), (-math.inf, math.inf)]
)  # two equal seeds give infinite ends
def test_what_misses_a_trial_or_has_one_seed_has_no_rank(ends: tuple[float, float]) -> None:
    alone = replace(row("alone", 0.95), interval=Interval(0.95, *ends))
    made = [row("part", 1.0, missing=2), row("whole", 0.2), row("other", 0.1), alone]
    expected = [("whole", 1), ("other", 2), ("part", None), ("alone", None)]
    assert ranks(leaderboard.rank_rows(made, "higher")) == expected
    assert alone.line("%", 100.0)[6:9] == ["95", "", ""]


def test_only_rows_of_one_protocol_are_ranked_together() -> None:
    """The precision is a part of it; a row without a rival has no rank, be it the only one of its cell."""
    fast = [
        replace(row(name, at), protocol="lr 1, bf16") for name, at in (("a", 0.3), ("b", 0.6), ("c", 0.3))
    ]
    sure = [replace(row(name, at), protocol="lr 1, fp32") for name, at in (("d", 0.9), ("e", 0.1))]
    one = replace(row("f", 0.7), protocol="lr 2, fp32")
    found = ranks(leaderboard.rank_rows([*fast, one, *sure], "higher"))
    assert found == [("d", 1), ("e", 2), ("b", 1), ("a", 2), ("c", 2), ("f", None)]
    assert ranks(leaderboard.rank_rows([one], "higher")) == [("f", None)]


def test_the_protocol_names_every_precision_of_the_runs(
    mini: list[runs.Run], attacks: leaderboard.Board
) -> None:
    first, second = mini[:2]
    record = {**second.record, "machine": {**second.record["machine"], "precision": "bf16"}}
    assert leaderboard._protocol(attacks, [first, replace(second, record=record)]).endswith("bf16 and fp32")


def test_a_second_run_of_the_same_trials_adds_no_certainty() -> None:
    def interval(*folders: str) -> Interval:
        trials = [
            Trial("x", seed, 0, None, value, folder)
            for folder in folders
            for seed, value in enumerate([0.2, 0.4, 0.9])
        ]
        return leaderboard._interval(trials, None)

    assert interval("a", "b") == interval("a")
    several = [Trial("x", seed, 0, None, 0.1 * seed + more, "") for more in (0.0, 0.4) for seed in range(3)]
    found, means = leaderboard._interval(several, None), student_mean([0.2, 0.3, 0.4])
    assert (found.estimate, found.low) == pytest.approx((means.estimate, means.low))


@pytest.mark.parametrize(("differ", "said"), [(5, ", Wilson"), (6, "")])
def test_a_row_says_whether_wilsons_bound_widens_it(differ: int, said: str) -> None:
    trials = [Trial("x", 0, target, None, float(target < differ), "") for target in range(20)]
    assert leaderboard._over(trials, (0.0, 1.0)) == f"20 targets x 1 victim{said}"
    assert leaderboard._over(trials, None) == "20 targets x 1 victim"


@pytest.fixture(scope="module")
def mini() -> list[runs.Run]:
    return runs.load(PUBLISHED, "mini")[0]


@pytest.fixture(scope="module")
def attacks() -> leaderboard.Board:
    (board,) = (one for one in load("poisoning").part("claims").BOARDS if one.method == "attack")
    return board


def test_the_numbers_are_those_of_the_trials(mini: list[runs.Run], attacks: leaderboard.Board) -> None:
    trials = pandas.read_parquet(f"{PUBLISHED}/trials.parquet")
    table = pandas.read_parquet(f"{PUBLISHED}/runs.parquet").set_index("folder")
    found = {one.method: one for one in leaderboard.rows(attacks, "poisoning", "mini", mini)}
    for method in ("convex_polytope", "feature_collision"):
        labels = table[(table.step == "train") & (table["labels.setting"] == "transfer")]
        own = labels[(labels["labels.attack"] == method) & (labels["labels.defence"] == "none")]
        mine = trials[trials.folder.isin(own.index)]
        net = (pandas.to_numeric(mine.success) - pandas.to_numeric(mine.control_success)).mean()
        assert found[method].interval.estimate == pytest.approx(net)
        assert found[method].cpu_h * 3600 > own["cost.cpu_s"].sum()  # the runs that it reads count, too
        assert set(found[method].runs) == set(own.index)


def test_a_lost_run_costs_the_rank(mini: list[runs.Run], attacks: leaderboard.Board) -> None:
    whole = {one.method: one for one in leaderboard.rows(attacks, "poisoning", "mini", mini)}
    lost = next(folder for folder in whole["convex_polytope"].runs)
    less = [run for run in mini if run.folder != lost]
    part = {one.method: one for one in leaderboard.rows(attacks, "poisoning", "mini", less)}
    assert whole["convex_polytope"].rank is not None and whole["convex_polytope"].missing == 0
    assert part["convex_polytope"].rank is None and part["convex_polytope"].missing == 20
    assert part["feature_collision"].rank is not None
    page = leaderboard.markdown([(attacks, list(part.values()))])
    assert "20 missing" in page and "| – | `convex_polytope` |" in page
