"""The designs: every trained claim has one, its keys exist, the scale follows it, and a fault is one line."""

import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

from relearn.params.places import place
from relearn.params.reading import ParamsError
from relearn.report import claims, design_formats, designs, power, statistics, verdicts
from relearn.report.comparisons import Units
from relearn.report.designs import Design
from relearn.report.statistics import Interval
from relearn.report.verdicts import Above
from relearn.studies import parameters
from relearn.studies.study import all_studies

from .test_undecided import DESIGN, claim, part

ROOT = Path(__file__).parents[2]
FOLDERS = {study.name: study.reported for study in all_studies()}


@cache
def every() -> dict[str, dict[str, Design]]:
    return designs.load(FOLDERS)


@cache
def in_force(scale: str) -> dict[str, Any]:
    return parameters.load(ROOT / "params.yaml", scale)


def test_every_trained_claim_has_a_design_and_nothing_else_has() -> None:
    trained = {
        (study, name)
        for study, entries in claims.load(FOLDERS).items()
        for name, entry in entries.items()
        if entry["kind"] == "trained"
    }
    assert {(study, name) for study, found in every().items() for name in found} == trained


def test_the_keys_of_every_design_exist_and_its_scale_follows_it() -> None:
    for found in every().values():
        for design in found.values():
            assert design.scale == "small"
            assert design_formats.deviations(design, in_force("small")) == []  # KeyError: no such key
            assert design.vary in place(design.vary, ROOT / "params.yaml", "small")


def test_a_design_has_a_width_or_says_why_not() -> None:
    for found in every().values():
        for design in found.values():
            known = any(designs.planned_half_width(one, design.n) is not None for one in design.measures)
            assert known or design.undecidable or design.needs or design.n < 4, design.claim
            assert all(one.pilot or one.sd is None for one in design.measures)


def test_a_setting_that_is_not_the_designs_is_named() -> None:
    design = every()["gradinit"]["best_accuracy"]
    found = design_formats.deviations(design, in_force("mini"))
    assert "gradinit.seeds: [0], designed [0, 1, 2, 3]" in found
    with pytest.raises(KeyError, match=r"gradinit\.seed"):
        design_formats.value_at(in_force("mini"), "gradinit.seed")


def test_the_planned_half_width_is_students_or_the_exact_one_of_a_share() -> None:
    mean = designs.Measure("s", claimed=1.0, sd=2.0, pilot="p")
    assert designs.planned_half_width(mean, 5) == pytest.approx(stats.t.ppf(0.975, 4) * 2 / math.sqrt(5))
    share = designs.Measure("s", claimed=1.0, trials=4)
    planned = (1 - 0.025 ** (1 / 18)) / 2  # all outcomes agree, so each of the 18 units counts once
    ends = statistics.clustered_share([1.0] * 18, list(range(18)), 4)
    assert designs.planned_half_width(share, 18) == pytest.approx(planned)
    assert (ends.high - ends.low) / 2 == pytest.approx(planned)
    assert designs.planned_half_width(mean, 1) is None
    more = replace(mean, n=16)
    assert designs.planned_half_width(more, 5) == designs.planned_half_width(mean, 16)
    assert designs.planned_half_width(designs.Measure("s", claimed=1.0), 5) is None


def test_the_planned_half_width_counts_the_candidates_of_the_claims_own_side() -> None:
    """As the verdict does: one end of the interval of the same mean and spread is corrected for them."""
    values = np.random.default_rng(0).normal(size=6)
    measure = designs.Measure("s", claimed=0.0, sd=float(np.std(values, ddof=1)))
    plain = statistics.student_mean(values.tolist())
    corrected = verdicts.widened(plain, 4)
    assert designs.planned_half_width(measure, 6, 4) == pytest.approx((corrected.high - plain.low) / 2)
    assert designs.planned_half_width(measure, 6) == pytest.approx((plain.high - plain.low) / 2)


def test_no_share_is_planned_narrower_than_the_verdict_makes_it() -> None:
    """Fifty targets of four victims, two of whose attacks fail: the verdict counts no more than fifty successes of fifty."""
    share = designs.Measure("s", claimed=0.99, trials=4)
    verdict = statistics.clustered_share([1.0] * 192 + [0.0, 1.0] * 4, [*range(50)] * 4)
    for n, enough in ((50, False), (122, True)):
        outcomes = np.random.default_rng(0).binomial(1, 0.99, (300, n * 4))
        ends = [statistics.clustered_share(list(one), [*range(n)] * 4) for one in outcomes]
        planned = designs.planned_half_width(share, n)
        assert planned == pytest.approx(np.median([(one.high - one.low) / 2 for one in ends]), rel=0.1)
        # 0.97 is the bound
        assert (
            any(one.low >= 0.97 for one in ends) == enough == (n >= power.units_without_exception(0.99, 0.97))
        )
    old = statistics.clopper_pearson(198, 200)
    assert (old.high - old.low) / 2 < 0.02 < (verdict.high - verdict.low) / 2
    low = designs.Measure("s", claimed=0.01, trials=4)
    assert designs.planned_half_width(low, 50) == pytest.approx(designs.planned_half_width(share, 50))


def test_too_few_units_for_a_share_are_said_to_be_hardly_enough() -> None:
    (measure,) = every()["poisoning"]["knn_removes_poisons"].measures
    outcomes = replace(
        part([0.99], Above(0.97, strict=False)),
        name="feature_collision",
        units=Units("targets", (0.99,) * 50, "share", trials=200.0),
    )
    for n, hardly in ((50, True), (100, True), (122, False)):
        design = replace(DESIGN, measures=(measure,), n=n)
        (line,) = [
            one for one in design_formats.lines(design, claim(outcomes), {"study": {}}) if "planned" in one
        ]
        assert ("hardly enough to decide" in line) == hardly, line


