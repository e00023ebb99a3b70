"""What would decide a claim: units, costs and the line to change, from the units behind its comparisons."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from relearn.report import (
    cases,
    claim_cost,
    claims_formats,
    outdated,
    power,
    undecided,
    undecided_formats,
    verdicts,
)
from relearn.report.claims import LOCAL, Claim, judge
from relearn.report.comparisons import Comparison, Finding, Units
from relearn.report.designs import Design, Measure
from relearn.report.runs import Run
from relearn.report.seeds import Sample, difference, level
from relearn.report.statistics import Interval, clopper_pearson, student_mean
from relearn.report.verdicts import Above, Below, Within

DESIGN = Design(
    claim="one",
    scale="small",
    compares="a minus b",
    chosen="nothing",
    unit="seeds",
    n=4,
    vary="study.seeds",
    measures=(Measure("table 1", claimed=0.1, sd=0.2, pilot="a pilot"),),
    settings={},
    cost_cpu_h=1.0,
    cost_from="records",
)


ABOVE = Above(0.0)


def run(folder: str, cpu: float, *inputs: str, rows: list[dict[str, Any]] | None = None) -> Run:
    kept = {"step": folder.split("/")[2] if "/" in folder else folder, "settings": {"steps": 5}}
    read = {"data": [{"path": f"results/mini/{one}/data.safetensors"} for one in inputs]}
    outputs = {"trials.csv": {}} if rows is not None else {}
    made = Run({"cost": {"cpu_s": cpu, "device_s": None}, "inputs": read, "outputs": outputs, **kept}, folder)
    made.__dict__["trials"] = rows or []
    return made


RUNS = [
    run("runs/s/prepare/seed0", 4.0),
    run("runs/s/train/a/seed0", 10.0, "runs/s/prepare/seed0"),
    run("runs/s/train/b/seed0", 20.0, "runs/s/prepare/seed0"),
    run("runs/s/other/seed0", 1000.0),
]
ANCESTRY = claim_cost.Ancestry(RUNS)


def part(values: list[float], claimed: Any = ABOVE, **more: Any) -> Comparison:
    one, other = (
        Sample(name, dict(enumerate(side)), tuple(f"runs/s/train/{name}/seed{k}" for k in range(len(side))))
        for name, side in (("a", values), ("b", [0.0] * len(values)))
    )
    found = difference("a - b", one, other, claimed)
    assert found is not None
    return replace(found, **more)


def claim(*parts: Comparison, **more: Any) -> Claim:
    fields: dict[str, Any] = {"section": "s", "id": "one", "kind": "trained", "source": "x", "says": "y"}
    fields |= {"predicate": "z", "verdict": "direction", "main": parts[0] if parts else None, "parts": parts}
    return Claim(**{**fields, **more})


def found(one: Claim, design: Design | None = DESIGN) -> undecided.Undecided:
    answer = undecided.assess(one, design, ANCESTRY, lambda key: f"params.yaml:7 ({key})")
    assert answer is not None
    return answer


def test_a_mean_with_its_own_spread() -> None:
    values = [0.0, 0.2, -0.1, 0.1]
    one = found(claim(part(values)))
    spread = math.sqrt(sum((v - 0.05) ** 2 for v in values) / 3)
    assert one.needs[0].sd == pytest.approx(spread) and one.needs[0].sd_from == "these records, 4 seeds"
    assert one.need == power.units_for_mean(0.1, spread)
    assert (one.have, one.place) == (4, "params.yaml:7 (study.seeds)")


def test_with_a_single_seed_the_pilots_spread_counts() -> None:
    one = found(claim(part([0.3]), verdict="underpowered", reasons=("1 seed, needs 3",)))
    assert (one.needs[0].sd, one.needs[0].sd_from) == (0.2, "a pilot")
    assert one.need == power.units_for_mean(0.1, 0.2) and one.blocked == ()
    # runs of seed 0 and what they read, once: 34 seconds a seed; the power is that of a new sample, and so is the cost
    assert one.need is not None and one.cpu_s == pytest.approx(one.need * 34.0)
    assert one.gpu_s == pytest.approx(one.cpu_s / undecided.GPU_RATIO)


def test_without_spread_effect_or_predicate_the_reason_is_given() -> None:
    bare = replace(DESIGN, measures=(Measure("table 1", claimed=0.1),))
    assert found(claim(part([0.3])), bare).needs[0].why.startswith("no spread is known: a single seed")
    assert "states an effect" in found(claim(part([0.3])), None).needs[0].why
    maximum = part([0.3], Within(1.0, 2.0), units=None, method="argmax over k")
    assert "position of a maximum" in found(claim(maximum)).needs[0].why
    keys = tuple((victim, 0, target) for victim in "abcd" for target in range(50))
    over_targets = found(claim(replace(maximum, keys=keys, over="targets")))
    assert (over_targets.unit, over_targets.have, len(keys)) == ("targets", 50, 200)


def test_several_comparisons_are_counted_together_and_those_that_hold_too() -> None:
    values = [0.0, 0.2, -0.1, 0.1]
    alone, open_, holds = found(claim(part(values))), part(values), part([v + 0.22 for v in values])
    spread = alone.needs[0].sd
    assert spread is not None and (open_.verdict, holds.verdict) == ("direction", "reproduced")
    one = found(claim(open_, holds, replace(open_, decides=False), replace(open_, units=None)))
    assert [need.need for need in one.needs] == [alone.need]  # the line of a comparison is for it alone
    assert (one.required, one.comparisons) == (2, "both comparisons together (1 holds already)")
    assert one.need is not None and alone.need is not None
    chances = [power.of_mean(n, 0.1, spread) for n in (alone.need, one.need - 1, one.need)]
    assert 2 * chances[0] - 1 < power.POWER and 2 * chances[1] - 1 < power.POWER <= 2 * chances[2] - 1
    assert undecided_formats.headline(one).startswith(
        f"{one.need} seeds would decide both comparisons together (1 holds already) with at least 80% power if the true effects were the "
        f"claimed ones, 4 are available; {one.need} new seeds, for which this power holds, cost "
    )
    far = part(
        [v + 0.5 for v in values]
    )  # its interval excludes the claimed 0.1: it would not be the one to fail
    assert far.verdict == "reproduced" and found(claim(open_, far)).need == alone.need
    three = found(claim(open_, holds, far))
    assert three.comparisons == (
        "2 of the 3 comparisons together (1 holds already; the other exceeds the claimed effect)"
    )
    little = part(
        [0.010, 0.012, 0.014, 0.012]
    )  # it holds, too, but with less than the claimed effect: it counts
    assert little.verdict == "reproduced" and found(claim(open_, little)).required == 2
    unknown = part(values, name="of another kind", unit="nats")
    points = replace(DESIGN, measures=(replace(DESIGN.measures[0], unit="fraction"),))
    assert found(claim(open_, unknown), points).need is None
    assert found(claim(open_, replace(unknown, interval=Interval(1.0, 0.9, 1.1))), points).need == alone.need


def test_a_comparison_that_lacks_power_is_set_aside_unless_no_other_decides() -> None:
    parts, lacking = (part([0.0, 0.2, -0.1, 0.1]), part([0.3])), ((), ("at chance level",))
    for verdict, have in (("direction", [4]), ("underpowered", [4, 1])):
        one = found(claim(*parts, lacking=lacking, verdict=verdict))
        assert [need.have for need in one.needs] == have


def test_several_shares_are_counted_together() -> None:
    units = Units("targets", (0.5, 1.0) * 10, "share", trials=80.0, effective=20.0)
    share = part(
        [0.3], Above(0.9, strict=False), unit="fraction", units=units, interval=Interval(0.75, 0.5, 1.0)
    )
    near = replace(DESIGN, measures=(Measure("text", claimed=0.96),))
    one, three = found(claim(share), near), found(claim(share, share, share), near)
    assert one.need is not None and three.need is not None and one.need < three.need
    # one independent outcome per target; exact binomial chances of the outcomes that reach the bound
    counts = np.random.default_rng(1).binomial(three.need, 0.96, (4_000, 3))
    reach = np.array([clopper_pearson(k, three.need).low >= 0.9 for k in range(three.need + 1)])
    assert reach[counts].all(axis=1).mean() >= power.POWER
    counts = np.random.default_rng(1).binomial(one.need, 0.96, (4_000, 3))
    reach = np.array([clopper_pearson(k, one.need).low >= 0.9 for k in range(one.need + 1)])
    assert reach[counts].all(axis=1).mean() < 0.65


def test_a_claimed_effect_outside_the_interval_is_no_promise() -> None:
    """Seeds that are added to the recorded ones keep their outcome; as many new ones have the stated power."""
    values, claimed = [0.0, 0.02, -0.02, 0.01, -0.01], 0.02
    design = replace(DESIGN, measures=(Measure("table 1", claimed=claimed),))
    one = found(claim(part(values)), design)
    spread = one.needs[0].sd
    assert one.need is not None and spread is not None and one.needs[0].outside
    rng = np.random.default_rng(4)
    new = rng.normal(claimed, spread, (4_000, one.need))
    added = [[*values, *draw] for draw in new[:, : one.need - len(values)]]
    assert np.mean([student_mean(draw).low > 0 for draw in new]) >= power.POWER
    assert np.mean([student_mean(draw).low > 0 for draw in added]) < 0.3
    said, line = undecided_formats.lines(one)
    assert said.startswith(
        "to decide it: the claimed effect lies outside the present interval, so more seeds are not expected to show it; if the true effect "
        f"were the claimed one after all, {one.need} new seeds would decide it with 80% power and cost "
    )
    assert one.cpu_s == pytest.approx(one.need * 34.0 / 5) and line.endswith("outside the present interval")
    within = found(claim(part([v + 0.007 for v in values])), design)
    assert not within.needs[
        0
    ].outside and f"{within.need} new seeds, for which" in undecided_formats.headline(within)
    both = found(claim(part(values), part([v + 0.007 for v in values])), design)
    assert "outside the present interval in 1 of the 2 comparisons, so" in undecided_formats.headline(both)
    both = found(claim(part(values), part(values)), design)
    assert "outside the present interval in both comparisons, so" in undecided_formats.headline(both)
    assert not found(claim(part([0.3, 0.5, 0.4], Within(-0.1, 0.35))), DESIGN).needs[0].outside


def test_no_number_of_samples_decides_if_the_seeds_differ_too_much() -> None:
    samples = part([0.3], Above(0.0), unit="fraction", interval=Interval(0.05, -0.1, 0.2))
    values = tuple(np.random.default_rng(0).normal(0.05, 0.3, 100))

    def units(fixed: float) -> undecided.Undecided:
        crossed = power.Crossed("samples", values, inflation=1.2, fixed=fixed, freedom=4)
        return found(claim(replace(samples, units=crossed)))

    alone, some, too_much = units(0.0), units(0.0005), units(0.01)
    assert alone.need is not None and some.need is not None and alone.need < some.need
    assert too_much.need is None and undecided_formats.headline(too_much) == (
        "no number of samples can be given: the spread between 5 seeds alone is too large for the claimed effect, so no number of samples "
        "decides"
    )


def test_no_number_of_samples_is_given_while_a_network_is_at_chance_level() -> None:
    samples = part([0.3, 0.1, -0.2], over="samples")
    assert samples.units is not None
    samples = replace(samples, units=replace(samples.units, per="samples"))
    for reasons, alone in ((("a at chance level, seed 1",), True), (("1 seed, needs 3",), False)):
        one = found(claim(samples, verdict="underpowered", reasons=reasons))
        said = "no number of samples can be given while a network is at chance level"
        assert one.unit == "samples" and (undecided_formats.headline(one) == said) == alone


def test_a_median_a_range_a_ratio_and_a_share_have_their_own_numbers() -> None:
    values = [0.0, 0.2, -0.1, 0.1]
    mean = part(values)
    assert mean.units is not None
    spread = found(claim(mean)).needs[0].sd
    assert spread is not None
    median = replace(mean, units=replace(mean.units, inflation=1.5))
    assert found(claim(median)).need == math.ceil((power.units_for_mean(0.1, spread) or 0) * 1.5)
    inside = replace(mean, claimed=Within(-0.1, 0.1))
    assert found(claim(inside)).need == power.units_for_equivalence(0.1, spread)
    ratio = replace(mean, claimed=Below(1.0), unit="ratio", interval=Interval(0.9, 0.7, 1.2))
    halved = replace(DESIGN, measures=(Measure("table 1", claimed=0.5),))
    assert found(claim(ratio), halved).need == power.units_for_mean(math.log(2), spread)
    share = level(
        "share", Sample("a", {0: 0.0, 1: 0.0}, ("runs/s/train/a/seed0",)), Above(0.95, strict=False)
    )
    always = replace(DESIGN, measures=(Measure("always", claimed=1.0, trials=1),))
    assert share is not None and found(claim(share), always).need == 72


def test_a_clustered_share_needs_more_units_by_its_design_effect() -> None:
    units = Units("targets", (0.5, 1.0) * 10, "share", trials=80.0, effective=20.0)
    share = part([0.3], Above(0.97, strict=False), unit="fraction", units=units)
    near = replace(DESIGN, measures=(Measure("text", claimed=0.99),))
    trials = power.trials_for_share(0.99, 0.97)
    assert trials is not None and found(claim(share), near).need == math.ceil(trials * 4 / 4)
    many = replace(
        units, values=(0.5, 1.0) * 5, trials=80.0, effective=80.0
    )  # eight trials each that differ within a target
    share = part([0.3], Above(0.97, strict=False), unit="fraction", units=many)
    assert math.ceil(trials / 8) < 122 and found(claim(share), near).need == 122
    for agreeing in (121, 122):
        assert (clopper_pearson(agreeing, agreeing).low >= 0.97) == (agreeing == 122)


def test_a_reason_that_differs_in_its_first_number_alone_stands_once() -> None:
    fits = [f"SENet18 fits {share}% of its set, needs 98%" for share in ("90.0", "89.9", "90.0")]
    others = ["VGG-19 at 10.5%, needs 60%", "VGG-18 at 9.5%, needs 60%", "1 seed, needs 3", "not measured"]
    assert verdicts.alike([*fits, *others]) == ["SENet18 fits 89.9 to 90.0% of its set, needs 98%", *others]
    weak = judge(
        Finding([part([0.3], name=f"{name}: {way}") for name in "ab" for way in "xy"]),
        lambda one: [fits[one.name[3] == "y"]] if one.name[0] == "a" else [],
    )
    assert weak["missing"] == ("a: SENet18 fits 89.9 to 90.0% of its set, needs 98%",)


def test_reasons_that_more_units_do_not_remove_are_named() -> None:
    reasons = ("1 seed, needs 3", "VGG-19 at 10.5% best accuracy, needs 60%")
    one = found(claim(part([0.3]), verdict="underpowered", reasons=reasons))
    assert one.blocked == (reasons[1],) and one.least == 3
    first = f"to be solved first, as more seeds do not help: {reasons[1]}"
    assert first in undecided_formats.lines(one)
    text = claims_formats.markdown([replace(claim(part([0.3])), beside=("design: x", first))], "mini")
    assert text.index(first) < text.index("- a - b: ") < text.index("- design: x")
    weak = found(claim(part([0.3, 0.3, 0.3]), verdict="underpowered", reasons=reasons[1:]))
    assert undecided_formats.lines(weak) == [
        f"to decide it: there are enough seeds; what is missing: {reasons[1]}"
    ]


def test_the_claimed_effect_and_the_spread_have_the_unit_of_the_effect() -> None:
    words = {"fraction": "10 points", "bleu": "0.1 BLEU", "nats": "0.1 nats"}
    for unit, claimed in words.items():
        line = undecided_formats.lines(found(claim(part([0.3], unit=unit))))[1]
        assert f" for a claimed {claimed} (table 1), spread " in line, line
        assert f"spread {'20 points' if unit == 'fraction' else f'0.2 {claimed[4:]}'} (a pilot)" in line
    shown = [claims_formats.format_claimed(part([0.3], Above(0.02), unit=unit)) for unit in words]
    assert shown == ["> 2 points", "> 0.02 BLEU", "> 0.02 nats"]


def test_large_numbers_have_no_exponent() -> None:
    dear = replace(DESIGN, measures=(Measure("table 1", claimed=0.005, sd=1.0, pilot="a pilot"),))
    said = undecided_formats.headline(found(claim(part([0.3])), dear))
    assert "e+" not in said and re.search(r": \d{3},\d{3} seeds cost [\d,]+ CPU hours", said), said


def test_pairs_are_counted_in_targets_and_victims_are_not() -> None:
    keys = tuple((victim, 0, target) for victim in "ab" for target in range(20))
    attacks = part([0.3], keys=keys, over="targets", interval=Interval(0.3, 0.2, 0.4))
    attacks = replace(attacks, units=Units("targets", (0.3,) * 20))
    reasons = ("40 pairs of target and victim, needs 80", "2 victims, needs 4")
    one = found(claim(attacks, verdict="underpowered", reasons=reasons))
    assert (one.unit, one.least, one.blocked) == ("targets", 40, ("2 victims, needs 4",))
    assert undecided_formats.headline(one).startswith("every comparison holds; the rule requires 40 targets")


def test_no_number_of_units_helps_if_the_other_side_leaves_less_than_the_claimed_effect() -> None:
    design = replace(DESIGN, measures=(Measure("table 1", claimed=0.05, sd=0.1, pilot="a pilot"),))
    room = found(claim(replace(part([0.0, 0.01, -0.01]), room=0.06)), design)
    none = found(claim(replace(part([0.0, 0.01, -0.01]), room=0.04)), design)
    assert room.need and none.need is None
    assert (
        none.needs[0].why
        == "none can decide: the other side leaves 4 points to 100%, fewer than the effect to look for"
    )


def test_what_is_too_dear_says_so_with_the_number() -> None:
    dear = replace(DESIGN, measures=(Measure("table 1", claimed=0.001, sd=0.2, pilot="a pilot"),))
    one = found(claim(part([0.3])), dear)
    assert one.hopeless.startswith("not decidable below 10 CPU hours: ") and "seeds cost" in one.hopeless
    never = replace(DESIGN, undecidable="no images")
    assert undecided_formats.headline(found(claim(part([0.3])), never)) == "no images"


def test_decided_and_exact_claims_have_none() -> None:
    for one in (claim(part([0.3]), verdict="reproduced"), claim(part([0.3]), kind="exact")):
        assert undecided.assess(one, DESIGN, ANCESTRY, str) is None
    missing = found(claim(verdict="not_run", missing=("no runs",)))
    assert undecided_formats.headline(missing) == (
        "no runs; the design has 4 seeds at scale small, 1 CPU hours; set in params.yaml:7 (study.seeds)"
    )


def test_costs_of_targets_and_samples() -> None:
    rows = [{"target": 0, "success": 1}, {"target": 1, "success": 0}]
    attacked = [run("a", 30.0, rows=rows), run("b", 50.0), run("c", 7.0, rows=[{"k": 1}])]
    assert claim_cost.per_unit("targets", 10, attacked)[0] == 3.0
    assert claim_cost.per_unit("samples", 10, attacked)[0] == 87.0
    assert claim_cost.cost_of_claim(claim(part([0.3])), ANCESTRY) == {
        "runs": 3,
        "cpu_s": 34.0,
        "device_s": 0.0,
    }


def test_the_plain_data_can_be_written_as_json() -> None:
    import json

    one = found(claim(part([0.3]), verdict="underpowered", reasons=("1 seed, needs 3",)))
    plain = json.loads(json.dumps(undecided_formats.to_dict(one), allow_nan=False))
    assert plain["need"] == one.need and plain["needs"][0]["source"] == "table 1"
    assert undecided_formats.duration(90) == "1.5 min" and undecided_formats.duration(7200) == "2 h"


def test_claims_md_claims_json_and_the_page_have_what_would_decide() -> None:
    import json

    from relearn.report import claims_beside
    from relearn.report.views import claims as views

    told = claim(part([0.3]), verdict="underpowered", reasons=("1 seed, needs 3",))
    (one,) = claims_beside.with_evidence(
        [told],
        RUNS,
        {"s": {"one": DESIGN}},
        {"scale": "small", "study": {"seeds": [0]}},
        lambda key: f"there ({key})",
        {RUNS[0].folder: {"steps": 7}}.get,
    )
    headline = f"to decide it: {undecided_formats.headline(found(told)).replace('params.yaml:7', 'there')}"
    page = views.view(one)
    assert page["remarks"][-1] == headline
    assert page["parts"][-1].startswith("half-width of a - b: planned ")
    text = claims_formats.markdown([one], "small")
    assert f"- {headline}\n" in text and "\n- design: a minus b 4 seeds" in text
    (plain,) = json.loads(claims_formats.as_json([one], "small"))["claims"]
    assert plain["cost"]["cpu_s"] == 34.0 and plain["undecided"]["need"] == found(told).need
    line = "1 of 1 run of prepare was made with other settings than planned now: steps 5, now 7"
    assert plain["outdated"] == [line] and f"- {line}\n" in text and line in page["remarks"]
    assert plain["design"]["n"] == 4 and plain["shown"] == claims_formats.effect(one.main)
    mini = claims_beside.with_evidence([told], RUNS, {"s": {"one": DESIGN}}, {"scale": "mini"}, str, {}.get)
    assert "design" not in mini[0].data and "design: " not in claims_formats.markdown(mini, "mini")


def test_the_page_says_what_decides_what_is_missing_and_what_its_terms_mean() -> None:
    shown = part([1.0, 2.0, 4.0], decides=False)
    local = f"a - b: reproduced for these victims, not decided if victims are drawn, too; {LOCAL}"
    runs = [f"no runs for {name}: {what}" for name in "AB" for what in ("best", "seconds")]
    alone = ("no runs for A: memory", "no runs for x - y", "no runs for x - z", "no count of C")
    lacks = (*runs, *alone, *(f"{name}: time: no seed 0: apart" for name in "AB"), local, f"c: {local}")
    one = claim(part([1.0, 1.1, 1.2]), shown, missing=lacks, beside=("design: x",))
    text = claims_formats.markdown([one], "mini", terms={"s": {"T": "iterations"}})
    assert text.index("- T: iterations") < text.index("| claim | says |")
    assert "points, claimed > 0 points: reproduced (" in text
    assert "points, shown only, measured against > 0 points: direction (" in text
    assert [line for line in text.split("\n") if line.startswith(("- missing", "- limited"))] == [
        "- missing: no runs for A, B: best; seconds",
        "- missing: no runs for A: memory",
        "- missing: no runs for x - y, x - z",
        "- missing: no count of C",
        "- missing: A; B: time: no seed 0: apart",
        f"- limited: a - b; c: {local.removesuffix(f'; {LOCAL}')}",
    ]
    assert text.index("- a - b: ") < text.index("- design: x"), (
        "a design without a headline stands behind the numbers"
    )


def test_a_verdict_for_these_victims_asks_for_others_and_not_for_parts_that_are_missing() -> None:
    lines = [f"{name}: reproduced for these victims; {LOCAL}" for name in "ab"]
    one = found(claim(part([1.0, 2.0]), verdict="reproduced", missing=tuple(lines)))
    assert undecided_formats.headline(one).startswith("more victims, that is, networks trained anew")
    assert "2 parts of the claim are missing" in undecided_formats.headline(replace(one, blocked=("x", "y")))


def test_no_effect_lies_outside_of_an_interval_of_equal_numbers() -> None:
    assert part([0.0] * 3).verdict == "identical"
    assert not found(claim(part([0.0] * 3), verdict="identical")).needs[0].outside
    assert found(claim(part([-0.1, -0.1, -0.11]))).needs[0].outside


def test_errors_that_are_rounding_look_alike_on_every_machine() -> None:
    assert cases.shown(4.2e-16) == cases.shown(6.6e-16) == "below 1e-12" and cases.shown(4.2e-9) == "4.2e-09"
    assert cases.span([1.1e-16, 4.4e-16]) == "below 1e-12"
    assert (
        cases.span([2e-16, 5.5e-4]) == "below 1e-12 to 0.00055"
        and cases.span([1.767, 1.7671], ".3f") == "1.767"
    )


# Settings that have changed since the runs of a claim were made.


def run_with(folder: str, step: str = "train", **settings: Any) -> Run:
    return Run({"step": step, "settings": settings}, folder)


def test_runs_with_the_planned_settings_have_no_line() -> None:
    made = run_with("a", steps=5, sizes=[1, 2], optimiser={"lr": 0.1})
    assert outdated.lines([made], lambda _: {"steps": 5, "sizes": (1, 2), "optimiser": {"lr": 0.1}}) == []
    phases = run_with("a", phases=[{"steps": 5, "rate": 0.1}])
    assert outdated.lines([phases], lambda _: {"phases": [{"rate": 0.1, "steps": 5}]}) == []


def test_each_step_counts_its_runs_and_names_the_commonest_settings_first() -> None:
    made = [
        run_with("a", steps=5, rate=0.1),
        run_with("b", steps=5, rate=0.2),
        run_with("c", "prepare", size=3),
    ]
    planned = {"a": {"steps": 6, "rate": 0.2}, "b": {"steps": 6, "rate": 0.2}, "c": {"size": 3}}
    assert outdated.lines(made, planned.get) == [
        "2 of 2 runs of train were made with other settings than planned now: steps 5, now 6; rate 0.1, now 0.2"
    ]


def test_a_run_that_is_no_longer_planned_and_a_setting_of_one_side_do_not_count() -> None:
    made = [run_with("gone", steps=5), run_with("here", steps=5, old=1)]
    assert outdated.lines(made, {"here": {"steps": 5, "new": 2}}.get) == []
    assert outdated.lines(made, {"here": {"steps": 7, "new": 2}}.get) == [
        "1 of 1 run of train was made with other settings than planned now: steps 5, now 7"
    ]


@pytest.mark.parametrize(
    ("was", "now", "shown"),
    [
        ({"optimiser": {"lr": 0.1}}, {"optimiser": {"lr": 1e-3}}, "optimiser.lr 0.1, now 0.001"),
        ({"sizes": list(range(40))}, {"sizes": [1]}, "sizes others, now [1]"),
        (
            dict.fromkeys("abcde", 1),
            dict.fromkeys("abcde", 2),
            "a 1, now 2; b 1, now 2; c 1, now 2 and 2 more",
        ),
    ],
)
def test_what_a_line_shows(was: dict[str, Any], now: dict[str, Any], shown: str) -> None:
    (line,) = outdated.lines([run_with("a", **was)], lambda _: now)
    assert line.endswith(f"planned now: {shown}")
