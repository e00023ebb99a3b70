"""What a comparison calls noise: intervals of differences against scipy and by hand, and every kind of change once."""

import csv
import io
import math
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from relearn.report import changes, changes_formats
from relearn.report.changed_settings import Setting
from relearn.report.changes import Change, Side
from relearn.report.statistics import wilson

KEY = ("t", "row", "column")


def cell(mean: float | None, **more: Any) -> dict[str, str]:
    status = "not_run" if mean is None else "measured"
    line = {"mean": mean, "unit": "fraction", "status": status, "members_count": 1, **more}
    return {key: "" if value is None else str(value) for key, value in line.items()}


def side(claims: Any = (), members: dict[str, float] | None = None, **one: Any) -> Side:
    judged = {("study", claim["id"]): claim for claim in claims}
    cells = {KEY: one["cell"]} if "cell" in one else {}
    return Side("x", "mini", judged, cells, {KEY: members} if members else {})


def claim(
    verdict: str = "reproduced", effect: float | None = 0.5, half: float | None = 0.1, **more: Any
) -> Any:
    ends = (
        {"low": None, "high": None}
        if half is None or effect is None
        else {"low": effect - half, "high": effect + half}
    )
    return {
        "id": "c",
        "verdict": verdict,
        "effect": effect,
        "unit": "nats",
        "method": "m",
        "n": {"seeds": 3},
        **ends,
        **more,
    }


def only(before: Side, after: Side) -> Change:
    (one,) = changes.compare(before, after)
    return one


def test_the_interval_of_two_shares_is_newcombes() -> None:
    """Newcombe 1998, table II, method 10: 56 of 70 against 48 of 80, difference 0.2 [0.0524, 0.3339]."""
    first, second = wilson(48, 80), wilson(56, 70)
    lines = [
        cell(i.estimate, pooled=i.estimate, pooled_low=i.low, pooled_high=i.high) for i in (first, second)
    ]
    one = only(side(cell=lines[0]), side(cell=lines[1]))
    assert one.interval is not None and one.kind == "beyond noise"
    assert (round(one.interval.low, 4), round(one.interval.high, 4)) == (0.0524, 0.3339)


def test_the_same_members_are_paired() -> None:
    was, now = {"a": 0.1, "b": 0.5, "c": 0.9}, {"a": 0.15, "b": 0.54, "c": 0.96}
    one = only(side(members=was, cell=cell(0.5)), side(members=now, cell=cell(0.55)))
    low, high = stats.ttest_rel([*now.values()], [*was.values()]).confidence_interval()
    assert one.interval is not None
    assert (one.interval.low, one.interval.high) == pytest.approx((low, high))
    assert one.kind == "beyond noise"  # though the members themselves differ by far more


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_other_members_have_welchs_interval(first: list[float], second: list[float]) -> None:
    was = {f"a{i}": value for i, value in enumerate(first)}
    now = {f"b{i}": value for i, value in enumerate(second)}
    found = changes._over_members(was, now)
    assert found is not None
    assert found.low <= found.estimate <= found.high
    if min(np.ptp(first), np.ptp(second)) < 1e-3:  # scipy loses its digits
        return
    expected = stats.ttest_ind(second, first, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-6, abs=1e-9)


def test_differences_whose_squares_underflow_have_an_interval() -> None:
    found = changes._over_members({"a": 0.0, "b": 0.0}, {"c": 0.0, "d": 2.4e-113})
    assert found is not None and found.low < found.estimate < found.high < 1e-100


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 2), st.floats(0.01, 2))
def test_symmetric_intervals_add_in_squares(a: float, b: float, half_a: float, half_b: float) -> None:
    one = only(side([claim(effect=a, half=half_a)]), side([claim(effect=b, half=half_b)]))
    assert one.interval is not None
    half = math.hypot(half_a, half_b)
    assert (one.interval.low, one.interval.high) == pytest.approx((b - a - half, b - a + half), abs=1e-9)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (side([claim()]), side([claim("direction")]), "verdict"),
        (side([claim()]), side([claim(provisional=True)]), "verdict"),
        (side([claim()]), side([claim(effect=0.7)]), "beyond noise"),
        (side([claim()]), side([claim(effect=0.6)]), "within noise"),
        (side([claim()]), side([claim()]), "identical"),
        (side([claim()]), side([claim(effect=0.6, half=None)]), "no spread"),
        (side([claim()]), side([claim(effect=0.6, unit="bits")]), "no spread"),
        (
            side([claim(half=None, method="exact")]),
            side([claim(effect=0.6, half=None, method="exact")]),
            "beyond noise",
        ),
        (side(), side([claim()]), "appeared"),
        (side([claim()]), side(), "vanished"),
        (side(cell=cell(0.5)), side(cell=cell(0.5)), "identical"),
        (side(cell=cell(0.5)), side(cell=cell(0.6)), "no spread"),
        (side(cell=cell(None)), side(cell=cell(0.6)), "appeared"),
        (side(cell=cell(0.5)), side(), "vanished"),
    ],
)
def test_every_kind_of_change(before: Side, after: Side, kind: str) -> None:
    assert only(before, after).kind == kind


