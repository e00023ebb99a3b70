"""The words follow the definitions: every one is reachable, and better numbers never give a worse word."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.report.claims import judge
from relearn.report.comparisons import Comparison, Exact, Finding
from relearn.report.seeds import Sample, difference
from relearn.report.seeds import ratio as ratio_of
from relearn.report.statistics import Interval, clopper_pearson, clustered_share
from relearn.report.verdicts import ORDER, Above, Below, Within, shortcomings, verdict, weakest, widened

from .test_undecided import part

reals = st.floats(-2, 2, allow_nan=False)
intervals = st.lists(reals, min_size=3, max_size=3).map(sorted).map(lambda v: Interval(v[1], v[0], v[2]))
RANK = ORDER.index


@pytest.mark.parametrize(
    ("estimate", "low", "high", "word"),
    [
        (0.3, 0.1, 0.5, "reproduced"),
        (0.3, -0.1, 0.5, "direction"),
        (-0.1, -0.3, 0.2, "inconclusive"),
        (0.0, 0.0, 0.0, "inconclusive"),  # no difference at all is not more
        (-0.3, -0.5, -0.1, "contradicted"),
    ],
)
def test_above_a_threshold(estimate, low, high, word):
    assert verdict(Above(0.0), Interval(estimate, low, high)) == word


@pytest.mark.parametrize(
    ("estimate", "low", "high", "word"),
    [
        (0.002, -0.004, 0.008, "reproduced"),
        (0.002, -0.012, 0.016, "direction"),
        (0.015, 0.005, 0.025, "inconclusive"),
        (0.03, 0.02, 0.04, "contradicted"),
        (-0.03, -0.04, -0.02, "contradicted"),
        (0.0, -0.01, 0.01, "reproduced"),  # the margin itself belongs to it
    ],
)
def test_within_a_margin(estimate, low, high, word):
    assert verdict(Within(-0.01, 0.01), Interval(estimate, low, high)) == word


def test_at_least_differs_from_more_than_only_at_the_threshold():
    edge = Interval(0.99, 0.99, 1.0)
    assert verdict(Above(0.99, strict=False), edge) == "reproduced"
    assert verdict(Above(0.99), edge) == "inconclusive"


def test_two_sides_with_the_same_numbers_are_identical_whatever_is_claimed():
    nothing, one = Interval(0.0, 0.0, 0.0), Interval(1.0, 1.0, 1.0)
    for side in (Above(0.0), Above(0.0, strict=False), Within(-0.01, 0.01), Above(0.5)):
        assert verdict(side, nothing, same=0.0) == "identical"
    assert verdict(Within(0.9, 1.1), one, same=1.0) == "identical"
    assert verdict(Above(0.0, strict=False), one, same=0.0) == "reproduced"
    assert weakest(["identical", "reproduced"]) == "identical" == weakest(["direction", "identical"])


@given(intervals, st.floats(0, 1, allow_nan=False), st.booleans())
def test_a_shift_to_the_claimed_side_never_worsens_the_verdict(interval, shift, strict):
    shifted = Interval(interval.estimate + shift, interval.low + shift, interval.high + shift)
    side = Above(0.25, strict)
    assert RANK(verdict(side, shifted)) >= RANK(verdict(side, interval))


@given(intervals, st.floats(0, 1, allow_nan=False))
def test_a_wider_margin_never_worsens_the_verdict(interval, more):
    assert RANK(verdict(Within(-0.5 - more, 0.5 + more), interval)) >= RANK(
        verdict(Within(-0.5, 0.5), interval)
    )


@given(intervals, st.floats(0, 1, allow_nan=False))
def test_more_doubt_only_moves_towards_the_middle(interval, more):
    wider = Interval(interval.estimate, interval.low - more, interval.high + more)
    for side in (Above(0.0), Within(-0.5, 0.5)):
        before, after = verdict(side, interval), verdict(side, wider)
        allowed = {
            "reproduced": {"reproduced", "direction"},
            "contradicted": {"contradicted", "inconclusive"},
        }
        assert after in allowed.get(before, {before})


@given(intervals)
def test_a_margin_does_not_know_left_from_right(interval):
    mirrored = Interval(-interval.estimate, -interval.high, -interval.low)
    assert verdict(Within(-0.5, 0.5), interval) == verdict(Within(-0.5, 0.5), mirrored)


def test_comparisons_without_any_effect_contradict_a_claim_as_rarely_as_one_does():
    """Normal estimates of nothing: one of eight lies wholly below zero in 18% of cases, corrected in at most 2.5%."""
    rng, count, cases = np.random.default_rng(0), 8, 4000
    rates = {}
    for among in (1, count):
        found = [
            any(
                verdict(Above(0.0), Interval(x, x - 1.96, x + 1.96), among=among) == "contradicted"
                for x in row
            )
            for row in rng.normal(size=(cases, count))
        ]
        rates[among] = np.mean(found)
    assert rates[1] == pytest.approx(1 - 0.975**count, abs=0.02)
    assert rates[count] == pytest.approx(1 - (1 - 0.025 / count) ** count, abs=0.008)


@pytest.mark.parametrize(("among", "factor"), [(1, 1.0), (2, 2.241403 / 1.959964), (8, 2.734369 / 1.959964)])
def test_an_interval_is_widened_by_the_ratio_of_the_quantiles(among: int, factor: float) -> None:
    wide = widened(Interval(1.0, 0.5, 3.0), among)
    assert (wide.estimate, wide.low, wide.high) == pytest.approx(
        (1.0, 1 - 0.5 * factor, 1 + 2 * factor), rel=1e-5
    )
    with pytest.raises(ValueError, match="among: found 0, allowed: 1 or more"):
        widened(wide, 0)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("ratio", [False, True])
def test_few_seeds_contradict_as_rarely_as_many(seeds: int, ratio: bool) -> None:
    """Eight comparisons without any effect: with the normal quantiles 7% of five seeds and 10% of three would contradict."""
    rng, count, cases = np.random.default_rng(1), 8, 600
    pair, bound = (seeds_ratio, 1.0) if ratio else (seeds_difference, 0.0)
    found = [
        any(pair(row, bound, count).verdict == "contradicted" for row in rows)
        for rows in rng.normal(size=(cases, count, seeds))
    ]
    assert np.mean(found) == pytest.approx(0.025, abs=0.015)


def seeds_difference(values: np.ndarray, bound: float, among: int) -> Comparison:
    """The comparison of a sample with zeros."""
    ones = Sample("b", dict.fromkeys(range(len(values)), 0.0), ())
    found = difference("a", Sample("a", dict(enumerate(values)), ()), ones, Above(bound))
    assert found is not None
    return replace(found, among=among)


def seeds_ratio(values: np.ndarray, bound: float, among: int) -> Comparison:
    """The comparison of the exponentials of a sample with ones."""
    ones = Sample("b", dict.fromkeys(range(len(values)), 1.0), ())
    found = ratio_of("a", Sample("a", dict(enumerate(np.exp(values))), ()), ones, Above(bound))
    assert found is not None
    return replace(found, among=among)


def test_arms_of_a_ratio_are_widened_in_its_logarithm_and_may_leave_the_range_of_numbers() -> None:
    wide = widened(Interval(4.0, 2.0, 8.0, 4), 8, ratio=True)
    assert (4.0 / wide.low, wide.high / 4.0) == pytest.approx((2.0**1.89, 2.0**1.89), rel=0.005)
    for low, high in ((0.0, np.inf), (1e-100, 1e100)):
        wide = widened(Interval(1.0, low, high, 1), 8, ratio=True)
        assert (wide.low, wide.high) == (0.0, np.inf)


@pytest.mark.parametrize("successes", [0, 1, 7, 20])
def test_a_share_is_widened_to_its_exact_interval(successes: int) -> None:
    """The normal quantiles would end at 23.5% for none of 20 at eight comparisons, the exact interval at 25.1%."""
    wide = widened(clustered_share([1.0] * successes + [0.0] * (20 - successes), range(20)), 8)
    exact = clopper_pearson(successes, 20, 1 - 0.05 / 8)
    assert (wide.estimate, wide.low, wide.high) == pytest.approx(
        (exact.estimate, exact.low, exact.high), abs=1e-12
    )


def test_a_share_is_widened_with_the_least_width_of_its_clusters() -> None:
    """One failure of 15 in five clusters: at 4 comparisons the lower end is that of five successes of five at this confidence."""
    share = clustered_share([1.0] * 14 + [0.0], np.repeat(range(5), 3).tolist())
    assert widened(share, 4).low == min(
        clopper_pearson(5, 5, 1 - 0.05 / 4).low,
        clopper_pearson(share.estimate * share.trials, share.trials, 1 - 0.05 / 4).low,
    )


def test_a_share_with_a_lone_failure_is_not_narrowed_to_the_interval_of_independent_trials() -> None:
    shares, targets = [1.0] * 59 + [0.0], [place // 20 for place in range(60)]
    alone = clustered_share(shares, targets)
    assert alone.low == clopper_pearson(3, 3).low  # three targets, however many trials
    wide = widened(alone, 2)
    assert wide.low <= alone.low and wide.high >= alone.high
    mirrored = widened(clustered_share([1 - one for one in shares], targets), 2)
    assert mirrored.high >= 1 - alone.low and mirrored.low <= 1 - alone.high


def test_a_ratio_is_judged_by_the_arms_of_its_logarithm() -> None:
    """Of two comparisons the arm grows by 14%: from 1.3 to 1.11 as a ratio, and to 0.91 if it were a difference."""
    ends = Interval(4.0, 1.3, 12.3)
    assert verdict(Below(1.0), ends, same=1.0, among=2) == "contradicted"
    assert verdict(Below(1.0), ends, same=0.0, among=2) == "inconclusive"


@given(intervals, st.integers(1, 40))
def test_more_comparisons_only_turn_contradicted_into_inconclusive(interval, among):
    alone, one_of_many = (verdict(Above(0.1), interval, among=count) for count in (1, among))
    assert one_of_many == alone or (alone, one_of_many) == ("contradicted", "inconclusive")


def test_one_of_several_comparisons_must_miss_by_more_and_one_set_aside_does_not_count() -> None:
    near, good = of("A: best", -0.41, -0.01), of("B: best", 0.1, 0.3)
    assert judged(near, weak="none")["verdict"] == "contradicted"
    both = judged(near, good, weak="none")
    assert both["verdict"] == both["parts"][0].verdict == "inconclusive" and both["main"].name == "A: best"
    assert [part.spared for part in both["parts"]] == [True, False]
    assert not judged(near, weak="none")["main"].spared
    assert judged(near, good, weak="B")["verdict"] == "contradicted"
    assert judged(near, replace(good, decides=False), weak="none")["verdict"] == "contradicted"


def test_seeds_added_to_an_undecided_claim_cost_both_ends() -> None:
    """Without an effect, 5 and, where they do not decide, 16 more seeds are decided in 9.5% of cases, corrected for both looks in 5%."""
    one = part([0.3, 0.1, 0.2, 0.4])
    (twice,) = judge(Finding([one]), lambda _: [], 2)["parts"]
    assert twice.interval == widened(one.interval, 2) and "2 looks" in twice.notes[-1]
    assert (
        judge(Finding([replace(one, decides=False), one]), lambda _: [], 2)["parts"][0].interval
        == one.interval
    )
    rng, decided = np.random.default_rng(5), {1: 0, 2: 0}
    for values in rng.normal(size=(3000, 21)):
        for looks in decided:
            ends = []
            for count in (5, 21):
                sides = [
                    Sample(side, dict(enumerate(on)), ())
                    for side, on in (("a", values[:count]), ("b", [0.0] * count))
                ]
                both = difference("d", *sides, Above(0.0))
                assert both is not None
                ends.append(both.looked_at(looks).verdict)
            decided[looks] += any(word in ("reproduced", "contradicted") for word in ends)
    assert decided[1] / 3000 > 0.075 and decided[2] / 3000 < 0.055


def test_an_exact_statement_whose_cases_are_all_vacuous_is_missing() -> None:
    idle, good = (Exact(name, cases, 0, cases > 0, ()) for name, cases in (("idle", 0), ("good", 3)))
    found = judge(Finding([idle, good]), lambda _: [])
    assert (found["verdict"], found["missing"]) == ("partial", ("idle: every case is vacuous",))
    assert judge(Finding([idle]), lambda _: [])["verdict"] == "not_run"
    assert (
        judge(Finding([replace(idle, failures=1)]), lambda _: [])["verdict"] == "contradicted"
    )  # no row at all


@given(st.lists(st.sampled_from(ORDER), min_size=1))
def test_a_claim_is_as_good_as_its_weakest_comparison(words):
    worst = weakest(words)
    assert worst in words and all(RANK(worst) <= RANK(word) for word in words)


def pairs(victims: int, targets: int) -> list[tuple[str, int]]:
    return [(f"v{victim}", target) for victim in range(victims) for target in range(targets)]


def test_twenty_targets_on_four_good_victims_suffice():
    assert shortcomings(pairs(4, 20), {f"v{i}": 0.6 for i in range(4)}) == []


def test_each_shortcoming_is_named():
    good = {f"v{i}": 0.9 for i in range(8)}
    assert shortcomings(pairs(8, 19), good) == ["19 targets, needs 20"]
    assert shortcomings(pairs(3, 40), good) == ["3 victims, needs 4"]
    assert shortcomings(pairs(2, 40), good, victims_needed=2) == []
    few = shortcomings(pairs(2, 20), good, victims_needed=2)
    assert few == ["40 pairs of target and victim, needs 80"]
    assert shortcomings(pairs(4, 20) * 3, good) == []
    weak = shortcomings(pairs(4, 20), good | {"v1": 0.594})
    assert weak == ["v1 at 59.4% accuracy, needs 60%"]
    assert shortcomings(pairs(4, 20), {**good, "v2": None}) == ["accuracy of v2 not measured"]


def test_repeated_seeds_do_not_stand_in_for_targets():
    assert shortcomings(pairs(4, 10) * 2, {f"v{i}": 0.9 for i in range(4)}) != []


def of(name: str, low: float, high: float) -> Comparison:
    return replace(part([0.1, 0.2, 0.3]), name=name, interval=Interval((low + high) / 2, low, high))


def judged(*parts: Comparison, weak: str) -> dict[str, Any]:
    return judge(Finding(parts), lambda one: ["1 seed, needs 3"] if one.name.startswith(weak) else [])


@pytest.mark.parametrize(("low", "word"), [(0.1, "reproduced"), (-0.1, "direction"), (-0.5, "contradicted")])
def test_a_network_without_power_counts_as_one_that_was_not_run(low: float, word: str) -> None:
    """The other network decides, provisionally, however the weak one did."""
    for weak in (of("B: best", -0.3, -0.1), of("B: best", 0.1, 0.3)):
        found = judged(of("A: best", low, low + 0.3), of("A: first", 0.1, 0.2), weak, weak="B")
        assert (found["verdict"], found["missing"]) == (word, ("B: 1 seed, needs 3",))
        assert found["main"].name.startswith("A") and not found["reasons"]


def test_all_comparisons_of_a_network_need_power_and_so_do_all_that_name_no_network() -> None:
    both = judged(of("A: best", 0.1, 0.2), of("A: first", 0.1, 0.2), weak="A: first")
    assert (both["verdict"], both["missing"]) == ("underpowered", ())
    unnamed = judged(of("deep - shallow", 0.1, 0.2), of("B: best", 0.1, 0.2), weak="B")
    assert (unnamed["verdict"], unnamed["numbers_say"]) == ("underpowered", "reproduced")
    assert judged(of("A: best", 0.1, 0.2), of("B: best", 0.1, 0.2), weak="C")["missing"] == ()


@pytest.mark.parametrize(("count", "plain"), [(2, 0.046), (6, 0.1)])
def test_a_side_chosen_as_the_best_of_several_is_as_rarely_ahead_as_one(count: int, plain: float) -> None:
    """Equal methods, 25 seeds: the claim's own side, the best of several by the same runs, is falsely ahead as often as ``plain`` says."""
    rng, rates = np.random.default_rng(7), {1: 0.0, count: 0.0}
    for one, *several in rng.normal(size=(4000, 1 + count, 25)):
        best, other = (Sample("a", dict(enumerate(side)), ()) for side in (max(several, key=np.mean), one))
        for own in rates:
            part = difference("d", best, other, Above(0.0), own=own)
            assert part is not None
            rates[own] += (part.verdict == "reproduced") / 4000
    assert rates[count] <= 0.029 and rates[1] == pytest.approx(plain, abs=0.012)