def test_the_planned_half_width_of_a_median_is_that_of_simulated_medians() -> None:
    """1.96 standard deviations of the median of 200 normal values with standard deviation 2."""
    measure = designs.Measure("s", claimed=1.0, sd=2.0, pilot="p", median=True)
    medians = np.median(np.random.default_rng(0).normal(0, 2, (20_000, 200)), axis=1)
    planned = designs.planned_half_width(measure, 200)
    assert planned == pytest.approx(1.96 * medians.std(), rel=0.02)
    mean = designs.planned_half_width(replace(measure, median=False), 200)
    assert mean != pytest.approx(1.96 * medians.std(), rel=0.15)


GOOD = {
    "compares": "a minus b",
    "chosen": "nothing",
    "unit": "seeds",
    "n": 4,
    "vary": "gradinit.seeds",
    "measures": [{"claimed": 0.1, "source": "table 1", "sd": 0.1, "pilot": "records"}],
    "settings": {"gradinit.seeds": [0]},
    "cost": {"cpu_h": 1.0, "from": "records"},
}


def written(folder: Path, **changes: Any) -> dict[str, Path]:
    entry = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    (folder / "designs.yaml").write_text(yaml.safe_dump({"scale": "small", "one": entry}))
    return {"study": folder}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    design = designs.load(written(tmp_path, needs=["more"]))["study"]["one"]
    assert (design.claim, design.n, design.needs, design.cost_cpu_h) == ("one", 4, ("more",), 1.0)
    assert design.measure("any", "nats") is design.measures[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n": None}, r"one\.n: missing, allowed: compares"),
        ({"n": 0}, r"one\.n: found 0, allowed: a whole number above 0"),
        ({"looks": 0}, r"one\.looks: found 0, allowed: a whole number above 0"),
        ({"unit": "epochs"}, r"one\.unit: found epochs, allowed: seeds, targets"),
        ({"more": 1}, r"one\.more: unknown, allowed: compares"),
        ({"measures": []}, r"one\.measures: found none"),
        ({"measures": [{"sd": 1.0}]}, r"one\.measures\[0\]\.source: missing"),
        (
            {"measures": [{"source": "x", "sd": 0.0}]},
            r"measures\[0\]\.sd: found 0\.0, allowed: a number above 0",
        ),
        ({"measures": [{"source": "x", "sd": 1.0}]}, r"measures\[0\]\.pilot: missing, allowed: the records"),
        ({"settings": ["x"]}, r"one\.settings: found \['x'\], allowed: key paths"),
        ({"cost": {"cpu_h": 1.0}}, r"one\.cost\.from: missing"),
    ],
)
def test_a_fault_is_one_line_with_its_key(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        designs.load(written(tmp_path, **changes))
    assert "\n" not in str(error.value) and "designs.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("key", "scale", "where"),
    [
        ("gradinit.seeds", "mini", r"params\.yaml:\d+ \(gradinit\.seeds\)"),
        ("gradinit.seeds", "small", r"params/small\.yaml:\d+ \(gradinit\.seeds\)"),
        (
            "poisoning.seeds",
            "small",
            r"params/small\.yaml:\d+ \(add poisoning\.seeds, which params\.yaml:\d+ sets\)",
        ),
    ],
)
def test_the_line_that_sets_a_key(key: str, scale: str, where: str) -> None:
    found = place(key, ROOT / "params.yaml", scale)
    assert re.fullmatch(where, found)
    file, _, line = found.partition(" (")[0].rpartition(":")
    wanted = key.split(".")[0 if "add" in found else -1]
    assert f"{wanted}:" in (ROOT / file).read_text().splitlines()[int(line) - 1]


def test_an_unknown_key_has_no_line() -> None:
    with pytest.raises(ParamsError, match=r"gradinit\.seed: unknown"):
        place("gradinit.seed", ROOT / "params.yaml")


def test_the_report_says_design_widths_and_what_deviates() -> None:
    found = claim(part([0.0, 0.2, -0.1, 0.1]))
    values = {"scale": "small", "study": {"seeds": [0]}}
    design = replace(
        DESIGN, settings={"study.seeds": [0, 1]}, needs=("a pilot",), changed=("today: a. Before, b.",)
    )
    lines = design_formats.lines(design, found, values)
    planned = stats.t.ppf(0.975, 3) * 0.2 / 2
    assert lines[0] == "design: a minus b 4 seeds, 1 CPU h (records)"
    assert (
        f"half-width of a - b: planned {100 * planned:.3g} points (wider than the distance from the claimed value "
        "to the bound: hardly enough to decide); achieved 20.5 points" in lines
    )
    assert "deviates from the design: study.seeds: [0], designed [0, 1]" in lines
    assert lines[-2:] == [
        "rule changed after runs had been seen: today: a. Before, b.",
        "the design needs: a pilot",
    ]
    alone = " ".join(design_formats.lines(design, claim(part([0.1])), values))
    assert "achieved not known" in alone and "not known points" not in alone
    counted = replace(part([0.1]), units=None, interval=Interval(0.1, 0.1, 0.1))
    assert "half-width" not in " ".join(design_formats.lines(design, claim(counted), values))
    plain = design_formats.to_dict(design, found, values)
    assert plain["half_widths"] == [
        {
            "comparison": "a - b",
            "planned": pytest.approx(planned),
            "achieved": pytest.approx(0.2054, abs=1e-3),
        }
    ]
