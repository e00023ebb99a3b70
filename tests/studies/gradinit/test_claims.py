"""Every claim of chapter 4 is reached by records that deserve its verdict, by effects done by hand."""

import itertools
import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from relearn.report import claims, claims_formats
from relearn.report.quantities import Evidence
from relearn.report.statistics import Interval, student_mean
from relearn.studies.gradinit.claims import PREDICATES, starts

from ...report import conftest as report
from ...report.conftest import FOLDERS, SECTIONS, evidence_of, part
from ..fake_run import write_run
from . import fake_records as pretend

DEFINED = claims.load(FOLDERS)
SEEDS = (0, 1, 2)
GOOD = {"accbest_frac": 0.9, "accfinal_frac": 0.9}


judged = partial(report.judged, {"gradinit": DEFINED["gradinit"]})


def trained(root, network, start, metric, values, *, outcome="ok", **more):
    """Trainings of seeds 0, 1, …, good in all but the metric."""
    for seed, value in enumerate(values):
        metrics = {**GOOD, metric: value}
        pretend.train(root, network, start, metrics, seed=seed, outcome=outcome, **more)


def test_every_claim_of_the_chapter_has_a_predicate_and_every_predicate_a_claim():
    assert set(PREDICATES) == set(DEFINED["gradinit"]) and len(PREDICATES) == 12


def test_the_chapter_as_it_pretends_to_be(gradinit):
    found = judged(gradinit)
    assert {name: claim.verdict for name, claim in found.items()} == {
        **dict.fromkeys(PREDICATES, "reproduced"),
        "overlap_half": "identical",  # all overlaps give the same
        "constraint_not_penalty": "identical",
        "lower_gradient_variance": "direction",  # in all of the few layers that this study pretends to have
        "no_warmup_sgd": "contradicted",  # Admin is 0.1 BLEU better
    }
    assert [name for name, claim in found.items() if claim.provisional] == ["parameter_counts"]
    # accuracy of Kaiming 0.25, of GradInit 0.35; best 0.9 and 0.925
    assert found["first_epoch_accuracy"].main.interval.estimate == pytest.approx(0.1)
    assert found["best_accuracy"].main.interval.estimate == pytest.approx(0.025)
    assert (
        sum(part.decides for part in found["best_accuracy"].parts) == 9
        and len(found["beats_metainit"].parts) == 8 * 3
    )


def test_students_interval_by_hand():
    values = [0.1, 0.3, 0.2, 0.7]
    half = stats.t.ppf(0.975, 3) * np.std(values, ddof=1) / 2
    found = student_mean(values)
    assert (found.estimate, found.low, found.high) == pytest.approx((0.325, 0.325 - half, 0.325 + half))
    lone = student_mean([0.4])
    assert (lone.estimate, lone.low, lone.high) == (0.4, -math.inf, math.inf)
    same = student_mean([0.3 - 0.1, 0.2, 0.5 - 0.3])
    assert same.low == same.estimate == same.high == 0.2
    two, none = student_mean([0.2, 0.5 - 0.3]), student_mean([0.0, 0.0])
    assert (two.estimate, two.low, two.high) == (0.2, -math.inf, math.inf) and none.low == none.high == 0.0
    with pytest.raises(ValueError, match="found no values"):
        student_mean([])


@pytest.mark.slow
def test_students_interval_covers_the_truth_nineteen_times_in_twenty():
    rng = np.random.default_rng(3)
    held = [
        found.low <= 0.5 <= found.high for found in (student_mean(rng.normal(0.5, 1, 4)) for _ in range(4000))
    ]
    assert np.mean(held) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


@pytest.mark.parametrize(
    ("differences", "word"),
    [
        ((0.10, 0.11, 0.12), "reproduced"),
        ((0.01, 0.30, -0.02), "direction"),
        ((-0.01, -0.30, 0.02), "inconclusive"),
        ((-0.10, -0.11, -0.12), "contradicted"),
    ],
)
def test_every_verdict_is_reached_seed_by_seed(tmp_path, differences, word):
    starts = (0.2, 0.6, 0.4)  # far apart: only paired by seed are the differences small
    trained(tmp_path, "VGG-19", "kaiming", "acc1_frac", starts)
    trained(tmp_path, "VGG-19", "gradinit", "acc1_frac", [a + d for a, d in zip(starts, differences)])
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.verdict == word and not claim.reasons
    assert claim.main.interval.estimate == pytest.approx(np.mean(differences))
    assert claim.provisional and len(claim.missing) == 4  # the other networks
    assert claim.count() == {"networks": 1, "seeds": 3, "trials": 3}
    assert claims_formats.numbers(claim) == "3 seeds"


