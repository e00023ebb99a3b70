"""The claims of zhu2022, chapter 3: each predicate reproduced, contradicted, missing and underpowered; medians over seeds."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.report import claims, claims_formats, statistics
from relearn.report.seeds import Sample, listed
from relearn.report.verdicts import Above
from relearn.studies.freelb.claims import PREDICATES, medians

from ...report import conftest as report
from ...report.conftest import FOLDERS, part
from . import fake_records as pretend

OURS = {"freelb": claims.load(FOLDERS)["freelb"]}
TRAINED = {"freelb_beats_pgd", "mask_reuse", "yopo_not_better", "smallest_max_increase"}
SEEDS = (0, 1, 2)


judged = partial(report.judged, OURS)


def test_every_claim_has_a_predicate():
    assert set(PREDICATES) == set(OURS["freelb"]) == TRAINED | {"gradient_equals_virtual_batch"}
    assert {name for name, one in OURS["freelb"].items() if one["kind"] == "exact"} == {
        "gradient_equals_virtual_batch"
    }


def test_the_chapter_as_the_paper_has_it(tmp_path):
    found = judged(pretend.Chapter().write(tmp_path, noise=lambda seed: 0.001 * seed))
    assert {name: claim.verdict for name, claim in found.items()} == dict.fromkeys(PREDICATES, "reproduced")
    missing = {name: claim.missing for name, claim in found.items() if claim.missing}
    assert missing == {"freelb_beats_pgd": ("no runs of freelb on mnli, qnli, qqp, sst2, stsb (table 3.1)",)}
    page = claims_formats.markdown(list(found.values()), "mini")
    assert "five seeds of the released script gave 85.7" in page and "rte: freelb - freelb_fresh" in page


@pytest.mark.parametrize("seeds", [(0,), (1, 2)])
def test_too_few_seeds_are_underpowered_whatever_they_say(tmp_path, seeds):
    few = type("Few", (pretend.Chapter,), {"seeds": seeds, "tasks": ("rte",)})()
    found = judged(few.write(tmp_path))
    for name in TRAINED:
        assert found[name].verdict == "underpowered"
        assert found[name].reasons == (f"{len(seeds)} seed{'s' * (len(seeds) > 1)}, needs 3",)
    assert found["gradient_equals_virtual_batch"].verdict == "reproduced"


def idle(method_score):
    """A chapter in which vanilla training learns nothing of CoLA and MRPC."""

    def score(self, task, method):
        if task != "rte" and method == "vanilla":
            return 0.5, "not_converged"
        return method_score(task, method), "ok"

    return type("Idle", (pretend.Chapter,), {"score": score})()


def test_a_task_at_the_majority_answer_is_left_out_and_shown(tmp_path):
    """RTE says one thing, the tasks without a vanilla network the other."""
    better = {"freelb": 0.9}
    found = judged(
        idle(
            lambda task, method: better.get(method, 0.8) if task == "rte" else 0.9 - better.get(method, 0.2)
        ).write(tmp_path, noise=lambda seed: 0.001 * seed)
    )
    for name in ("freelb_beats_pgd", "mask_reuse", "yopo_not_better"):
        claim = found[name]
        assert claim.verdict == "reproduced", name
        assert any(one.name.startswith("cola") and one.verdict == "contradicted" for one in claim.parts)
        deciding = [one for one in claim.parts if one.decides]
        assert all("cola" not in one.name for one in deciding) and deciding
    notes = [note for claim in found.values() for one in claim.parts for note in one.notes]
    assert "mrpc: left out, because vanilla or the compared runs are not above the majority answer" in notes


def test_claims_are_underpowered_if_no_task_is_learned(tmp_path):
    never = {"score": lambda self, task, method: (0.5, "not_converged" if method == "vanilla" else "ok")}
    found = judged(type("Never", (pretend.Chapter,), never)().write(tmp_path))
    for name in TRAINED:
        claim = found[name]
        assert claim.verdict == "underpowered" and claim.numbers_say
        assert all("vanilla training is not above the majority answer on" in one for one in claim.reasons)
    reasons = found["freelb_beats_pgd"].reasons
    assert reasons == ("vanilla training is not above the majority answer on rte, cola, mrpc",)


@pytest.mark.parametrize(("lost", "word"), [(1, "reproduced"), (2, "underpowered")])
def test_a_task_counts_where_most_of_its_vanilla_trainings_learned(tmp_path, lost, word):
    for seed in SEEDS:
        outcome = "not_converged" if seed < lost else "ok"
        pretend.finetune(tmp_path, "rte", "vanilla", 0.6, seed=seed, outcome=outcome)
    pretend.several(tmp_path, "rte", freelb=0.9, pgd=0.8, free_at=0.7)
    assert judged(tmp_path, "freelb_beats_pgd").verdict == word


def test_without_a_vanilla_training_no_task_counts(tmp_path):
    pretend.several(tmp_path, "rte", freelb=0.9, freelb_fresh=0.8)
    assert judged(tmp_path, "mask_reuse").verdict == "underpowered"


def test_methods_that_all_give_the_majority_answer_are_not_equally_good(tmp_path):
    """Two tasks, and on one nobody but vanilla training learns: the other decides; alone it decides nothing."""
    for seed in SEEDS:
        pretend.finetune(tmp_path, "cola", "vanilla", 0.7, seed=seed)
        for method in ("freelb", "pgd", "free_at"):
            pretend.finetune(tmp_path, "cola", method, 0.5, seed=seed, outcome="not_converged")
    assert judged(tmp_path, "freelb_beats_pgd").verdict == "underpowered"
    pretend.several(tmp_path, "rte", vanilla=0.9, freelb=0.7, pgd=0.8, free_at=0.6)
    assert judged(tmp_path, "freelb_beats_pgd").verdict == "contradicted"


def collapsed(root, task, *methods):
    for method in methods:
        for seed in SEEDS:
            pretend.finetune(root, task, method, 0.5, seed=seed, outcome="not_converged" if seed else "ok")


def test_to_be_ahead_of_networks_that_have_not_learned_says_nothing(tmp_path):
    """Most of a rival's trainings have to be above the majority answer; of two rivals one of them."""
    pretend.several(tmp_path, "rte", vanilla=0.9, freelb=0.8)
    collapsed(tmp_path, "rte", "pgd", "free_at", "freelb_fresh", "yopo_3_whole")
    found = judged(tmp_path)
    for name in TRAINED - {"smallest_max_increase"}:
        claim = found[name]
        assert claim.verdict == "underpowered" and claim.numbers_say == "reproduced", name
        (reason,) = claim.reasons
        assert reason.endswith("not above the majority answer on rte")
    pretend.several(tmp_path / "b", "rte", vanilla=0.9, freelb=0.8, pgd=0.85)
    collapsed(tmp_path / "b", "rte", "free_at")
    assert judged(tmp_path / "b", "freelb_beats_pgd").verdict == "contradicted"


