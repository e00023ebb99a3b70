"""The claims of the other settings: each reads its own runs, its own victims, and reaches its verdicts."""

import pytest

from relearn.report.statistics import wilson

from ...report.conftest import evidence_of
from . import fake_settings
from .fake_records import write_run
from .test_claims import judged

BARE = {"attacks": (), "defences": ()}


@pytest.fixture
def judge_extra(make_study):
    def judge(name, *extras, **changes):
        return judged(evidence_of(make_study(extras=extras, **{**BARE, **changes})), name)

    return judge


@pytest.mark.parametrize(
    ("loss", "word"),
    [
        ({}, "reproduced"),
        (
            {"convex_polytope": 0.3, "convex_polytope_no_dropout": 0.1},
            "contradicted",
        ),  # the weaker of both decides
        ({"feature_collision": 5.0}, "identical"),  # no difference at all
    ],
)
def test_dropout_is_judged_on_the_loss_in_victims(judge_extra, loss, word):
    claim = judge_extra("dropout_transfers", fake_settings.craft(loss))
    assert (claim.verdict, claim.provisional, len(claim.parts)) == (word, False, 2)
    assert claim.count()["pairs"] == 80 and all("/craft/" in run for run in claim.runs)


def test_dropout_effect_by_hand(judge_extra):
    claim = judge_extra("dropout_transfers", fake_settings.craft())
    polytope = next(part for part in claim.parts if part.name.startswith("convex_polytope"))
    # losses 0.1 and 0.3, up by 0, 1 or 2 percent with the target's number modulo 3, over 20 targets
    grown = 1 + 0.01 * (7 * 0 + 7 * 1 + 6 * 2) / 20
    assert polytope.interval.estimate == pytest.approx((0.1 - 0.3) * grown)
    assert polytope.unit == "loss" and str(polytope.claimed) == "< 0"
    assert "mean loss with: 0.1009" in polytope.notes[0]  # 0.1 * 1.0095


def test_a_rejected_poison_has_no_loss(tmp_path):
    from relearn.studies.poisoning.claims.victim_loss import victim_losses

    rows = [
        {"target": 0, "rejected": "not finite", "victim_loss_SENet18": 9.0},
        {"target": 1, "rejected": "", "victim_loss_SENet18": 1.0},
        {"target": 2, "rejected": "", "victim_loss_SENet18": "nan"},
    ]
    write_run(tmp_path, "craft", "convex_polytope", {"attack": "convex_polytope"}, {}, rows=rows)
    found = victim_losses(evidence_of(tmp_path), "convex_polytope")
    assert [(trial.victim, trial.target, trial.value) for trial in found] == [("SENet18", 1, 1.0)]


@pytest.mark.parametrize(("of_four", "word"), [(2, "reproduced"), (0, "inconclusive")])
def test_overlap_is_judged_where_no_image_is_shared(judge_extra, of_four, word):
    claim = judge_extra(
        "overlap_not_needed", fake_settings.overlap(of_four), roles=("victim", "victim_disjoint")
    )
    assert claim.verdict == word
    assert claim.main.interval.estimate == of_four / 4  # 2 and 1 of four in the other overlaps
    assert all("/overlap_disjoint/" in run for run in claim.runs)


def test_overlap_asks_for_the_accuracy_of_its_own_victims(judge_extra):
    claim = judge_extra("overlap_not_needed", fake_settings.overlap(), roles=("victim",))
    assert claim.verdict == "underpowered" and "accuracy of SENet18 not measured" in claim.reasons


@pytest.mark.parametrize(
    ("paper", "released", "word"), [(3, 0, "reproduced"), (0, 3, "inconclusive"), (1, 4, "direction")]
)
def test_several_layers_are_judged_on_the_papers_form(judge_extra, paper, released, word):
    claim = judge_extra("multilayer_end_to_end", fake_settings.end_to_end(paper, released))
    assert claim.verdict == word and claim.main.interval.estimate == paper / 4
    beside = claim.parts[1]
    assert not beside.decides and beside.interval.estimate == released / 4
    assert all("/end_to_end/" in run for run in claim.runs)


def test_the_released_form_alone_decides_nothing(tmp_path):
    for attack, success in (("convex_polytope", 0), ("multi_layer_as_released", 1)):
        labels = {"setting": "end_to_end", "attack": attack, "defence": "none", "victim": "SENet18"}
        row = {"target": 0, "chosen": 1, "success": success, "test_accuracy_frac": 0.9}
        write_run(tmp_path, "train", f"end_to_end/{attack}", labels, {}, rows=[row])
    claim = judged(evidence_of(tmp_path), "multilayer_end_to_end")
    assert claim.verdict == "not_run" and claim.reasons == (
        "no runs for several layers (paper) - last layer",
    )


@pytest.mark.parametrize(("helps", "word"), [(True, "reproduced"), (False, "contradicted")])
def test_replication_is_compared_size_by_size(judge_extra, helps, word):
    claim = judge_extra("replication_helps", fake_settings.imbalance(helps), attacks=("convex_polytope",))
    assert claim.verdict == word  # a harm counts although nothing gets through without replication
    assert claim.main.room == pytest.approx(0.5 if helps else 0.0)
    # half of the targets get through at both sizes below 0.7, and those are the ones that work undefended
    sign = 1 if helps else -1
    by_name = {part.name.split(",")[1].split(":")[0].strip(): part for part in claim.parts}
    assert by_name["all attacks"].interval.estimate == pytest.approx(sign * 0.5)
    assert by_name["effective"].interval.estimate == pytest.approx(sign * 1.0)
    assert [part.decides for part in claim.parts] == [True, False, False]
    assert [note.split(":")[0] for note in claim.main.notes[:2]] == ["n/N = 0.1", "n/N = 0.5"]
    assert claim.count() == {"targets": 20, "victims": 4, "pairs": 80, "seeds": 1, "trials": 80}


def test_what_unperturbed_bases_do_as_well_is_no_help_of_replication(judge_extra):
    claim = judge_extra(
        "replication_helps", fake_settings.imbalance(natural=True), attacks=("convex_polytope",)
    )
    assert claim.verdict == "underpowered" and claim.main.interval.estimate == 0.0
    (raw,) = [part for part in claim.parts if "not net" in part.name]
    assert raw.verdict == "reproduced" and not raw.decides and raw.interval.estimate == pytest.approx(0.5)


def test_balanced_classes_say_nothing_about_replication(judge_extra):
    claim = judge_extra(
        "replication_helps", fake_settings.imbalance(below=0.05), attacks=("convex_polytope",)
    )
    assert claim.verdict == "underpowered" and claim.main.room == claim.main.interval.estimate == 0.0
    assert claim.reasons == (
        "without replication 0% of attacks get through the filter (net of the control), needs 5%",
    )
    # what 20 equal targets cannot exclude of a difference of two outcomes, net of controls or not
    for part, widest in ((claim.main, 2), (claim.parts[-1], 1)):
        high = widest * wilson(0, 20).high
        assert (part.interval.low, part.interval.high) == pytest.approx((-high, high))


def test_other_settings_do_not_leak_into_the_transfer_claims(evidence):
    found = judged(evidence)
    for name in (
        "cp_beats_fc",
        "cp_black_box",
        "attack_is_invisible",
        "knn_removes_poisons",
        "best_k_is_1_to_2_class_sizes",
    ):
        assert found[name].runs and all("/transfer/" in run for run in found[name].runs), name
    assert found["cp_beats_fc"].main.interval.estimate == pytest.approx(10 / 20 - 5 / 20)