def test_a_claim_on_several_networks_is_as_good_as_the_weakest(tmp_path):
    for network, better in (("VGG-19", 0.1), ("ResNet-110", -0.1)):
        trained(tmp_path, network, "kaiming", "acc1_frac", [0.30, 0.31, 0.32])
        trained(tmp_path, network, "gradinit", "acc1_frac", [0.30 + better, 0.31 + better, 0.32 + better])
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.verdict == "contradicted" and claim.main.name.startswith("ResNet-110")


def test_seeds_that_only_one_side_has_are_left_out(tmp_path):
    trained(tmp_path, "VGG-19", "kaiming", "acc1_frac", [0.3, 0.3])
    trained(tmp_path, "VGG-19", "gradinit", "acc1_frac", [0.4, 0.5, 0.9, 0.9])
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.main.interval.estimate == pytest.approx(0.15)
    assert len(claim.runs) == 4 and claim.count()["seeds"] == 2
    assert (claim.verdict, claim.reasons) == ("underpowered", ("2 seeds, needs 3",))


def test_one_seed_is_underpowered_and_the_numbers_are_still_reported(tmp_path):
    trained(tmp_path, "VGG-19", "kaiming", "acc1_frac", [0.3])
    trained(tmp_path, "VGG-19", "gradinit", "acc1_frac", [0.4])
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert (claim.verdict, claim.numbers_say) == ("underpowered", "direction")
    assert claims_formats.effect(claim.main) == "+10.0 points (one seed, no interval)"
    ratio = replace(claim.main, unit="ratio", interval=Interval(0.5, 0.0, math.inf))
    assert claims_formats.effect(ratio) == "0.5 (one seed, no interval)"
    assert claims_formats.effect(replace(ratio, interval=Interval(0.5, 0.1, math.inf))) == "0.5 [0.1, ∞]"


def test_a_network_that_no_start_brings_to_quality_is_underpowered(tmp_path):
    for seed in SEEDS:
        for start, first in (("kaiming", 0.3), ("gradinit", 0.4)):
            metrics = {"acc1_frac": first, "accbest_frac": 0.55}
            pretend.train(tmp_path, "VGG-19", start, metrics, seed=seed)
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert (claim.verdict, claim.reasons) == ("underpowered", ("VGG-19 at 55.0% best accuracy, needs 60%",))
    for seed in SEEDS:  # another start reaches it: the network can learn
        pretend.train(tmp_path, "VGG-19", "metainit", {"accbest_frac": 0.61}, seed=seed)
    assert judged(evidence_of(tmp_path), "first_epoch_accuracy").verdict == "reproduced"


def test_controls_of_the_best_accuracy_do_not_decide(tmp_path):
    for start, value in (
        ("kaiming", 0.7),
        ("gradinit", 0.8),
        ("gradinit_tuned", 0.6),
        ("gradinit_only_bn", 0.65),
    ):
        trained(tmp_path, "VGG-19-BN", start, "accbest_frac", [value] * 3)
    unmet = {"constraint_count": 60.0, "iterations_count": 60.0}
    settings = {"arguments": {"gamma": 1.0, "eta": 0.1}}
    for seed in SEEDS:
        pretend.initialise(tmp_path, "VGG-19-BN", "gradinit_only_bn", unmet, seed=seed, settings=settings)
    claim = judged(evidence_of(tmp_path), "best_accuracy")
    controls = [one for one in claim.parts if not one.decides]
    assert claim.main.interval.estimate == pytest.approx(0.1) and claim.verdict == "reproduced"
    assert [round(one.interval.estimate, 3) for one in controls] == [-0.1, -0.2, -0.05, -0.15]
    assert [one.name.rpartition(" - ")[2] for one in controls] == ["Kaiming", "GradInit"] * 2
    above = "gradinit_only_bn of VGG-19-BN: 60 of 60 iterations above the bound on the norm"
    assert [above in one.notes for one in controls] == [False, False, True, True]


def test_a_training_that_diverges_before_its_first_epoch_has_the_accuracy_of_one_class(tmp_path):
    trained(tmp_path, "VGG-19", "gradinit", "acc1_frac", [0.4, 0.4, 0.4])
    for seed in SEEDS:
        lost = {"accbest_frac": 0.1}
        pretend.train(tmp_path, "VGG-19", "kaiming", lost, seed=seed, outcome="diverged")
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.verdict == "reproduced" and claim.main.interval.estimate == pytest.approx(0.3)