def test_a_rival_of_which_half_the_trainings_learned_has_not_learned(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=[0.9] * 4, freelb=[0.8] * 4)
    for method in ("pgd", "free_at"):
        for seed in range(4):
            outcome = "not_converged" if seed < 2 else "ok"
            pretend.finetune(tmp_path, "rte", method, 0.5, seed=seed, outcome=outcome)
    claim = judged(tmp_path, "freelb_beats_pgd")
    assert claim.verdict == "underpowered" and claim.numbers_say == "reproduced"


def test_a_collapsed_freelb_is_behind_its_rivals(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.9, pgd=0.8, free_at=0.7, freelb_fresh=0.75, yopo_3=0.8)
    collapsed(tmp_path, "rte", "freelb")
    found = judged(tmp_path)
    assert {found[name].verdict for name in TRAINED - {"smallest_max_increase"}} == {"contradicted"}


def test_a_yopo_that_has_not_learned_leaves_the_others_to_decide(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.9, freelb=0.8, yopo_2=0.85)
    collapsed(tmp_path, "rte", "yopo_3")
    claim = judged(tmp_path, "yopo_not_better")
    assert claim.verdict == "contradicted" and [one.decides for one in claim.parts] == [True, False]


@pytest.mark.parametrize("method", ["freelb", "pgd"])
def test_a_constant_network_has_no_increase_and_proves_nothing(tmp_path, method):
    increases_of(tmp_path, freelb=1e-4, pgd=2e-4, vanilla=3e-4)
    assert judged(tmp_path, "smallest_max_increase").verdict == "reproduced"
    collapsed(tmp_path, "rte", method)
    claim = judged(tmp_path, "smallest_max_increase")
    assert claim.verdict == "underpowered"
    assert claim.reasons == ("FreeLB or PGD is not above the majority answer on rte",)