def test_effects_in_different_units_are_not_subtracted() -> None:
    found = only(side([claim(unit="ratio")]), side([claim("direction", 0.01, unit="fraction")]))
    assert (found.kind, found.difference, found.interval) == ("verdict", None, None)


def test_what_neither_side_has_measured_is_no_change() -> None:
    assert changes.compare(side(cell=cell(None)), side(cell=cell(None))) == []


def test_noise_alone_is_beyond_its_interval_once_in_twenty() -> None:
    """Seeds of one distribution on both sides: the share of false alarms is 5%, within what 2,000 draws allow."""
    draws = np.random.default_rng(0).normal(size=(2000, 2, 4))
    alarms = 0
    for was, now in draws:
        found = changes._over_members(dict(enumerate(was)), {f"n{i}": value for i, value in enumerate(now)})
        alarms += not found.low <= 0 <= found.high
    assert 0.03 < alarms / 2000 < 0.065


BEFORE, AFTER = side([claim()], cell=cell(0.5)), side([claim("direction", 0.7)], cell=cell(0.25))
SETTINGS = [Setting("poisoning filter", "k", "50", "60", 16)]


def test_the_terminal_says_counts_settings_and_verdicts_within_its_width() -> None:
    found = changes.compare(BEFORE, AFTER)
    text = changes_formats.terminal(BEFORE, AFTER, found, SETTINGS, 80)
    assert "1 claim: 1 with another verdict." in text and "poisoning filter: k 50 → 60 (16 runs)" in text
    assert "claim study/c  reproduced 0.5  direction 0.7  +0.2 [+0.05858, +0.3414]" in text
    assert "t row, column" not in text  # a change without a spread is counted alone
    everything = changes_formats.terminal(BEFORE, AFTER, found, [], 80, everything=True)
    assert "t row, column  50.0% (1)  25.0% (1)  -25.0%" in everything
    long = [Change("claim", "name" * 40, "verdict", "", 1.0, 2.0, words=("a" * 60, "b" * 60))]
    text = changes_formats.terminal(BEFORE, AFTER, long, [], 110)
    assert max(map(len, text.splitlines())) <= 110 and text.count("b") > 60  # nothing is cut


def test_an_exact_claim_shows_its_cases_and_a_check_is_counted_apart() -> None:
    exact: dict[str, Any] = {"kind": "check", "unit": "fraction of cases that fail", "n": {"cases": 4}}
    before, after = side([claim(effect=0.0, **exact)]), side([claim("contradicted", 0.25, **exact)])
    text = changes_formats.terminal(before, after, changes.compare(before, after), [], 110)
    assert "0 claims: none.\n1 check: 1 with another verdict.\n" in text
    assert "check study/c  holds 4 of 4 cases hold  fails 3 of 4 cases hold\n" in text


def test_the_file_holds_everything_in_full_precision() -> None:
    found = changes.compare(side([claim(effect=1 / 3)]), side([claim(effect=2 / 3)]))
    (line,) = csv.DictReader(io.StringIO(changes_formats.as_csv(found)))
    assert float(line["difference"]) == 2 / 3 - 1 / 3 and line["change"] == "beyond noise"
    assert float(line["low"]) == pytest.approx(1 / 3 - math.hypot(0.1, 0.1)) and line["n_before"] == "3 seeds"


def test_the_part_of_a_page_is_sound_and_escaped() -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    odd = Side("a<b", "mini", {}, {})
    text = changes_formats.fragment(odd, AFTER, changes.compare(BEFORE, AFTER), SETTINGS)
    parser = Tags()
    parser.feed(text)
    assert not parser.open and "a&lt;b" in text and "<style" not in text
    assert '<div class="wide"><table>' in text and "direction 0.7" in text


def test_the_page_of_a_comparison_is_a_table_that_markdown_reads() -> None:
    text = changes_formats.markdown(BEFORE, AFTER, changes.compare(BEFORE, AFTER), SETTINGS)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3 and {line.count("|") for line in rows} == {6}