def test_other_suites_and_recipes_do_not_decide(tmp_path):
    for start, value in (("kaiming", 0.3), ("gradinit", 0.4)):
        more = {"suite": "first_steps", "recipe": "steps"}
        trained(tmp_path, "VGG-19-BN", start, "accfinal_frac", [value] * 3, **more)
        trained(tmp_path, "VGG-19-BN", start, "acc1_frac", [value] * 3, recipe="adamw")
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.verdict == "not_run"
    trained(tmp_path, "VGG-19-BN", "kaiming", "acc1_frac", [0.5] * 3)
    trained(tmp_path, "VGG-19-BN", "gradinit", "acc1_frac", [0.4] * 3)
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.verdict == "contradicted"
    beside = part(claim, "VGG-19-BN: accuracy after the first steps")
    assert not beside.decides and beside.interval.estimate == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("steps", "size", "decides"), [(391, 1.0, True), (390, 1.0, False), (392, 1.0, False), (391, 0.25, False)]
)
def test_a_whole_epoch_at_the_published_size_decides_on_its_network(tmp_path, steps, size, decides):
    for seed, (start, value) in itertools.product(SEEDS, (("kaiming", 0.1), ("gradinit", 0.4))):
        pretend.initialise(tmp_path, "VGG-19-BN", start, {}, seed=seed, suite="first_steps", size=size)
        metrics, more = {"accfinal_frac": value}, {"suite": "first_steps", "recipe": "steps"}
        pretend.train(tmp_path, "VGG-19-BN", start, metrics, seed=seed, settings={"steps": steps}, **more)
    trained(tmp_path, "VGG-19-BN", "kaiming", "acc1_frac", [0.5] * 3)
    trained(tmp_path, "VGG-19-BN", "gradinit", "acc1_frac", [0.45] * 3)
    trained(tmp_path, "VGG-19", "kaiming", "acc1_frac", [0.5] * 3)  # at the size of the grid only
    trained(tmp_path, "VGG-19", "gradinit", "acc1_frac", [0.45] * 3)
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.verdict == ("reproduced" if decides else "contradicted")
    assert part(claim, "VGG-19: first epoch, GradInit").decides is not decides
    assert part(claim, "VGG-19-BN: first epoch, GradInit").decides is not decides
    if decides:
        full = part(claim, "VGG-19-BN: first epoch at the published size")
        assert full.decides and full.interval.estimate == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("ours", "kaiming", "network", "word"),
    [
        ([0.4, 0.4, None], [0.1] * 3, "VGG-19-BN", "direction"),  # diverged: as accurate as one class
        ([0.4, 0.4, 0.4], [0.1, 0.1, None], "VGG-19-BN", "reproduced"),
        ([0.112, 0.113, 0.111], [0.1, 0.1, 0.1], "VGG-19-BN", "underpowered"),  # both at chance
        ([0.4, 0.4, 0.4], [0.1] * 3, "VGG-19", "not_run"),  # does not decide
    ],
)
def test_first_epochs_at_the_published_size_that_diverge_or_learn_nothing(
    tmp_path, ours, kaiming, network, word
):
    for start, values in (("gradinit", ours), ("kaiming", kaiming)):
        for seed, value in enumerate(values):
            pretend.initialise(tmp_path, network, start, {}, seed=seed, suite="first_steps")
            metrics = {"accbest_frac": 0.1} | ({} if value is None else {"accfinal_frac": value})
            more = {"outcome": "diverged"} if value is None else {}
            more |= {"suite": "first_steps", "recipe": "steps", "settings": {"steps": 391}}
            pretend.train(tmp_path, network, start, metrics, seed=seed, **more)
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.verdict == word and (not claim.parts or len(claim.parts[0].seeds) == 3)


@pytest.mark.parametrize(
    ("away", "word"), [(0.0, "identical"), (0.01, "reproduced"), (-0.01, "contradicted")]
)
def test_at_least_as_high_and_the_same_numbers(tmp_path, away, word):
    trained(tmp_path, "DenseNet-100", "kaiming", "accbest_frac", [0.9, 0.8, 0.7])
    trained(tmp_path, "DenseNet-100", "gradinit", "accbest_frac", [0.9 + away, 0.8 + away, 0.7 + away])
    assert judged(evidence_of(tmp_path), "best_accuracy").verdict == word


@pytest.mark.parametrize(("slower", "heavier", "word"), [(0.5, 0.5, "identical"), (0.5, 1.2, "contradicted")])
def test_metainit_must_be_beaten_in_accuracy_time_and_memory(tmp_path, slower, heavier, word):
    for seed in SEEDS:
        for start, time, memory in (("metainit", 1.0, 1.0), ("gradinit", slower, heavier)):
            pretend.train(tmp_path, "ResNet-110", start, GOOD, seed=seed)
            costs = {"initialise_s": time * 2**seed, "peak_memory_bytes": memory * 1e9}
            pretend.initialise(tmp_path, "ResNet-110", start, costs, seed=seed)
    claim = judged(evidence_of(tmp_path), "beats_metainit")
    assert claim.verdict == word
    seconds = part(claim, "ResNet-110: seconds")
    assert seconds.interval.estimate == pytest.approx(slower) and not seconds.role
    assert claims_formats.effect(part(claim, "ResNet-110: peak")) == f"{heavier:g} [{heavier:g}, {heavier:g}]"