def test_tasks_on_which_no_compared_method_learned_decide_nothing(tmp_path):
    """Of three tasks two are equal at the majority answer: were they counted, FreeLB would be as good on most, and no masks better."""
    for task in ("cola", "mrpc"):
        for seed in SEEDS:
            pretend.finetune(tmp_path, task, "vanilla", 0.7, seed=seed)
            for method in ("freelb", "freelb_fresh", "pgd", "free_at"):
                pretend.finetune(tmp_path, task, method, 0.5, seed=seed, outcome="not_converged")
    pretend.several(tmp_path, "rte", vanilla=0.9, freelb=0.7, freelb_fresh=0.6, pgd=0.8, free_at=0.6)
    found = judged(tmp_path)
    assert found["freelb_beats_pgd"].verdict == "contradicted"
    assert found["mask_reuse"].verdict == "reproduced"
    deciding = [one.name for one in found["mask_reuse"].parts if one.decides]
    assert deciding == ["rte: freelb - freelb_fresh"]


# FreeLB against PGD and FreeAT


@pytest.mark.parametrize(
    ("rank", "word"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_ranks_are_written_as_in_english(rank, word):
    assert medians.ordinal(rank) == word


def tasks_of(root, gaps, **more):
    """FreeLB better than both rivals by these gaps, a task each, seed by seed."""
    for task, gap in zip(("rte", "cola", "mrpc", "sst2"), gaps):
        each = list(gap) if isinstance(gap, tuple) else [gap] * 3
        pretend.several(
            root, task, vanilla=0.6, freelb=[0.8 + one for one in each], pgd=0.8, free_at=0.7, **more
        )


@pytest.mark.parametrize(
    ("gaps", "word", "estimate"),
    [
        ((0.1,), "reproduced", 0.1),
        ((0.1, 0.05, -0.2), "reproduced", 0.05),  # two of three
        ((0.1, -0.05, -0.2), "contradicted", -0.05),
        ((0.1, 0.2, -0.05, -0.2), "contradicted", -0.05),  # a half is no majority
        ((0.1, 0.2, 0.05, -0.2), "reproduced", 0.05),
        ((0.0, 0.0, -0.2), "identical", 0.0),  # of the same numbers nothing follows
        (((0.1, -0.1, 0.05),), "direction", 0.05),
        (((0.1, -0.1, -0.05),), "inconclusive", -0.05),
    ],
)
def test_better_on_a_majority_of_the_tasks(tmp_path, gaps, word, estimate):
    tasks_of(tmp_path, gaps)
    claim = judged(tmp_path, "freelb_beats_pgd")
    assert claim.verdict == word and len(claim.missing) == 1 and claim.missing[0].endswith("(table 3.1)")
    assert claim.main.interval.estimate == pytest.approx(estimate, abs=1e-12)
    assert [one.decides for one in claim.parts] == [True, *[False] * len(gaps) * (len(gaps) > 1)]
    words = {1: "rte: ", 2: "on most of 2 tasks: ", 3: "on most of 3 tasks: ", 4: "on most of 4 tasks: "}
    assert words[len(gaps)] in claim.main.name
    largest = {
        1: "difference of medians; ",
        2: "2nd largest of 2",
        3: "2nd largest of 3",
        4: "3rd largest of 4",
    }
    assert largest[len(gaps)] in claim.main.method


def test_the_rival_with_the_better_median_counts_seed_by_seed(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=0.8, pgd=[0.7, 0.85, 0.75], free_at=[0.9, 0.6, 0.78])
    found = judged(tmp_path, "freelb_beats_pgd").main
    assert found.interval.estimate == pytest.approx(np.median([-0.1, 0.2, 0.02]))
    pretend.several(tmp_path / "b", "rte", vanilla=0.6, freelb=0.8, pgd=[0.7, 0.85, 0.75])
    claim = judged(tmp_path / "b", "freelb_beats_pgd")
    assert claim.provisional and claim.missing[0] == "no runs for free_at on rte" and claim.main.among == 1


def test_a_training_that_diverged_answers_one_class(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=0.8, pgd=[None, None, None], free_at=0.4)
    pretend.several(tmp_path, "cola", vanilla=0.6, freelb=0.1, pgd=[None, None, None], free_at=-0.1)
    claim = judged(tmp_path, "freelb_beats_pgd")
    assert part(claim, "rte").interval.estimate == pytest.approx(0.8 - 0.5)
    assert part(claim, "cola").interval.estimate == pytest.approx(0.1)  # Matthews' coefficient of one class
    assert "pgd: median score 50.0%; 3 of 3 diverged" in part(claim, "rte").notes


def test_seeds_that_not_all_methods_have_are_left_out(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=0.8, pgd=0.7, free_at=[0.7, 0.7])
    claim = judged(tmp_path, "freelb_beats_pgd")
    assert claim.verdict == "underpowered" and claim.main.seeds == {0, 1}
    pretend.finetune(tmp_path / "b", "rte", "freelb", 0.8, seed=0)
    pretend.finetune(tmp_path / "b", "rte", "pgd", 0.8, seed=1)
    claim = judged(tmp_path / "b", "freelb_beats_pgd")
    assert "no seed with all of freelb, pgd, free_at on rte" in claim.missing and claim.verdict == "not_run"


def test_tasks_without_any_rival_are_no_part_of_the_claim(tmp_path):
    tasks_of(tmp_path, (0.1,))
    pretend.several(tmp_path, "mrpc_from_mnli", vanilla=0.6, freelb=0.8)
    claim = judged(tmp_path, "freelb_beats_pgd")
    assert claim.verdict == "reproduced" and not any("mrpc_from_mnli" in one for one in claim.missing)
    assert [part.name for part in claim.parts] == ["rte: freelb - the better of pgd and free_at"]


def test_other_encoders_say_nothing(tmp_path):
    tasks_of(tmp_path, (0.1,))
    for seed in SEEDS:
        for method, score in (("vanilla", 0.6), ("freelb", 0.1), ("pgd", 0.9), ("free_at", 0.9)):
            pretend.finetune(tmp_path, "rte", method, score, encoder="bert", seed=seed)
    assert judged(tmp_path, "freelb_beats_pgd").verdict == "reproduced"


# masks and YOPO


@pytest.mark.parametrize(
    ("fresh", "word"),
    [
        (0.78, "reproduced"),
        (0.82, "contradicted"),
        (0.8, "identical"),  # of the same numbers nothing follows
        ([0.78, 0.81, 0.79], "direction"),
    ],
)
def test_masks_reused_and_redrawn(tmp_path, fresh, word):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=0.8, freelb_fresh=fresh)
    claim = judged(tmp_path, "mask_reuse")
    assert claim.verdict == word
    assert claim.missing == ("no runs of freelb and freelb_fresh on cola, mrpc (table 3.4)",)


def test_it_is_the_difference_of_medians_and_not_of_means(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=[0.8, 0.81, 0.1], freelb_fresh=[0.7, 0.9, 0.79])
    found = judged(tmp_path, "mask_reuse").main
    assert found.interval.estimate == pytest.approx(0.8 - 0.79)
    assert found.interval.low < -0.5  # the training that failed is in the interval
    assert {"freelb: median score 80.0%", "freelb_fresh: median score 79.0%"} <= set(found.notes)


def test_every_task_with_both_must_agree(tmp_path):
    for task, fresh in (("rte", 0.7), ("cola", 0.9)):
        pretend.several(tmp_path, task, vanilla=0.6, freelb=0.8, freelb_fresh=fresh)
    pretend.several(tmp_path, "mrpc", vanilla=0.6, freelb=0.8)
    pretend.several(tmp_path, "sst2", vanilla=0.6, freelb_fresh=0.8)
    claim = judged(tmp_path, "mask_reuse")
    assert claim.verdict == "contradicted" and claim.main.name == "cola: freelb - freelb_fresh"
    assert claim.missing[0] == "no runs for sst2: freelb - freelb_fresh"


@pytest.mark.parametrize(
    ("scores", "word"),
    [
        ({"yopo_2": 0.79, "yopo_3": 0.8}, "identical"),  # of the same numbers nothing follows
        ({"yopo_2": 0.79, "yopo_3": [0.8, 0.8, 0.79]}, "direction"),
        ({"yopo_2": 0.79, "yopo_3": 0.81}, "contradicted"),
        ({"yopo_2": 0.7, "yopo_3_whole": 0.81}, "contradicted"),
        ({"yopo_2_whole": [0.79, 0.82, 0.78]}, "direction"),
    ],
)
def test_no_yopo_is_better(tmp_path, scores, word):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=0.8, **scores)
    claim = judged(tmp_path, "yopo_not_better")
    assert (claim.verdict, len(claim.parts)) == (word, len(scores))


