"""Every claim of kim2020 is reached by records that deserve its verdict, by slopes and differences done by hand."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from relearn.report import claims, claims_formats
from relearn.report.statistics import clopper_pearson, log_slope
from relearn.studies.l2_attention.claims import PREDICATES
from relearn.studies.l2_attention.claims.trained import bigram

from ...report import conftest as report
from ...report.conftest import FOLDERS, evidence_of, part
from . import fake_records as pretend

DEFINED = claims.load(FOLDERS)
SEEDS = (0, 1, 2)
BOUNDED = {"bound": 10.0}
LENGTHS = (100, 300, 1000)


judged = partial(report.judged, {"l2_attention": DEFINED["l2_attention"]})


def test_every_claim_of_the_section_has_a_predicate_and_every_predicate_a_claim():
    assert set(PREDICATES) == set(DEFINED["l2_attention"]) and len(PREDICATES) == 8


def test_the_study_as_it_pretends_to_be(l2_attention):
    found = judged(l2_attention)
    assert {name: claim.verdict for name, claim in found.items()} == {
        **dict.fromkeys(found, "reproduced"),
        "expressive": "identical",  # the best L2 and the best DP
        "deeper_without_warmup": "direction",  # three seeds of three
    }
    assert not any(claim.provisional for claim in found.values())
    assert found["l2_bound_holds"].count() == {"cases": 10 * 50}
    page = claims_formats.markdown(list(found.values()), "mini")
    assert "| `bound_is_tight` |" in page and "slope in log N of the bound 3.1" in page


# dp_not_lipschitz, untied_not_lipschitz


def growing(root, values, **more):
    more = {"weights": "trained", "dim": 512, "heads": 8, **more}
    pretend.ascend(root, "fig8", 64, [max(values)], attention="dp", curves=[list(enumerate(values))], **more)


@pytest.mark.parametrize(
    ("holds", "curve", "word"),
    [
        ((1, 1), (1.0, 5.0, 4.0, 9.0, 8.0), "reproduced"),
        ((1, 0), (1.0, 5.0, 4.0, 9.0, 8.0), "contradicted"),
        ((1, 1), (1.0, 9.0, 4.0, 8.0, 9.0), "contradicted"),  # no higher in its second half
        (
            (1, 1),
            (1.0, 9.0, 4.0, 8.0, 11.0),
            "contradicted",
        ),  # higher by less than a quarter, as a bounded norm can be
    ],
)
def test_dot_product_needs_the_constructions_and_the_growth(tmp_path, holds, curve, word):
    pretend.cases(tmp_path, "theorem_3_1", holds)
    growing(tmp_path, curve)
    bounded = {"attention": "l2_tied", "weights": "trained", "curves": [[(0, 2.0), (1, 3.0), (2, 3.3)]]}
    pretend.ascend(tmp_path, "fig8", 64, [3.3], {"bound": 9.0}, **bounded)
    claim = judged(evidence_of(tmp_path), "dp_not_lipschitz")
    assert (claim.verdict, claim.provisional) == (word, False)
    (ascent,) = (one for one in claim.parts if "figure 8" in one.name)
    assert "tied L2, which is bounded, N = 64, trained weights: 3, then 3.3" in ascent.notes


@pytest.mark.parametrize("more", [{"weights": "random"}, {"dim": 64}, {"heads": 2}])
def test_the_growth_is_at_full_size_with_trained_weights_of_the_published_width(tmp_path, more):
    pretend.cases(tmp_path, "theorem_3_1", (1,))
    growing(tmp_path, (1.0, 2.0, 3.0), **more)
    assert judged(evidence_of(tmp_path), "dp_not_lipschitz").verdict == "partial"


def test_where_there_are_trained_weights_random_ones_do_not_decide(tmp_path):
    growing(tmp_path, (1.0, 2.0, 3.0))
    growing(tmp_path, (3.0, 2.0, 1.0), weights="random")
    claim = judged(evidence_of(tmp_path), "dp_not_lipschitz")
    assert claim.verdict == "reproduced" and claim.provisional and claim.count() == {"cases": 1}
    assert claim.missing == ("no runs for theorem 3.1",)


@pytest.mark.parametrize(("holds", "word"), [((1, 1, 1), "reproduced"), ((1, 1, 0), "contradicted")])
def test_untied_queries_and_keys(tmp_path, holds, word):
    pretend.cases(tmp_path, "lemma_f_1", holds)
    pretend.cases(tmp_path, "masks", (0, 0))  # another protocol
    claim = judged(evidence_of(tmp_path), "untied_not_lipschitz")
    assert claim.verdict == word and claim.count() == {"cases": 3}


# l2_bound_holds, bound_is_tight


def figure_2(root, lower, *, lengths=LENGTHS, starts=50, **more):
    for length in lengths:
        metrics = {"bound": pretend.upper(length), "structured": 2.0 * math.log(length)}
        pretend.ascend(root, "fig2", length, [lower(length)] * starts, metrics, **more)


def test_the_pretended_bound_is_the_one_of_the_paper():
    assert [pretend.upper(n) for n in (100, 300, 1000)] == pytest.approx([11.515, 14.837, 18.682], abs=1e-3)


@pytest.mark.parametrize(
    ("share", "word"), [(0.9, "reproduced"), (1.0, "reproduced"), (1.0001, "contradicted")]
)
def test_a_norm_is_at_most_the_bound(tmp_path, share, word):
    figure_2(tmp_path, lambda n: pretend.upper(n) * (share if n == 300 else 0.5))
    claim = judged(evidence_of(tmp_path), "l2_bound_holds")
    assert claim.verdict == word and claim.count() == {"cases": 150}
    assert claim.main.notes[0] == f"largest share of the bound {share:.4f}, at N = 300"


@pytest.mark.parametrize(
    "more",
    [
        {"starts": 49},
        {"lengths": (200, 1000)},
        {"lengths": (100, 900)},
        {"dim": 2},
        {"heads": 2},
        {"weights": "random"},
    ],
)
def test_a_thinner_figure_is_partial(tmp_path, more):
    figure_2(tmp_path, lambda n: 0.9 * pretend.upper(n), **more)
    found = judged(evidence_of(tmp_path))
    assert (found["l2_bound_holds"].verdict, found["bound_is_tight"].verdict) == ("partial", "partial")


def test_a_norm_that_is_no_number_does_not_hold(tmp_path):
    pretend.ascend(tmp_path, "fig2", 100, [math.inf, 3.0], BOUNDED)
    claim = judged(evidence_of(tmp_path), "l2_bound_holds")
    assert claim.verdict == "contradicted" and claim.main.failures == 1


def test_other_suites_norms_and_attentions_are_not_figure_2(tmp_path):
    pretend.ascend(tmp_path, "fig2", 100, [99.0], BOUNDED, attention="dp")
    pretend.ascend(tmp_path, "fig2", 100, [99.0], BOUNDED, p="two")
    pretend.ascend(tmp_path, "fig8", 100, [99.0], BOUNDED)
    assert judged(evidence_of(tmp_path), "l2_bound_holds").verdict == "not_run"
    pretend.ascend(tmp_path, "fig2", 100, [9.0], BOUNDED)
    pretend.ascend(tmp_path, "fig7", 100, [11.0], BOUNDED, p="two")
    claim = judged(evidence_of(tmp_path), "l2_bound_holds")
    assert (claim.verdict, claim.count()) == ("partial", {"cases": 1})
    assert "1 of 1 above the valid bound, largest share 1.1000" in claim.main.notes[1]


@pytest.mark.parametrize(
    ("rate", "word"),
    [
        (1.0, "reproduced"),
        (0.86, "reproduced"),
        (1.14, "reproduced"),
        (0.84, "contradicted"),
        (1.16, "contradicted"),
    ],
)
def test_slopes_within_fifteen_percent(tmp_path, rate, word):
    figure_2(tmp_path, lambda n: rate * pretend.upper(n) - 1.0)
    claim = judged(evidence_of(tmp_path), "bound_is_tight")
    assert claim.verdict == word
    slopes = np.polyfit(np.log(LENGTHS), [pretend.upper(n) for n in LENGTHS], 1)[0]
    assert claim.main.notes[0] == (
        f"slope in log N of the bound {slopes:.4f}, of the best lower bound {rate * slopes:.4f}, ratio {rate:.3f}"
    )
    assert claim.main.notes[1].startswith("in addition, slope of the structured lower bound 2.0000")


def test_the_best_of_several_seeds_counts_and_other_n_do_not(tmp_path):
    figure_2(tmp_path, lambda n: 0.5, seed=1)
    figure_2(tmp_path, lambda n: pretend.upper(n) - 1.0)
    figure_2(tmp_path, lambda n: 1e9, lengths=(50, 2000))
    assert judged(evidence_of(tmp_path), "bound_is_tight").verdict == "reproduced"


def test_the_slope_of_a_line_is_its_slope():
    line = {n: 3.0 * math.log(n) - 7.0 for n in (100, 250, 1000)}
    assert log_slope(line) == pytest.approx(3.0)
    noisy = {100: 1.0, 200: 4.0, 900: 2.0}
    assert log_slope(noisy) == pytest.approx(stats.linregress(np.log([100, 200, 900]), [1.0, 4.0, 2.0]).slope)
    with pytest.raises(ValueError, match="found 1 points"):
        log_slope({100: 1.0})


# invertible


def inverted(root, l2, dp, **more):
    pretend.invert(root, "fig3", "l2_tied", {c: [1.0, l2] for c in pretend.CS}, **more)
    pretend.invert(root, "fig3", "dp", {c: [0.01, dp] for c in pretend.CS}, **more)


@pytest.mark.parametrize(
    ("l2", "dp", "word"),
    [
        (9e-5, 0.11, "reproduced"),
        (9e-5, None, "reproduced"),  # an error that is not finite is no inversion
        (1e-4, 0.11, "contradicted"),
        (9e-5, 0.1, "contradicted"),
        (None, 0.11, "contradicted"),
    ],
)
def test_l2_is_inverted_and_dot_product_is_not(tmp_path, l2, dp, word):
    inverted(tmp_path, l2, dp)
    claim = judged(evidence_of(tmp_path), "invertible")
    assert (claim.verdict, claim.provisional) == (word, False)
    assert [one.cases for one in claim.parts] == [3, 3]


@pytest.mark.parametrize("more", [{"length": 32}, {"dim": 32}, {"heads": 4}, {"batch": 64}])
def test_a_smaller_inversion_is_partial(tmp_path, more):
    inverted(tmp_path, 0.0, 1.0, **more)
    assert judged(evidence_of(tmp_path), "invertible").verdict == "partial"


def test_only_the_stated_c_count_and_all_of_them_make_full_size(tmp_path):
    pretend.invert(tmp_path, "fig3", "l2_tied", {0.5: [0.0], 0.7: [0.0], 5.0: [1.0]})
    pretend.invert(tmp_path, "fig3", "dp", {5.0: [1.0]})
    claim = judged(evidence_of(tmp_path), "invertible")
    assert (claim.verdict, claim.count(), claim.missing) == (
        "partial",
        {"cases": 2},
        ("no runs for figure 3, dp",),
    )


def test_other_sizes_and_trained_weights_are_additional_notes(tmp_path):
    inverted(tmp_path, 0.0, 1.0)
    pretend.invert(tmp_path, "fig6", "dp", {0.5: [1e-9], 0.7: [1.0]}, length=16, dim=16)
    pretend.invert(tmp_path, "fig3", "dp", {c: [0.0] for c in pretend.CS}, weights="trained")
    pretend.invert(tmp_path, "fig5", "dp", {0.5: [2.0], 0.9: [1e-6]}, weights="trained")
    claim = judged(evidence_of(tmp_path), "invertible")
    assert claim.verdict == "reproduced"
    sizes, trained = part(claim, "dot product").notes[-2:]
    assert "1 of 2 hold, errors 1e-09 to 1" in sizes and trained.endswith(
        "(figure 5): c = 0.5: 2, c = 0.9: 1e-06"
    )


def test_errors_for_other_ranges_of_the_inputs_stand_beside_and_do_not_decide(tmp_path):
    ranges = [(1.0, 0.5, 1e-9), (1.0, 0.9, 0.02), (100.0, 0.5, 7.0), (100.0, 0.9, None)]
    inverted(tmp_path, 0.0, 1.0, ranges=ranges)
    claim = judged(evidence_of(tmp_path), "invertible")
    assert claim.verdict == "reproduced"
    assert part(claim, "dot product").notes[-1].endswith("other ranges: ±1: 1e-09 to 0.02, ±100: 7 to inf")


# same_cost


@pytest.mark.parametrize(
    ("ratio", "word"),
    [(1.24, "reproduced"), (0.76, "reproduced"), (1.26, "contradicted"), (0.74, "contradicted")],
)
def test_the_time_of_a_step(tmp_path, ratio, word):
    for attention in ("l2", "l2_tied", "contractive"):
        pretend.clock(tmp_path, attention, ratio if attention == "l2_tied" else 1.0)
    claim = judged(evidence_of(tmp_path), "same_cost")
    assert (claim.verdict, claim.provisional, len(claim.parts)) == (word, False, 3)
    assert f"3: {ratio:.2f}" in part(claim, "l2_tied").notes[0]


@pytest.mark.parametrize(
    "more", [{"layers": (1, 2)}, {"settings": {"dim": 64}}, {"settings": {"batch_size": 4}}]
)
def test_a_thinner_clock_is_partial(tmp_path, more):
    pretend.clock(tmp_path, "l2", 1.0, **more)
    claim = judged(evidence_of(tmp_path), "same_cost")
    assert (claim.verdict, claim.missing) == ("partial", ("no runs for l2_tied", "no runs for contractive"))


# expressive


def trained(root, attention, layers, values, **more):
    """Models of seeds 0, 1, …; None: diverged without a number."""
    for seed, value in enumerate(values):
        lost = "diverged" if value is None else "ok"
        pretend.language(root, attention, layers, value, seed=seed, **{"outcome": lost, **more})


def expressive(root, *, l2=1.0, dp=1.0, tied=1.1, five=1.3, deep=1.2):
    pretend.characters(root)
    spread = (0.0, 0.3, 0.1)  # between seeds; the same for all, so that pairs see none of it
    for attention, layers, best in (
        ("l2", 3, l2),
        ("dp", 4, dp),
        ("l2_tied", 2, tied),
        ("contractive", 5, five),
        ("contractive", 8, deep),
    ):
        trained(root, attention, layers, [best + more for more in spread])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "identical"),
        ({"l2": 1.019}, "reproduced"),
        ({"l2": 1.021}, "contradicted"),
        ({"l2": 0.979}, "reproduced"),  # better than dot product is no contradiction
        ({"tied": 0.99}, "contradicted"),
        ({"deep": 1.31}, "contradicted"),
    ],
)
def test_three_comparisons_of_models_seed_by_seed(tmp_path, changes, word):
    expressive(tmp_path, **changes)
    claim = judged(evidence_of(tmp_path), "expressive")
    assert (claim.verdict, claim.provisional) == (word, False)
    found = [one.interval.estimate for one in claim.parts if one.decides]
    given = {"l2": 1.0, "dp": 1.0, "tied": 1.1, "five": 1.3, "deep": 1.2, **changes}
    assert found == pytest.approx(
        [given["l2"] - given["dp"], given["tied"] - given["l2"], given["deep"] - given["five"]]
    )
    assert [one.decides for one in claim.parts] == [True] * 3 + [False] * 3
    assert claim.main.unit == "nats" and claims_formats.effect(claim.main).endswith("nats")


def test_differences_that_vary_over_seeds_have_students_interval(tmp_path):
    expressive(tmp_path)
    trained(tmp_path / "l2", "l2", 3, [1.00, 1.32, 1.08])
    trained(tmp_path / "l2", "dp", 4, [1.00, 1.30, 1.10])
    pretend.characters(tmp_path / "l2")
    claim = judged(evidence_of(tmp_path / "l2"), "expressive")
    half = stats.t.ppf(0.975, 2) * np.std([0.0, 0.02, -0.02], ddof=1) / math.sqrt(3)
    assert claim.main.interval.high == pytest.approx(half) and claim.verdict == "direction"
    assert claim.missing == ("no runs for tied L2 - L2", "no runs for contractive L2: deepest - 5 layers")


def test_each_attention_has_its_own_best_depth_and_recipe_by_validation(tmp_path):
    expressive(tmp_path)
    trained(tmp_path, "l2", 5, [0.5] * 3, valid=2.0)  # best on the test set, worst on validation
    trained(tmp_path, "l2", 3, [0.4] * 3, valid=2.0, recipe="warmup_g2_w40_d0")
    trained(tmp_path, "l2", 3, [0.3] * 3, valid=0.1, recipe=pretend.CONSTANT)
    trained(tmp_path, "dp", 6, [0.2] * 3)  # deeper than table 2 has it
    claim = judged(evidence_of(tmp_path), "expressive")
    first = part(claim, "L2 - DP, best")
    assert first.interval.estimate == pytest.approx(0.0) and claim.verdict == "identical"
    assert first.notes[:2] == tuple(
        f"{one} layers, recipe {pretend.WARMUP}" for one in ("L2 of 3", "DP of 4")
    )
    trained(tmp_path, "dp", 3, [1.5, 1.8, 1.6])
    assert (
        part(judged(evidence_of(tmp_path), "expressive"), "L2 - DP, best").notes[2]
        == "by number of layers: 3: -0.500"
    )


def test_the_deepest_is_the_deepest_that_was_run_and_beyond_five(tmp_path):
    expressive(tmp_path)
    trained(tmp_path, "contractive", 14, [1.4, 1.7, 1.5])
    claim = judged(evidence_of(tmp_path), "expressive")
    assert claim.verdict == "contradicted" and claim.main.interval.estimate == pytest.approx(0.1)
    trained(tmp_path / "few", "contractive", 5, [1.4] * 3)
    trained(tmp_path / "few", "contractive", 2, [1.5] * 3)
    assert judged(evidence_of(tmp_path / "few"), "expressive").verdict == "not_run"


def test_the_test_nll_chosen_on_validation_data_is_reported_too(tmp_path):
    pretend.characters(tmp_path)
    trained(tmp_path, "l2", 1, [1.0, 1.1, 1.2])
    trained(tmp_path, "dp", 1, [1.0, 1.1, 1.2])
    claim = judged(evidence_of(tmp_path), "expressive")
    beside = part(claim, "L2 - DP, test NLL at the best validation step")
    assert beside.interval.estimate == 0.0 and not beside.decides


# power


def test_too_few_seeds_or_no_floor_or_a_model_above_it_are_underpowered(tmp_path):
    trained(tmp_path, "l2", 1, [1.0, 1.0])
    trained(tmp_path, "dp", 1, [1.0, 1.0])
    claim = judged(evidence_of(tmp_path), "expressive")
    assert (claim.verdict, claim.reasons) == (
        "underpowered",
        ("2 seeds, needs 3", "bigram NLL not measured"),
    )
    assert claim.numbers_say == "identical"
    trained(tmp_path, "dp", 1, [1.0] * 3)
    trained(tmp_path, "l2", 1, [1.0] * 3)
    pretend.characters(tmp_path, bigram=1.0)
    claim = judged(evidence_of(tmp_path), "expressive")
    assert claim.reasons == tuple(
        f"{name} at 1.000 nats, needs less than 1.000, the bigram NLL" for name in ("l2", "dp")
    )
    trained(tmp_path, "l2", 9, [0.9] * 3)  # another depth is better: this attention can learn
    trained(tmp_path, "dp", 1, [0.99] * 3, recipe=pretend.CONSTANT)
    assert judged(evidence_of(tmp_path), "expressive").verdict == "identical"


@pytest.mark.parametrize(("without", "used"), [(1.005, False), (1.02, True), (None, True)])
def test_an_attention_that_can_be_switched_off_is_underpowered(tmp_path, without, used):
    pretend.characters(tmp_path)
    for attention in ("l2", "dp"):
        trained(tmp_path, attention, 1, [1.0] * 3, without=without if attention == "l2" else 2.0)
    trained(tmp_path, "l2", 3, [1.2] * 3, without=1.2)  # not the depth that counts
    claim = judged(evidence_of(tmp_path), "expressive")
    said = "l2 at 1.000 nats, and at 1.005 with its attention switched off, so it makes no use of it"
    assert claim.reasons == (() if used else (said,))


def test_of_two_texts_the_lower_floor_counts(tmp_path):
    pretend.characters(tmp_path, bigram=2.9)
    pretend.characters(tmp_path, bigram=2.7, dataset="pydoc_topics")
    assert bigram(evidence_of(tmp_path)) == 2.7


# deeper_without_warmup


def deep(root, *, dp=(None, None), tied=1.0, contractive=1.1, tenth=1.0, outcome="ok"):
    pretend.characters(root)
    fixed = {"recipe": pretend.CONSTANT}
    trained(root, "dp", 10, [tenth] * 3, **fixed)
    for layers, value in zip((12, 18), dp):
        trained(root, "dp", layers, [value] * 3, **fixed)
    trained(root, "l2_tied", 18, [tied] * 3, outcome=outcome, **fixed)
    trained(root, "contractive", 18, [contractive] * 3, **fixed)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "direction"),  # DP diverges, at three seeds
        ({"dp": (1.0, 1.2)}, "direction"),  # or does not fall below its own of 10 layers
        (
            {"dp": (0.99, None)},
            "contradicted",
        ),  # 12 layers are better than 10: 50% [8, 92] for three comparisons
        ({"dp": (0.99, 0.98)}, "contradicted"),  # and so are 18
        ({"outcome": "not_converged"}, "contradicted"),
        ({"tied": 2.39}, "direction"),
        ({"tied": 2.41}, "contradicted"),  # the bigrams need no attention
        ({"outcome": "diverged"}, "contradicted"),
    ],
)
def test_past_ten_layers_at_a_fixed_rate(tmp_path, changes, word):
    deep(tmp_path, **changes)
    trained(tmp_path, "l2_tied", 2, [1.0] * 3, recipe=pretend.CONSTANT)  # a model that is good enough
    claim = judged(evidence_of(tmp_path), "deeper_without_warmup")
    assert (claim.verdict, claim.provisional) == (word, False)
    assert [one.decides for one in claim.parts][:3] == [True] * 3


def test_half_of_the_depths_fail(tmp_path):
    deep(tmp_path, dp=(0.9, None))
    found = part(judged(evidence_of(tmp_path), "deeper_without_warmup"), "DP deeper")
    assert found.interval == clopper_pearson(3, 6)
    assert found.notes[1:] == (
        "12 layers: 0 of 3 diverged, best test NLL 0.900",
        "18 layers: 3 of 3 diverged",
    )


def test_one_recipe_that_trains_is_enough(tmp_path):
    deep(tmp_path, outcome="diverged")
    trained(tmp_path, "l2_tied", 18, [2.0] * 3, recipe="fixed_lr0.0001_d0")
    assert judged(evidence_of(tmp_path), "deeper_without_warmup").verdict == "direction"
    for layers in (12, 18):
        trained(tmp_path, "dp", layers, [0.5] * 3, recipe="fixed_lr0.0001_d0")
    assert judged(evidence_of(tmp_path), "deeper_without_warmup").verdict == "contradicted"
    trained(tmp_path / "warm", "dp", 12, [0.5] * 3)  # a warm-up is another matter
    deep(tmp_path / "warm")
    assert judged(evidence_of(tmp_path / "warm"), "deeper_without_warmup").verdict == "direction"


def test_a_diverged_model_fails_whatever_number_it_had_before(tmp_path):
    deep(tmp_path, dp=())
    trained(tmp_path, "dp", 14, [0.5] * 3, recipe=pretend.CONSTANT, outcome="diverged")
    assert judged(evidence_of(tmp_path), "deeper_without_warmup").verdict == "direction"


def test_a_model_that_stays_at_the_unigrams_fails(tmp_path):
    deep(tmp_path, dp=(), tenth=2.9)
    trained(tmp_path, "dp", 14, [2.89] * 3, recipe=pretend.CONSTANT, outcome="not_converged")
    found = part(judged(evidence_of(tmp_path), "deeper_without_warmup"), "DP deeper")
    assert found.interval.estimate == 1.0
    assert found.notes[-1] == "14 layers: 0 of 3 diverged, 3 no better than the unigrams, best test NLL 2.890"


def test_dot_product_with_the_initialisation_of_l2_is_an_additional_comparison(tmp_path):
    deep(tmp_path)
    trained(tmp_path, "dp_l2_start", 12, [0.9] * 3, recipe=pretend.CONSTANT)
    claim = judged(evidence_of(tmp_path), "deeper_without_warmup")
    found = part(claim, "DP with L2's initialisation, deeper")
    assert found.interval.estimate == 0.0 and not found.decides and claim.verdict == "direction"


def test_each_seed_has_its_own_ten_layers(tmp_path):
    pretend.characters(tmp_path)
    trained(tmp_path, "dp", 10, [1.0, 1.2, 1.4], recipe=pretend.CONSTANT)
    trained(tmp_path, "dp", 12, [1.1, 1.3, 1.3], recipe=pretend.CONSTANT)
    found = part(judged(evidence_of(tmp_path), "deeper_without_warmup"), "DP deeper")
    assert found.interval.estimate == pytest.approx(2 / 3)


def test_without_eighteen_layers_it_is_provisional(tmp_path):
    pretend.characters(tmp_path)
    trained(tmp_path, "dp", 10, [1.0] * 3, recipe=pretend.CONSTANT)
    trained(tmp_path, "dp", 12, [None] * 3, recipe=pretend.CONSTANT)
    trained(tmp_path, "l2_tied", 16, [1.0] * 3, recipe=pretend.CONSTANT)
    claim = judged(evidence_of(tmp_path), "deeper_without_warmup")
    assert claim.provisional and claim.missing == (
        "no runs for tied L2 of 18 layers",
        "no runs for contractive L2 of 18 layers",
    )