def test_a_ratio_is_the_geometric_mean_over_seeds(tmp_path):
    for seed, (ours, theirs) in enumerate(((1.0, 2.0), (4.0, 2.0), (0.0, 2.0))):
        pretend.initialise(tmp_path, "VGG-19", "gradinit", {"initialise_s": ours}, seed=seed)
        pretend.initialise(tmp_path, "VGG-19", "metainit", {"initialise_s": theirs}, seed=seed)
    seconds = part(judged(evidence_of(tmp_path), "beats_metainit"), "VGG-19: seconds")
    assert seconds.interval.estimate == pytest.approx(math.sqrt(0.5 * 2.0))  # the third pair has no ratio
    half = stats.t.ppf(0.975, 1) * math.log(2)
    assert seconds.interval.high == pytest.approx(math.exp(half))


def test_seconds_of_a_resumed_run_do_not_count(tmp_path):
    late = ["resumed: finished by attempt 2"]
    for seed in range(3):
        costs = {"initialise_s": 0.1 if seed == 2 else 4.0, "peak_memory_bytes": 1e9}
        notes = {"notes": late} if seed == 2 else {}
        pretend.initialise(tmp_path, "VGG-19", "gradinit", costs, seed=seed, **notes)
        pretend.initialise(tmp_path, "VGG-19", "metainit", {**costs, "initialise_s": 4.0}, seed=seed)
    claim = judged(evidence_of(tmp_path), "beats_metainit")
    seconds = part(claim, "VGG-19: seconds")
    assert seconds.interval.estimate == pytest.approx(1.0)  # of seeds 0 and 1; seed 2 would pull it down
    assert seconds.notes[-1] == "seconds without gradinit seed 2: resumed, only the last attempt was timed"
    assert all("resumed" not in note for note in part(claim, "VGG-19: peak").notes)  # memory is whole


@pytest.mark.parametrize("key", ["device_name", "precision", "threads"])
def test_costs_of_different_machines_are_not_compared(tmp_path, key):
    for seed in SEEDS:
        pretend.initialise(tmp_path, "VGG-19", "gradinit", {"initialise_s": 1.0 + seed}, seed=seed)
        pretend.initialise(tmp_path, "VGG-19", "metainit", {"initialise_s": 2.0 + 2 * seed}, seed=seed)
    runs = evidence_of(tmp_path).runs

    def elsewhere(*seeds):
        other = {key: 2 if key == "threads" else "another"}
        return Evidence(
            replace(run, record={**run.record, "machine": {**run.record["machine"], **other}})
            if run.seed in seeds and run.labels["initialisation"] == "metainit"
            else run
            for run in runs
        )

    seconds = part(judged(elsewhere(1), "beats_metainit"), "VGG-19: seconds")
    differ = "the two sides differ in processor, precision or threads"
    assert list(seconds.seeds) == [0, 2] and seconds.notes[-1] == f"without seed 1: {differ}"
    missing = judged(elsewhere(*SEEDS), "beats_metainit").missing
    assert f"VGG-19: seconds, GradInit / MetaInit: without seeds 0, 1, 2: {differ}" in missing


def test_a_cost_that_was_not_measured_is_missing_and_says_why(tmp_path):
    for start in ("gradinit", "metainit"):
        costs = {"initialise_s": 1.0, "peak_memory_bytes": 0.0}
        pretend.initialise(tmp_path, "VGG-19", start, costs)
    claim = judged(evidence_of(tmp_path), "beats_metainit")
    assert (
        "VGG-19: peak memory, GradInit / MetaInit: every pair has a number that is not above 0"
        in claim.missing
    )
    assert "no runs for ResNet-110: peak memory, GradInit / MetaInit" in claim.missing


def test_depth_is_compared_between_two_networks(tmp_path):
    trained(tmp_path, "ResNet-1202-BN", "gradinit", "accbest_frac", [0.91, 0.92, 0.94])
    trained(tmp_path, "ResNet-110-BN", "gradinit", "accbest_frac", [0.90, 0.90, 0.91])
    claim = judged(evidence_of(tmp_path), "depth_1202")
    assert claim.main.interval.estimate == pytest.approx(0.02)
    assert claims_formats.numbers(claim) == "3 seeds, 2 networks"