# the largest increase of the loss


def increases_of(root, tasks=("rte",), outcome="ok", **increases):
    for task in tasks:
        for seed in SEEDS:
            pretend.finetune(root, task, "vanilla", 0.8, seed=seed, outcome=outcome)
            own = {
                name: value[seed] if isinstance(value, list) else value for name, value in increases.items()
            }
            pretend.max_loss_increase(root, task, own, seed=seed)


@pytest.mark.parametrize(
    ("increases", "word"),
    [
        ({"freelb": 1e-4, "pgd": 2e-4, "vanilla": 3e-4}, "reproduced"),
        ({"freelb": 1e-4, "pgd": 0.5e-4, "vanilla": 3e-4}, "contradicted"),
        ({"freelb": 1e-4, "pgd": 2e-4, "vanilla": 0.5e-4}, "contradicted"),
        ({"freelb": 1e-4, "pgd": [0.9e-4, 2e-4, 1.5e-4], "vanilla": 3e-4}, "direction"),
        ({"freelb": 0.0, "pgd": 0.0, "vanilla": 3e-4}, "identical"),  # of the same numbers nothing follows
    ],
)
def test_freelb_has_the_smallest_increase(tmp_path, increases, word):
    increases_of(tmp_path, **increases)
    claim = judged(tmp_path, "smallest_max_increase")
    assert (claim.verdict, len(claim.parts)) == (word, 4)
    assert claim.missing == ("no runs on cola, mrpc (table 3.5)",)
    assert {one.unit for one in claim.parts} == {"nats"}