@pytest.mark.parametrize(("count", "plain"), [(3, 0.061), (6, 0.1)])
def test_a_rival_chosen_as_the_best_of_several_contradicts_as_rarely_as_one(count: int, plain: float) -> None:
    rng, rates = np.random.default_rng(8), {1: 0.0, count: 0.0}
    for one, *several in rng.normal(size=(4000, 1 + count, 25)):
        best, other = (Sample("a", dict(enumerate(side)), ()) for side in (max(several, key=np.mean), one))
        for among in rates:
            part = difference("d", other, best, Above(0.0), among=among)
            assert part is not None
            rates[among] += (part.verdict == "contradicted") / 4000
    assert rates[count] <= 0.029 and rates[1] == pytest.approx(plain, abs=0.012)


def test_a_choice_of_the_own_side_moves_only_the_end_that_decides() -> None:
    ones = Sample("a", {0: 0.1, 1: 0.3, 2: 0.2}, ())
    none = Sample("b", dict.fromkeys(range(3), 0.0), ())
    plain, best = (difference("d", ones, none, Above(0.0), own=own) for own in (1, 4))
    turned = difference("d", none, ones, Below(0.0), own=4)
    assert plain is not None and best is not None and turned is not None
    assert best.interval.high == plain.interval.high
    assert best.interval.low == widened(plain.interval, 4).low < plain.interval.low
    assert best.notes == ("lower end corrected: the claim's own side is the best of 4 by these runs",)
    assert (turned.interval.low, turned.interval.high) == (-best.interval.high, -best.interval.low)
    assert turned.notes[0].startswith("upper end corrected")