@pytest.mark.parametrize(
    ("constraint", "seconds", "word"),
    [(0.899, 5.0, "reproduced"), (0.890, 5.0, "contradicted"), (0.899, 9.0, "contradicted")],
)
def test_the_constraint_against_the_best_penalty(tmp_path, constraint, seconds, word):
    for seed in SEEDS:
        for start, best, cost in (
            ("gradinit_penalty_1e-4", 0.9, 4.0),
            ("gradinit_penalty_1", 0.7, 8.0),
            ("gradinit", constraint, seconds),
        ):
            pretend.train(tmp_path, "VGG-19", start, {"accbest_frac": best}, seed=seed)
            pretend.initialise(tmp_path, "VGG-19", start, {"initialise_s": cost}, seed=seed)
    claim = judged(evidence_of(tmp_path), "constraint_not_penalty")
    assert claim.verdict == word
    assert part(claim, "VGG-19: seconds").interval.estimate == pytest.approx(seconds / 6.0)
    accuracy = part(claim, "VGG-19: best")
    assert accuracy.interval.estimate == pytest.approx(constraint - 0.9)
    assert accuracy.notes[0] == "best strength 1e-4, of 1e-4: 90.00%, 1: 70.00%"
    assert accuracy.among == 1 + 2  # the time, and the better of two strengths


def test_a_strength_beyond_the_table_is_shown_and_does_not_decide(tmp_path):
    for seed in SEEDS:
        for start, best, cost in (("gradinit_penalty_1", 0.9, 8.0), ("gradinit", 0.899, 5.0)):
            pretend.train(tmp_path, "VGG-19", start, {"accbest_frac": best}, seed=seed)
            pretend.initialise(tmp_path, "VGG-19", start, {"initialise_s": cost}, seed=seed)
    before = judged(evidence_of(tmp_path), "constraint_not_penalty")
    for seed in SEEDS:
        pretend.train(tmp_path, "VGG-19", "gradinit_penalty_10", {"accbest_frac": 0.95}, seed=seed)
        pretend.initialise(tmp_path, "VGG-19", "gradinit_penalty_10", {"initialise_s": 1.0}, seed=seed)
    claim = judged(evidence_of(tmp_path), "constraint_not_penalty")
    deciding = [one for one in claim.parts if one.decides]
    assert claim.verdict == before.verdict == "reproduced"
    assert [one.interval for one in deciding] == [one.interval for one in before.parts]
    (shown,) = (one for one in claim.parts if not one.decides)
    assert shown.name == "VGG-19: best, penalty of strength 10 - of 1"
    assert shown.interval.estimate == pytest.approx(0.05)


def test_half_an_overlap_against_none(tmp_path):
    for start, first in (("gradinit", 0.3), ("gradinit_overlap_0", 0.2), ("gradinit_overlap_1", 0.5)):
        trained(tmp_path, "VGG-19", start, "acc1_frac", [first] * 3)
        trained(tmp_path, "VGG-19-BN", start, "acc1_frac", [1 - first] * 3)
    claim = judged(evidence_of(tmp_path), "overlap_half")
    assert claim.verdict == "reproduced" and claim.main.interval.estimate == pytest.approx(0.1)
    assert [one.decides for one in claim.parts] == [True, False, False, False]


def adam(root, ours, warm, cold):
    for seed in SEEDS:
        pretend.train_translation(root, "post_ln", "gradinit", "adam", ours - 5 + seed / 10, seed=seed)
        pretend.train_translation(
            root, "post_ln", "gradinit", "adam_lr0.0005_b0.98", ours + seed / 10, seed=seed
        )
        pretend.train_translation(root, "post_ln", "gradinit", "adam_warmup", 99.0, seed=seed)
        pretend.train_translation(root, "post_ln", "xavier", "radam_warmup", warm + seed / 10, seed=seed)
        lost = "diverged" if cold is None else "ok"
        pretend.train_translation(root, "post_ln", "xavier", "adam", cold, seed=seed, outcome=lost)


@pytest.mark.parametrize(
    ("ours", "warm", "cold", "word"),
    [
        (35.0, 35.4, None, "reproduced"),
        (36.0, 35.0, 34.0, "reproduced"),
        (34.0, 35.0, None, "contradicted"),
        (35.0, 35.0, 35.5, "contradicted"),
    ],
)
def test_no_warmup_under_adam(tmp_path, ours, warm, cold, word):
    adam(tmp_path, ours, warm, cold)
    claim = judged(evidence_of(tmp_path), "no_warmup_adam")
    assert claim.verdict == word
    near, worse = claim.parts
    assert near.interval.estimate == pytest.approx(ours - warm)
    assert near.notes[0] == "recipes: GradInit adam_lr0.0005_b0.98, Xavier radam_warmup"
    assert all(any("own side is the best of 2" in note for note in one.notes) for one in claim.parts)
    assert near.among == 2  # two comparisons, each against a single recipe
    assert worse.interval.estimate == pytest.approx((cold or -0.1) - ours, abs=0.11)