def test_both_references_count(tmp_path):
    increases_of(tmp_path, freelb=1e-4, pgd=2e-4, vanilla=3e-4)
    for seed in SEEDS:
        metrics = {"increase_freelb_freelb_nats": 1e-4, "increase_pgd_freelb_nats": 2e-4}
        metrics |= {"increase_vanilla_freelb_nats": 3e-4, "increase_freelb_pgd_nats": 9e-4}
        metrics |= {"increase_pgd_pgd_nats": 2e-4, "increase_vanilla_pgd_nats": 3e-4}
        labels = {"encoder": "roberta", "task": "cola"}
        pretend.write_run(
            tmp_path, step="max_loss_increase", labels=labels, metrics=metrics, files={}, seed=seed
        )
        pretend.finetune(tmp_path, "cola", "vanilla", 0.8, seed=seed)
    claim = judged(tmp_path, "smallest_max_increase")
    assert claim.verdict == "contradicted" and claim.main.name == "cola, radii of pgd: freelb - pgd"


def test_increases_on_a_task_that_vanilla_did_not_learn(tmp_path):
    increases_of(tmp_path, freelb=1e-4, pgd=2e-4, vanilla=3e-4)
    increases_of(tmp_path, ("cola",), "not_converged", freelb=9e-4, pgd=2e-4, vanilla=3e-4)
    claim = judged(tmp_path, "smallest_max_increase")
    assert claim.verdict == "reproduced" and [one.decides for one in claim.parts].count(False) == 4


def test_increases_at_equal_loss_are_shown_and_do_not_decide(tmp_path):
    """PGD's increases are smaller because its losses are; on the samples of about the same loss they are larger."""
    increases_of(tmp_path, freelb=2e-4, pgd=1e-4, vanilla=3e-4)
    for seed in SEEDS:
        for rival in ("pgd", "pgd_as_freelb", "freelb_as_pgd"):
            labels = {"encoder": "roberta", "task": "rte_second_encoder", "rival": rival}
            metrics = {}
            for ref in ("freelb", "pgd"):
                metrics |= {f"increase_{one}_{ref}_nats": 0.2 for one in ("freelb", "pgd")}
                metrics |= {f"equal_loss_pgd_freelb_{ref}_nats": -0.2 - 0.01 * seed}
                metrics |= {f"equal_loss_pgd_freelb_{ref}_count": 2.0}
            pretend.write_run(
                tmp_path, step="max_loss_increase", labels=labels, metrics=metrics, files={}, seed=seed
            )
    claim = judged(tmp_path, "smallest_max_increase")
    assert (claim.verdict, len(claim.parts)) == ("contradicted", 4 + 12)
    for ours, theirs in (("freelb", "pgd"), ("freelb", "pgd_as_freelb"), ("freelb_as_pgd", "pgd")):
        for ball in (ours, theirs):
            name = f"rte, second encoder, radii of {ball}: {ours} - {theirs}"
            (equal,) = (one for one in claim.parts if one.name == f"{name}, at equal loss")
            assert not equal.decides and equal.interval.estimate == pytest.approx(-0.21)
            assert (
                f"{2 * len(SEEDS)} samples whose larger loss is at most 1.25 times the smaller" in equal.notes
            )


def test_a_method_that_was_not_probed_is_missing(tmp_path):
    increases_of(tmp_path, freelb=1e-4, vanilla=3e-4)
    claim = judged(tmp_path, "smallest_max_increase")
    assert len(claim.missing) == 3 and "freelb - pgd" in claim.missing[0]


# exact


