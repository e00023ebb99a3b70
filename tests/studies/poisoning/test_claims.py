"""Each verdict is reached by a study that deserves it, through records, predicate and judgement."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from relearn.report import claims, claims_formats
from relearn.report.claims_file import unfolded
from relearn.report.comparisons import Finding
from relearn.report.quantities import Trial
from relearn.studies.poisoning.claims import PREDICATES, knn

from ...report import conftest as report
from ...report.conftest import FOLDERS, SECTIONS, evidence_of
from .fake_records import VICTIMS, write_run

ISSUE = {
    *("cp_beats_fc", "cp_black_box", "attack_is_invisible", "knn_removes_poisons", "knn_keeps_accuracy"),
    *(
        "knn_beats_baselines",
        "best_k_is_1_to_2_class_sizes",
        "hull_proposition",
        "dropout_transfers",
        "overlap_not_needed",
    ),
    *("multilayer_end_to_end", "replication_helps"),
}
DEFINED = claims.load(FOLDERS)
HELD = {"inside_count": 50, "inside_separators_count": 0, "outside_count": 50, "outside_separators_count": 50}


judged = partial(report.judged, {"poisoning": DEFINED["poisoning"]})


@pytest.fixture
def judge_study(make_study):
    return lambda name, **changes: judged(evidence_of(make_study(**changes)), name)


# few defences and one attack where a claim needs no more: a study is written to disk run by run
BARE = {"defences": ()}
KNN = {"defences": ("deep_knn",)}


def test_every_claim_of_this_chapter_has_a_predicate_and_every_predicate_a_claim():
    assert set(PREDICATES) == ISSUE
    assert set(DEFINED["poisoning"]) == ISSUE


def test_what_has_no_predicate_is_not_run_and_says_so(evidence):
    later = {"kind": "exact", "source": "nowhere", "says": "nothing", "predicate": "none yet"}
    defined = {**DEFINED, "unwritten": {"later": later}}
    found = claims.judge_all(defined, {"poisoning": evidence}, SECTIONS)
    assert len(found) == sum(len(section) for section in defined.values())
    others = [claim for claim in found if claim.id not in ISSUE]
    assert others and all(claim.verdict == "not_run" for claim in others)
    written = {(section, name) for section, one in SECTIONS.items() for name in one.predicates}
    unwritten = [claim for claim in others if (claim.section, claim.id) not in written]
    assert unwritten and all(claim.reasons == ("no predicate in this version",) for claim in unwritten)
    assert all(claim.reasons == ("no runs",) for claim in others if claim not in unwritten)


def test_effect_of_the_paired_difference_by_hand(evidence):
    claim = judged(evidence, "cp_beats_fc")
    # of twenty targets polytope takes the ten even ones, collision the five that four divides
    assert claim.main.interval.estimate == pytest.approx(10 / 20 - 5 / 20)
    assert claim.count() == {"targets": 20, "victims": 4, "pairs": 80, "seeds": 1, "trials": 80}
    assert claim.verdict == "direction"  # five targets differ, six would decide
    assert len(claim.runs) == 8 and all("/train/" in run and "/none/" in run for run in claim.runs)


def attack_rates(collision, polytope):
    """Successes by attack: a target falls if its number lies below the rate."""
    rates = {"feature_collision": collision, "convex_polytope": polytope, "clean": 0}
    return lambda self, attack, defence, victim, target, k: target < rates[attack]


@pytest.mark.parametrize(
    ("collision", "polytope", "word"),
    [(2, 12, "reproduced"), (5, 7, "direction"), (7, 5, "inconclusive"), (12, 2, "contradicted")],
)
def test_every_trained_verdict_is_reached(judge_study, collision, polytope, word):
    claim = judge_study("cp_beats_fc", success=attack_rates(collision, polytope), **BARE)
    assert claim.verdict == word and not claim.reasons


def test_too_few_targets_are_underpowered_whatever_the_numbers_say(judge_study):
    claim = judge_study("cp_beats_fc", success=attack_rates(1, 18), targets=19, **BARE)
    assert (claim.verdict, claim.numbers_say) == ("underpowered", "reproduced")
    assert claim.reasons[0] == "19 targets, needs 20"


def test_weak_victims_are_underpowered(judge_study):
    claim = judge_study("cp_beats_fc", accuracy=0.55, **BARE)
    assert claim.verdict == "underpowered"
    assert "SENet18 at 55.0% accuracy, needs 60%" in claim.reasons


@pytest.mark.parametrize(
    ("fitted", "reason"),
    [
        ({"train_accuracy_frac": 0.87}, "SENet18 fits 87.0% of its fine-tuning set, needs 98%"),
        (
            {"train_accuracy_frac": 0.99, "poisons_fitted_frac": 0.69},
            "SENet18 fits 69.0% of the poisons left in it, needs 95%",
        ),
        ({}, "fit of SENet18 to its fine-tuning set not measured"),
    ],
)
def test_victims_that_have_not_fitted_their_set_decide_nothing(judge_study, fitted, reason):
    claim = judge_study("cp_beats_fc", fitted=fitted, **BARE)
    assert (claim.verdict, claim.numbers_say) == ("underpowered", "direction") and reason in claim.reasons


def test_what_a_filter_removes_needs_no_fitted_victim(judge_study):
    claim = judge_study("knn_removes_poisons", fitted={}, **KNN)
    assert claim.verdict != "underpowered"


def test_black_box_victims_are_those_whose_threat_model_says_so(judge_study):
    claim = judge_study("cp_black_box", **BARE)
    assert {victim for victim, _, _ in claim.main.keys} == {"MobileNetV2", "DenseNet121"}
    assert claim.main.interval.estimate == pytest.approx(0.5)
    assert claim.verdict == "underpowered" and claim.reasons == ("40 pairs of target and victim, needs 80",)
    both = judge_study("cp_beats_fc", **BARE)
    alone = next(part for part in both.parts if not part.decides)
    assert both.main.interval.estimate == alone.interval.estimate == pytest.approx(0.25)
    assert (
        {victim for victim, _, _ in alone.keys}
        == {"MobileNetV2", "DenseNet121"}
        < {v for v, _, _ in both.main.keys}
    )
    doubled = judge_study("cp_black_box", targets=40, victims=("MobileNetV2", "DenseNet121"), **BARE)
    assert doubled.verdict == "reproduced"


def accuracies(poisoned, filtered=None):
    """Accuracy of the clean set 0.9; of poisoned and filtered sets as given, a little different by target."""

    def answer(self, attack, defence, victim, target, k):
        away = poisoned if defence == "none" else filtered or 0.0
        little = 0.0001 * (target % (3 if defence == "none" else 2) - 1)
        return 0.9 + (0.0 if attack == "clean" else away + little)

    return answer


@pytest.mark.parametrize(
    ("away", "word"),
    [(-0.004, "reproduced"), (-0.03, "contradicted"), (0.03, "contradicted")],
)
def test_invisible_means_equivalent_in_both_directions(judge_study, away, word):
    claim = judge_study("attack_is_invisible", test_accuracy=accuracies(away), success=works, **BARE)
    assert claim.verdict == word


def works(self, attack, defence, victim, target, k):
    return attack != "clean"


def test_an_attack_that_does_nothing_is_not_invisible(judge_study):
    """Accuracy falls only where the attack works, on ten targets of twenty; there it is judged."""

    def answer(self, attack, defence, victim, target, k):
        return 0.9 - (0.03 if self.success(attack, defence, victim, target, k) else 0.0)

    claim = judge_study("attack_is_invisible", test_accuracy=answer, **BARE)
    assert claim.verdict == "contradicted"
    assert claim.main.interval.estimate == pytest.approx(-0.03)
    beside = next(part for part in claim.parts if part.name == "convex_polytope, all attacks")
    assert beside.interval.estimate == pytest.approx(-0.03 / 2) and not beside.decides
    never = judge_study("attack_is_invisible", success=lambda self, *_: False, **BARE)
    assert never.verdict == "not_run" and never.missing[0].endswith("attacks that work")


@pytest.mark.parametrize(
    ("targets", "hit", "word"), [(20, 10, "reproduced"), (20, 9, "underpowered"), (19, 19, "underpowered")]
)
def test_attacks_made_are_counted_and_those_that_work_need_ten_targets(judge_study, targets, hit, word):
    """How many attacks succeed is a result: ten targets with one victim each are enough, if all four victims were attacked."""

    def success(self, attack, defence, victim, target, k):
        return attack != "clean" and target < hit and victim == VICTIMS[0]

    claim = judge_study(
        "attack_is_invisible",
        targets=targets,
        test_accuracy=accuracies(0.001),
        success=success,
        **BARE,
    )
    assert (claim.verdict, claim.numbers_say) == (word, "reproduced")
    assert claim.main.pairs == {(VICTIMS[0], target) for target in range(hit)}


def test_the_attack_that_the_paper_does_not_call_invisible_is_shown_only(judge_study):
    def answer(self, attack, defence, victim, target, k):
        away = {"feature_collision": 0.03, "convex_polytope": 0.001}
        return 0.9 - away.get(attack, 0.0) * (1 + 0.01 * (target % 2))

    claim = judge_study("attack_is_invisible", test_accuracy=answer, success=works, **BARE)
    assert claim.verdict == "reproduced" and claim.main.name.startswith("convex_polytope")
    other = next(part for part in claim.parts if part.name.startswith("feature_collision - "))
    assert other.verdict == "contradicted" and not other.decides


def test_an_attack_that_was_not_run_makes_the_verdict_provisional(judge_study):
    claim = judge_study(
        "knn_keeps_accuracy", attacks=("convex_polytope",), test_accuracy=accuracies(-0.05, -0.052), **KNN
    )
    assert claim.verdict == "reproduced" and claim.provisional
    assert claim.missing[0].startswith("no runs for feature_collision")
    assert "reproduced (provisional)" in claims.tally([claim])


def test_filtering_is_compared_with_the_same_poisoned_set(judge_study):
    kept = judge_study("knn_keeps_accuracy", test_accuracy=accuracies(-0.05, -0.052), **KNN)
    assert kept.main.interval.estimate == pytest.approx(-0.002, abs=1e-4)
    assert kept.verdict == "reproduced"


@pytest.mark.parametrize(("filtered", "word"), [(-0.07, "contradicted"), (0.03, "reproduced")])
def test_a_filter_that_raises_the_accuracy_costs_nothing(judge_study, filtered, word):
    kept = judge_study("knn_keeps_accuracy", test_accuracy=accuracies(-0.05, filtered), **KNN)
    assert kept.verdict == word


def removed(count, mcc=None):
    scores = mcc or {10: 0.3, 50: 0.5, 75: 0.45, 200: 0.2}

    def answer(self, attack, defence, victim, target, k):
        return count(attack, target, k), 19, scores[k or 50]

    return answer


def test_removal_is_judged_inside_the_recommended_range_only(judge_study):
    claim = judge_study(
        "knn_removes_poisons", removed=removed(lambda a, t, k: 5 if k in (50, 75) else 0), **KNN
    )
    assert claim.main.interval.estimate == 1.0
    assert claim.verdict == "direction"  # eighty attacks cannot show 97 percent
    assert claim.main.interval.low == pytest.approx(0.025 ** (1 / 20))
    assert claim.main.units.effective == 0  # of all alike, nobody knows how far victims go together
    assert claim.main.notes[:-1] == ("k = 50: 100.00%", "k = 75: 100.00%")
    assert claim.main.notes[-1] == "if victims are drawn, too: [83.2, 100] %"
    assert claim.main.drawn.high == 1.0  # a share has no end above


def test_removal_of_four_of_five_contradicts(judge_study):
    claim = judge_study("knn_removes_poisons", removed=removed(lambda a, t, k: 4), **KNN)
    assert claim.main.interval.estimate == pytest.approx(0.8)
    assert claim.verdict == "contradicted"


def test_removal_that_differs_by_target_is_less_certain_than_its_attacks(judge_study):
    claim = judge_study("knn_removes_poisons", removed=removed(lambda a, t, k: 5 * (t % 2)), **KNN)
    ends = claim.main.interval
    assert ends.high - ends.low > 0.3  # Wilson over eighty attacks alone: 0.21


def test_removal_can_be_reproduced_with_more_targets_than_the_published_fifty(judge_study):
    """97% needs 0.025 ** (1 / n) above it, 122 targets; a poison that stays makes it no easier."""
    found = removed(lambda attack, target, k: 5 if target else 4)  # one of 5 n poisons stays
    for targets, verdict in ((50, "direction"), (122, "reproduced")):
        claim = judge_study("knn_removes_poisons", removed=found, targets=targets, victims=EIGHT, **KNN)
        assert claim.main.interval.estimate == pytest.approx(1 - 0.2 / targets) and claim.verdict == verdict
        assert claim.main.interval.low <= 0.025 ** (1 / targets) + 1e-12


EIGHT = tuple(f"Network{number}" for number in range(8))


def test_what_the_victim_does_without_an_attack_is_no_failure_of_the_defence(judge_study):
    """Hardened victims take every second target for the poison class, with and without poisons."""

    def success(self, attack, defence, victim, target, k):
        return attack != "clean" and (
            defence == "none" or (defence == "adversarial_training" and target % 2 == 0)
        )

    def control(self, attack, defence, victim, target, k):
        return defence == "adversarial_training" and target % 2 == 0

    chosen = {"defences": ("deep_knn", "adversarial_training"), "success": success}
    claim = judge_study("knn_beats_baselines", control=control, **chosen)
    part = next(part for part in claim.parts if part.name.startswith("adversarial_training"))
    assert part.interval.estimate == 0.0 and part.notes[0] == "not net of the control: +50.0 points"
    assert part.verdict == "inconclusive"
    alone = judge_study("knn_beats_baselines", **chosen)
    part = next(part for part in alone.parts if part.name.startswith("adversarial_training"))
    assert part.interval.estimate == pytest.approx(0.5) and part.verdict == "reproduced"


def test_beating_the_baselines_needs_all_of_them_and_says_what_is_missing(evidence):
    claim = judged(evidence, "knn_beats_baselines")
    assert not claim.provisional and len(claim.parts) == 8 and not claim.missing
    by_name = {part.name: part for part in claim.parts}
    assert by_name["one_class_svm: convex_polytope, deep_knn - baseline"].interval.estimate == pytest.approx(
        0.5
    )
    assert by_name["one_class_svm: convex_polytope, deep_knn - baseline"].verdict == "reproduced"
    assert by_name["l2_outliers: convex_polytope, deep_knn - baseline"].interval.estimate == 0.0
    assert claim.verdict == "inconclusive"


def test_without_adversarial_training_the_verdict_is_provisional(judge_study):
    claim = judge_study("knn_beats_baselines", defences=("deep_knn", "one_class_svm"), targets=4)
    assert (
        claim.provisional
        and "no runs for adversarial_training: convex_polytope, deep_knn - baseline" in claim.missing
    )


@pytest.mark.parametrize(
    ("scores", "word", "best"),
    [
        ({10: 0.3, 50: 0.5, 75: 0.45, 200: 0.2}, "reproduced", 1.0),
        ({10: 0.6, 50: 0.5, 75: 0.45, 200: 0.2}, "contradicted", 0.2),
        ({10: 0.3, 50: 0.5, 75: 0.45, 200: 0.7}, "contradicted", 4.0),
    ],
)
def test_k_rule_reads_the_best_k(judge_study, scores, word, best):
    claim = judge_study("best_k_is_1_to_2_class_sizes", removed=removed(lambda a, t, k: 5, scores), **KNN)
    assert (claim.verdict, claim.main.interval.estimate) == (word, best)


def test_k_rule_doubts_when_targets_disagree(judge_study):
    def answer(self, attack, defence, victim, target, k):
        leaning = 10 if target % 20 < 9 else 50
        return 5, 19, 0.6 if k == leaning else 0.3

    claim = judge_study("best_k_is_1_to_2_class_sizes", removed=answer, **KNN)
    assert claim.verdict == "direction"
    assert (claim.main.interval.low, claim.main.interval.high) == (0.2, 1.0)
    caption = claim.main.notes[2]
    assert caption.startswith("the caption's range [0.4, 2]: estimate inside")


def test_k_rule_doubts_when_victims_disagree(judge_study):
    def answer(self, attack, defence, victim, target, k):
        return 5, 19, 0.6 if k == (200 if victim == "ResNet18" else 50) else 0.3

    claim = judge_study("best_k_is_1_to_2_class_sizes", removed=answer, **KNN)
    assert claim.main.interval.estimate == 1.0
    assert (claim.verdict, claim.main.interval.high) == ("direction", 4.0)


def test_two_attacks_contradict_a_true_k_rule_as_seldom_as_one_comparison():
    """The end of the claimed range is as good as a k below it, so that each attack may miss the range by chance."""
    generator = np.random.default_rng(1)

    def attack():
        values = generator.normal(size=(20, 2))
        ks = {20: 0.4, 50: 1.0}
        trials = [
            Trial("victim", 0, target, k, float(row[place]), "run")
            for target, row in enumerate(values)
            for place, k in enumerate(ks)
        ]
        return knn._best_k("", trials, ks)

    pairs = [(attack(), attack()) for _ in range(1000)]

    def wrong(change):
        found = [claims.judge(Finding([change(one) for one in pair]), lambda _: []) for pair in pairs]
        return sum(one["verdict"] == "contradicted" for one in found) / len(found)

    def lengthened(one):
        """As before: the arms of the interval are multiplied, also an arm of no length."""
        return replace(one, interval=replace(one.interval, steps=()))

    assert (
        wrong(lambda one: one) < 0.035 < wrong(lengthened)
    )  # nominally 0.025 on this side, and 0.05 uncorrected


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "reproduced"),
        ({"inside_separators_count": 1}, "contradicted"),
        ({"outside_separators_count": 49}, "contradicted"),
    ],
)
def test_the_hull_claim_counts_its_cases(judge_study, change, word):
    claim = judge_study("hull_proposition", victims=(), hull=HELD | change)
    assert claim.verdict == word and claim.count() == {"cases": 100}
    assert claims.tally([claim]) == {}  # a theorem's check is no finding about the paper
    page = claims_formats.markdown([claim], "mini")
    assert f"| check: {'holds' if word == 'reproduced' else 'fails'} |" in page
    assert "0 claims: . Not counted" not in page and "Not counted: a check of a theorem." in page


def test_hull_at_a_smaller_size_is_partial(tmp_path):
    settings = {"dimension": 64, "poisons": 5, "problems": 50}
    write_run(tmp_path, "hull_proposition", "", {}, HELD, settings=settings)
    assert judged(evidence_of(tmp_path), "hull_proposition").verdict == "partial"


def test_markdown_and_json_say_the_same(evidence):
    found = list(judged(evidence).values())
    text = claims_formats.markdown(found, "mini")
    data = json.loads(claims_formats.as_json(found, "mini"))
    assert [entry["id"] for entry in data["claims"]] == [claim.id for claim in found]
    best = next(entry for entry in data["claims"] if entry["id"] == "cp_beats_fc")
    assert (best["verdict"], best["effect"], best["n"]["pairs"]) == ("direction", 0.25, 80)
    assert best["low"] < best["effect"] < best["high"]
    assert "+25.0 [" in text and "points" in text
    for run in unfolded(best["runs"]):
        assert not run.startswith("/") and f"[{run}]({run}/record.json)" in text
    for entry, claim in zip(data["claims"], found):
        runs = unfolded(entry["runs"])
        assert runs == claim.runs
        parts = [[runs[place] for place in part["runs"]] for part in entry["parts"]]
        assert parts == [list(part.runs) for part in claim.parts]


def test_equal_records_give_equal_claims(evidence, root):
    again = evidence_of(root)
    texts = [claims_formats.as_json(list(judged(one).values()), "mini") for one in (evidence, again)]
    assert texts[0] == texts[1]