def test_a_network_that_cannot_translate_is_underpowered(tmp_path):
    adam(tmp_path, 9.0, 9.0, 1.0)
    claim = judged(evidence_of(tmp_path), "no_warmup_adam")
    # the run with a warm-up from GradInit has 99 BLEU: it counts, so the network itself is good enough
    assert claim.verdict == "identical"  # with a warm-up and without, 9 BLEU each
    for seed in SEEDS:
        pretend.train_translation(tmp_path / "weak", "post_ln", "gradinit", "adam", 9.0, seed=seed)
        pretend.train_translation(tmp_path / "weak", "post_ln", "xavier", "adam_warmup", 9.1, seed=seed)
    claim = judged(evidence_of(tmp_path / "weak"), "no_warmup_adam")
    assert (claim.verdict, claim.reasons) == ("underpowered", ("post_ln at 9.1 BLEU, needs 10",))


def test_no_warmup_under_sgd(tmp_path):
    for seed in SEEDS:
        pretend.train_translation(tmp_path, "post_ln", "gradinit_sgd", "sgd", 35.0 + seed, seed=seed)
        pretend.train_translation(tmp_path, "w_skip", "admin", "sgd", 33.0 + seed, seed=seed)
        pretend.train_translation(tmp_path, "post_ln", "gradinit", "sgd", 1.0, seed=seed)
    claim = judged(evidence_of(tmp_path), "no_warmup_sgd")
    assert claim.verdict == "reproduced" and claim.main.interval.estimate == pytest.approx(2.0)
    assert claims_formats.effect(claim.main) == "2 [2, 2] BLEU"


def test_the_rate_of_gradinit_is_chosen_by_the_search_and_not_by_the_result(tmp_path):
    """The search prefers the low rate, of which the BLEU is worse; a diverged training of the search counts against its tau."""
    low = ("gradinit_sgd_lr0.05", "sgd")
    for seed in SEEDS:
        pretend.train_translation(tmp_path, "post_ln", "gradinit_sgd", "sgd", 35.0, seed=seed)
        pretend.train_translation(tmp_path, "post_ln", *low, 31.0, seed=seed)
        pretend.train_translation(tmp_path, "w_skip", "admin", "sgd", 33.0, seed=seed)
    claim = judged(evidence_of(tmp_path), "no_warmup_sgd")
    assert claim.verdict == "reproduced"  # without a search the published rate
    for start, recipe, tried, losses in (
        ("gradinit_sgd", "sgd", "tau0.01", (0.1, None)),
        ("gradinit_sgd", "sgd", "tau0.03", (0.4, 0.2)),
        (*low, "tau0.01", (0.2, 0.2)),
    ):
        for seed, loss in zip((100, 101), losses):
            labels = {"network": "post_ln_tuning", "initialisation": start, "recipe": recipe, "tried": tried}
            found = {} if loss is None else {"valid_loss_nats": loss}
            write_run(tmp_path, "train_translation", labels, found, seed=seed, study="gradinit")
    claim = judged(evidence_of(tmp_path), "no_warmup_sgd")
    assert claim.verdict == "contradicted" and claim.main.interval.estimate == pytest.approx(-2.0)
    assert "GradInit's initialisation: gradinit_sgd_lr0.05" in claim.main.notes
    (other,) = [part for part in claim.parts if not part.decides]
    assert other.name == "SGD: gradinit_sgd - Admin" and other.interval.estimate == pytest.approx(2.0)


def test_the_share_of_layers_whose_deviation_falls(tmp_path):
    def rows(after, worse):
        found = pretend.layers("VGG-19-BN", after)
        for row in found[:worse]:
            row["gradient_std"] *= 100
        return found

    for seed, worse in enumerate((0, 2, 5)):
        pretend.gradients(tmp_path, "VGG-19-BN", "kaiming", rows(False, 0), seed=seed)
        pretend.gradients(tmp_path, "VGG-19-BN", "gradinit", rows(True, worse), seed=seed)
    claim = judged(evidence_of(tmp_path), "lower_gradient_variance")
    # 32 layers count; the last, of which the deviation doubles, does not
    assert claim.main.interval.estimate == pytest.approx((32 + 30 + 28) / 96)
    assert 0.99 < claim.main.interval.high <= 1.0 and claim.verdict == "inconclusive"
    assert claim.main.notes[1] == "seed 1: 30 of 32; not in conv0.weight, norm0.weight"


def test_biases_are_no_layers_and_an_infinite_deviation_does_not_fall(tmp_path):
    before, after = pretend.layers("VGG-19-BN", False), pretend.layers("VGG-19-BN", True)
    for row in after:
        if row["kind"] == "bias":
            row["gradient_std"] *= 100
    before[0]["gradient_std"] = None
    after[1]["gradient_std"] = None
    for seed in SEEDS:
        pretend.gradients(tmp_path, "VGG-19-BN", "kaiming", before, seed=seed, outcome="diverged")
        pretend.gradients(tmp_path, "VGG-19-BN", "gradinit", after, seed=seed)
    claim = judged(evidence_of(tmp_path), "lower_gradient_variance")
    assert claim.main.interval.estimate == pytest.approx(31 / 32)
    assert claim.verdict == "direction"