@pytest.mark.parametrize(
    ("differences", "word", "failures"),
    [
        ({"roberta": 1e-15, "pixels": 0.0}, "reproduced", 0),
        ({"roberta": 2e-9, "pixels": 0.0}, "contradicted", 1),
        ({"roberta": math.nan, "pixels": 0.0}, "contradicted", 1),
    ],
)
def test_the_gradient_is_that_of_the_virtual_batch(tmp_path, differences, word, failures):
    pretend.gradient(tmp_path, differences)
    claim = judged(tmp_path, "gradient_equals_virtual_batch")
    assert (claim.verdict, claim.main.failures, claim.main.cases) == (word, failures, 2)
    assert claim.main.full_size


def test_differences_that_are_rounding_are_named_once(tmp_path):
    pretend.Chapter().write(tmp_path)
    notes = judged(tmp_path, "gradient_equals_virtual_batch").main.notes
    assert notes == tuple(dict.fromkeys(notes)) and not any(
        "e-1" in note.replace("1e-12", "") for note in notes
    )


# medians


def of(values, name="a"):
    return Sample(
        name, dict(enumerate(values)), tuple(f"runs/{name}/seed{seed}" for seed in range(len(values)))
    )


SCORES = st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=2, max_size=8)


@settings(max_examples=25)
@given(SCORES, st.randoms(use_true_random=False))
def test_an_interval_holds_its_estimate_and_stays_in_what_seeds_allow(values, random):
    other = [random.uniform(-1, 1) for _ in values]
    found = medians.difference("d", of(values), of(other, "b"), Above(0.0)).interval
    assert found.estimate == pytest.approx(np.median(values) - np.median(other))
    assert found.low <= found.estimate <= found.high
    turned = medians.difference("d", of(other, "b"), of(values), Above(0.0)).interval
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    if len(values) >= medians.ENOUGH:  # the bootstrap alone: nothing outside of what was seen
        assert min(values) - max(other) <= found.low and found.high <= max(values) - min(other)
    else:
        wide = statistics.student_mean([a - b for a, b in zip(values, other)])
        assert found.low <= wide.low and wide.high <= found.high


def test_the_bootstrap_is_that_of_a_slow_loop():
    left, right = np.random.default_rng(5).normal(size=(2, 7)).round(2)
    found = medians.difference("d", of(left), of(right, "b"), Above(0.0)).interval
    draws = np.random.default_rng(statistics.SEED).integers(0, 7, (statistics.RESAMPLES, 7))
    slow = [np.median(left[draw]) - np.median(right[draw]) for draw in draws]
    level = statistics.expanded_level(7)
    assert found.estimate == pytest.approx(np.median(left) - np.median(right))
    assert found.estimate != pytest.approx(np.median(left - right))
    assert (found.low, found.high) == pytest.approx(np.quantile(slow, [level, 1 - level]))


@pytest.mark.parametrize("count", [3, 5, 8])
def test_the_interval_covers_the_median_about_as_often_as_it_says(count):
    """Of normal values with median 0; the control is the bare range of three, which covers it in 75%."""
    rng = np.random.default_rng(count)
    hits = bare = 0
    for _ in range(120):
        values = rng.normal(size=count)
        pair = (of(values), of([0.0] * count, "b"))
        found = medians.most("m", {"t": pair}, Above(0.0)).interval
        hits += found.low <= 0 <= found.high
        bare += min(values) <= 0 <= max(values)
    assert hits / 120 >= 0.90
    if count == 3:
        assert bare / 120 < 0.85


def test_medians_of_paired_scores_take_little_from_the_pairing():
    rng = np.random.default_rng(6)
    both = 3 * rng.normal(size=(3000, 40, 1)) + rng.normal(
        size=(3000, 40, 2)
    )  # most of the spread is the seeds'
    of_means = np.var(both[..., 0] - both[..., 1]) / 40
    truth = np.var(np.subtract(*np.median(both, axis=1).T)) / of_means  # 4.2, not pi / 2
    for seed in (0, 1):
        left, right = both[seed].T
        found = medians.difference("d", of(left), of(right, "b"), Above(0.0)).units.inflation
        assert found == pytest.approx(truth, rel=0.3)


def test_one_seed_has_no_interval_and_no_seed_no_comparison():
    one = medians.difference("d", of([0.5]), of([0.4], "b"), Above(0.0)).interval
    assert (one.low, one.high) == (-math.inf, math.inf)
    assert medians.difference("d", of([]), of([0.4], "b"), Above(0.0)) is None
    assert medians.most("d", {}, Above(0.0)) is None
    both = medians.best("b", [of([0.1, 0.5]), of([0.3], "b")])
    assert both.values == {0: 0.3}


def test_the_better_rival_is_chosen_once_and_not_for_each_seed():
    """Three equally good methods: the maximum at each seed would contradict, the better of two methods hardly ever does."""
    rng, against = np.random.default_rng(0), {"once": 0, "each": 0}
    for _ in range(60):
        ours, one, other = rng.normal(0.7, 0.01, size=(3, 25))
        rival = medians.best("b", [of(one), of(other, "b")])
        assert list(rival.values.values()) == list(max(one, other, key=np.median))
        for name, theirs in (("once", rival), ("each", of(np.maximum(one, other), "b"))):
            found = medians.most("m", {"t": (of(ours), theirs)}, Above(0.0, strict=False))
            against[name] += found.interval.high < 0
    assert against["once"] <= 8 and against["each"] > 15


def test_the_controls_of_the_updates_are_shown_and_do_not_decide(tmp_path):
    scores = {"vanilla": 0.6, "freelb": 0.8, "pgd": 0.7, "free_at": 0.9}
    often = {"free_at_as_often_as_freelb": 0.75, "vanilla_as_often_as_free_at": 0.65}
    pretend.several(tmp_path / "with", "rte", **scores, **often)
    pretend.several(tmp_path / "without", "rte", **scores)
    claim, plain = (
        judged(tmp_path / "with", "freelb_beats_pgd"),
        judged(tmp_path / "without", "freelb_beats_pgd"),
    )
    assert claim.verdict == plain.verdict == "contradicted" and claim.main == plain.main
    assert claim.main.among == 2  # FreeAT was chosen, by the result, as the better of two rivals
    shown = {part.name: part.interval.estimate for part in claim.parts if not part.decides}
    assert shown.pop("rte: freelb - free_at_as_often_as_freelb") == pytest.approx(0.05)
    assert shown.pop("rte: free_at - free_at_as_often_as_freelb") == pytest.approx(0.15)
    assert shown.pop("rte: vanilla_as_often_as_free_at - vanilla") == pytest.approx(0.05)
    assert set(shown) == {part.name for part in plain.parts if not part.decides}


def test_a_second_encoder_is_shown_and_does_not_decide(tmp_path):
    """FreeLB loses on the encoder that decides and wins on the other one, where FreeAT needs its updates."""
    scores = {"vanilla": 0.6, "freelb": 0.8, "pgd": 0.7, "free_at": 0.9}
    again = {"vanilla": 0.6, "freelb": 0.9, "pgd": 0.7, "free_at": 0.8, "free_at_as_often_as_freelb": 0.65}
    pretend.several(tmp_path, "rte", **scores)
    pretend.several(tmp_path, "rte_second_encoder", **again)
    claim = judged(tmp_path, "freelb_beats_pgd")
    assert (claim.verdict, claim.main.name) == ("contradicted", "rte: freelb - the better of pgd and free_at")
    shown = {part.name: part.interval.estimate for part in claim.parts if not part.decides}
    assert shown == pytest.approx(
        {
            "rte, second encoder: freelb - the better of pgd and free_at": 0.1,
            "rte, second encoder: freelb - free_at_as_often_as_freelb": 0.25,
            "rte, second encoder: free_at - free_at_as_often_as_freelb": 0.15,
        }
    )


def test_a_second_encoder_without_rivals_is_left_out(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=0.8, pgd=0.7, free_at=0.75)
    pretend.several(tmp_path, "rte_second_encoder", freelb=0.9)
    claim = judged(tmp_path, "freelb_beats_pgd")
    assert claim.verdict == "reproduced" and not any("second encoder" in one.name for one in claim.parts)


def test_a_seed_that_one_side_lacks_is_named(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=[0.8, 0.8, 0.81, 0.9], freelb_fresh=[0.7, 0.71, 0.7])
    notes = judged(tmp_path, "mask_reuse").main.notes
    assert "without seed 3: not on both sides" in notes
    assert listed([3, 5, 6, 7, 9, 10]) == "3, 5 to 7, 9, 10" and listed([]) == ""


def test_masks_are_compared_at_the_better_radius_of_each(tmp_path):
    """At equal radii one mask leads; but fresh masks take a wider ball, the attack being weaker."""
    scores = {"freelb": 0.8, "freelb_fresh": 0.78, "freelb_wide": 0.6, "freelb_fresh_wide": 0.82}
    pretend.several(tmp_path, "rte", vanilla=0.6, **scores)
    claim = judged(tmp_path, "mask_reuse")
    assert claim.verdict == "contradicted" and claim.main.name == "rte: freelb - freelb_fresh_wide"
    assert [one.decides for one in claim.parts] == [True, False]
    assert claim.parts[1].name == "rte: freelb - freelb_fresh"
    assert claim.main.among == 2 and any("the best of 2 by these runs" in note for note in claim.main.notes)