@pytest.mark.parametrize(
    ("seconds", "word"),
    [(30.0, "reproduced"), (39.5, "direction"), (40.5, "inconclusive"), (50.0, "contradicted")],
)
def test_the_share_of_the_training_time(tmp_path, seconds, word):
    """Of 200 epochs of 20 s, 40 s are 1%; the times of the seeds differ by 5%, so that one of 40 s or more decides nothing."""
    for seed, factor in enumerate((0.95, 1.0, 1.05)):
        pretend.initialise(tmp_path, "VGG-19", "gradinit", {"initialise_s": factor * seconds}, seed=seed)
        pretend.train(tmp_path, "VGG-19", "gradinit", {"epoch_s": 20.0}, seed=seed)
    claim = judged(evidence_of(tmp_path), "under_1_percent_of_training")
    assert (claim.verdict, claim.provisional) == (word, True)
    mean = seconds * (0.95 * 1.05) ** (1 / 3)
    assert claim.main.interval.estimate == pytest.approx(mean / (200 * 20))
    assert claims_formats.format_claimed(claim.main) == "< 1 %"
    shown = claims_formats.effect(claim.main)
    assert shown.startswith(f"{100 * mean / (200 * 20):.3g} [") and shown.endswith("] %")
    assert claim.main.unit == "ratio"  # so that the forest plot has its logarithm


def test_batch_norm_cases_and_the_printed_bound(tmp_path):
    pretend.cases(tmp_path)
    claim = judged(evidence_of(tmp_path), "bn_magnifies")
    assert claim.verdict == "reproduced" and claim.count() == {"cases": 3}
    assert claim.main.notes == ("the printed bound fails in 1 of 3 cases (erratum)",)
    pretend.cases(tmp_path / "wrong", wrong=1)
    assert judged(evidence_of(tmp_path / "wrong"), "bn_magnifies").verdict == "contradicted"


def test_counts_after_rounding(tmp_path):
    pretend.counts(tmp_path, [("VGG-19", 20_029_514, 20.03), ("ResNet-110", 1_731_000, 1.72)])
    claim = judged(evidence_of(tmp_path), "parameter_counts")
    assert claim.verdict == "contradicted" and claim.main.notes == ("ResNet-110: 1731000, printed 1.72M",)
    assert "no count of WRN-28-10" in claim.missing and len(claim.missing) == 7


def test_claims_of_both_chapters_are_written_and_read_again(gradinit, evidence):
    found = claims.judge_all(DEFINED, {"gradinit": gradinit, "poisoning": evidence}, SECTIONS)
    page = claims_formats.markdown(found, "mini")
    assert "| `depth_1202` |" in page and "| `cp_beats_fc` |" in page
    assert "20 targets x 4 victims, 1 seed" in page and "| 3 seeds, 2 networks |" in page
    plain = {one["id"]: one for one in json.loads(claims_formats.as_json(found, "mini"))["claims"]}
    assert plain["no_warmup_sgd"]["unit"] == "bleu"
    said = {claim.id: claim.says for claim in found}
    assert {name: one["says"] for name, one in plain.items()} == said  # and not what the deciding part says
    assert plain["no_warmup_sgd"]["n"] == {"networks": 2, "seeds": 3, "trials": 6}


def started(root, *, above=0.0, gamma=1.0, eta=0.1, lr=0.1, seeds=SEEDS):
    """Trainings of VGG-19 from GradInit and Kaiming, GradInit ten points better; ``above`` of 60 iterations descend the norm."""
    for seed in seeds:
        for start, accuracy in (("gradinit", 0.9), ("kaiming", 0.8)):
            settings = (
                {"arguments": {"gamma": gamma, "eta": eta}} if start == "gradinit" else {"arguments": {}}
            )
            metrics = {"constraint_count": above, "iterations_count": 60.0}
            pretend.initialise(root, "VGG-19", start, metrics, seed=seed, settings=settings)
            more = {"acc1_frac": accuracy + seed / 100, "accbest_frac": accuracy + seed / 100}
            pretend.train(root, "VGG-19", start, more, seed=seed, settings={"lr": lr})
    return evidence_of(root)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"above": 30.0}, None),
        ({"above": 60.0}, "gradinit of VGG-19: 60 of 60 iterations above the bound on the norm"),
        ({"above": 31.0}, "gradinit of VGG-19: 31 of 60 iterations above the bound on the norm"),
        ({"above": 60.0, "gamma": None}, None),
        ({"eta": 0.025}, "gradinit of VGG-19: looks ahead at 0.025, trained at 0.1"),
        ({"eta": 0.04}, None),
        ({"eta": 0.4}, "gradinit of VGG-19: looks ahead at 0.4, trained at 0.1"),
    ],
)
def test_a_gradinit_that_was_none_decides_nothing(tmp_path, given, said):
    """A search that mostly descended the norm, or looked ahead with another rate than the training's."""
    claim = judged(started(tmp_path, **given), "first_epoch_accuracy")
    assert claim.numbers_say == "reproduced"
    assert claim.verdict == ("underpowered" if said else "reproduced")
    assert claim.reasons == ((said,) if said else ())