def test_the_better_radius_is_that_of_the_seeds_that_both_have(tmp_path):
    """The wider ball was run at two seeds, at which the usual one is better, too."""
    usual = [0.9, 0.9, 0.6, 0.6, 0.6]
    pretend.several(
        tmp_path, "rte", vanilla=0.6, freelb=usual, freelb_wide=[0.7, 0.7], freelb_fresh=[0.65] * 5
    )
    assert [one.name for one in judged(tmp_path, "mask_reuse").parts] == ["rte: freelb - freelb_fresh"]


def test_shared_masks_must_lead_at_the_settings_chosen_for_them_too(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=0.8, freelb_fresh=0.78, freelb_fresh_as_freelb=0.82)
    claim = judged(tmp_path, "mask_reuse")
    assert claim.verdict == "contradicted" and all(one.decides for one in claim.parts)
    names = {one.name: one.interval.estimate for one in claim.parts}
    assert names == pytest.approx(
        {"rte: freelb - freelb_fresh": 0.02, "rte: freelb - freelb_fresh_as_freelb": -0.02}
    )


def test_a_difference_of_medians_comes_with_paired_means_and_wins(tmp_path):
    """The medians differ by +1 point where the paired mean is below 0 and most seeds are lost."""
    fresh = [0.79, 0.82, 0.81]
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=[0.8, 0.81, 0.7], freelb_fresh=fresh)
    claim = judged(tmp_path, "mask_reuse")
    mean = 100 * (0.8 + 0.81 + 0.7 - sum(fresh)) / 3
    said = (
        f"paired by seed: mean {mean:+.3g} points, higher in 1 of 3, lower in 2 (two-sided sign test: p = 1)"
    )
    assert said in claim.main.notes


def test_identical_runs_are_called_so(tmp_path):
    pretend.several(tmp_path, "rte", vanilla=0.6, freelb=0.8, yopo_3=0.8)
    notes = judged(tmp_path, "yopo_not_better").main.notes
    assert "identical in 3 of 3 seeds" in notes


def test_the_order_of_seeds_and_runs_is_theirs_and_not_that_of_a_set(tmp_path):
    """A set of 8, 1 and 2 gives 8 first."""
    scores = {8: 0.1, 1: 0.5, 2: 0.4}
    one, other = (Sample(name, scores, tuple(f"runs/{name}/seed{s}" for s in scores)) for name in "ab")
    expected = [("a", 1, 0), ("a", 2, 0), ("a", 8, 0), ("b", 1, 0), ("b", 2, 0), ("b", 8, 0)]
    found = medians.difference("d", one, other, Above(0.0))
    several = medians.most("m", {"t": (one, other)}, Above(0.0))
    assert list(found.keys) == list(several.keys) == expected
    assert list(medians.best("x", [one, other]).values) == [1, 2, 8]
    claim = judged(pretend.Chapter().write(tmp_path), "yopo_not_better")
    assert claim.runs == sorted({run for part in claim.parts for run in part.runs})
    assert len(claim.runs) > 20  # of so many a set has hardly ever the same order


def notes_of(claim, begin):
    return [
        note for note in part(claim, begin).notes if not note.startswith(("paired", "the value is the same"))
    ]


def test_notes_are_of_the_methods_that_are_compared(tmp_path):
    scores = {
        "vanilla": 0.6,
        "freelb": 0.8,
        "freelb_fresh": 0.7,
        "pgd": 0.75,
        "free_at": 0.65,
        "yopo_2": 0.72,
    }
    pretend.several(tmp_path, "cola", **scores)
    increases_of(tmp_path, ("cola",), freelb=1e-4, pgd=2e-4, vanilla=3e-4)
    pretend.several(tmp_path, "cola", vanilla=0.6)
    found = judged(tmp_path)
    said = {name: f"{name}: median score {100 * score:.1f}%" for name, score in scores.items()}
    rivals = [said[name] for name in ("vanilla", "freelb", "pgd", "free_at")]
    assert notes_of(found["freelb_beats_pgd"], "cola: freelb - the better")[:4] == rivals
    for claim, other in (("mask_reuse", "freelb_fresh"), ("yopo_not_better", "yopo_2")):
        assert notes_of(found[claim], "cola: ") == [said["vanilla"], said["freelb"], said[other]]
    increases = ["freelb: median increase 0.0001 nats", "vanilla: median increase 0.0003 nats"]
    expected = [*increases, said["freelb"], said["vanilla"]]
    assert notes_of(found["smallest_max_increase"], "cola, radii of pgd: freelb - vanilla") == expected