def test_many_starts_above_the_bound_are_one_line():
    counts = {60: {45, 51}, 390: {200}}
    found = [starts._unmet(*one) for one in counts.items()]
    assert found == [
        "45 to 51 of 60 iterations above the bound on the norm",
        "200 of 390 iterations above the bound on the norm",
    ]


def test_costs_do_not_ask_whether_the_bound_was_met(tmp_path):
    for seed in SEEDS:
        for start, seconds in (("gradinit", 1.0), ("gradinit_penalty_1", 2.0)):
            metrics = {"initialise_s": seconds, "constraint_count": 60.0, "iterations_count": 60.0}
            settings = {"arguments": {"gamma": 1.0, "eta": 0.1}}
            pretend.initialise(tmp_path, "VGG-19", start, metrics, seed=seed, settings=settings)
    claim = judged(evidence_of(tmp_path), "constraint_not_penalty")
    assert part(claim, "VGG-19: seconds").verdict == "reproduced" and not claim.reasons


@pytest.mark.parametrize(
    ("network", "decisive", "word"),
    [("VGG-19-BN", False, "direction"), ("ResNet-110-BN", True, "contradicted")],
)
def test_the_ratio_of_figure_4_1_decides_where_the_figure_shows_it(tmp_path, network, decisive, word):
    """Deviations that fall with the whole gradient leave their ratio to its mean where it was."""
    before, after = pretend.layers(network, False), pretend.layers(network, True)
    for first, second in zip(before, after):
        second["relative_std"] = first["relative_std"]
    for seed in SEEDS:
        pretend.gradients(tmp_path, network, "kaiming", before, seed=seed)
        pretend.gradients(tmp_path, network, "gradinit", after, seed=seed)
    claim = judged(evidence_of(tmp_path), "lower_gradient_variance")
    relative = part(claim, f"{network}: share of layers with a smaller sigma(g) / |E g|")
    assert claim.verdict == word and relative.decides == decisive
    assert relative.interval.estimate == 0.0


@pytest.mark.parametrize(
    ("name", "share"),
    [("decoder.0.self_attention.q.weight", 1.0), ("decoder.0.self_attention.v.weight", 2 / 3)],
)
def test_weights_that_figure_4_9_excepts_do_not_count(tmp_path, name, share):
    rows = [
        {"name": one, "index": i, "kind": "linear", "gradient_std": 1.0, "relative_std": 1.0}
        for i, one in enumerate(("encoder.0.out.weight", name, "decoder.0.ffn.fc2.weight"))
    ]
    after = [row | {"gradient_std": 2.0 if row["name"] == name else 0.5} for row in rows]
    for seed in SEEDS:
        pretend.gradients(tmp_path, "post_ln", "xavier", rows, seed=seed)
        pretend.gradients(tmp_path, "post_ln", "gradinit", after, seed=seed)
    claim = judged(evidence_of(tmp_path), "lower_gradient_variance")
    assert part(claim, "post_ln: share of layers with a smaller sigma(g),").interval.estimate == share


def test_a_claim_about_several_networks_says_how_each_did(tmp_path):
    """The verdict is that of the weakest; one whose GradInit met no bound is underpowered alone."""
    started(tmp_path)
    for start, value in (("gradinit", 0.7), ("kaiming", 0.8)):
        trained(tmp_path, "VGG-19-BN", start, "acc1_frac", [value, value + 0.01, value + 0.02])
    claim = judged(evidence_of(tmp_path), "first_epoch_accuracy")
    assert claim.verdict == "contradicted"
    assert claim.apart == {"VGG-19": "reproduced", "VGG-19-BN": "contradicted"}
    page = claims_formats.markdown([claim], "mini")
    assert "- each alone: VGG-19: reproduced; VGG-19-BN: contradicted" in page
    assert json.loads(claims_formats.as_json([claim], "mini"))["claims"][0]["apart"] == claim.apart
    started(tmp_path / "unmet", above=60.0)
    alone = judged(evidence_of(tmp_path / "unmet"), "first_epoch_accuracy")
    assert alone.apart == {}  # one network is the claim
