"""The trained claims of qi2023 and touvron2021: each predicate reproduced, contradicted, missing and underpowered."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from relearn.report import claims, claims_formats
from relearn.studies import parameters
from relearn.studies.layer_scale.claims import PREDICATES, start
from relearn.studies.layer_scale.plan import plan

from ...report import conftest as report
from ...report import fake_vision as pretend
from ...report.conftest import FOLDERS, SECTIONS, part

ROOT = Path(__file__).parents[3]
ALL = claims.load(FOLDERS)
TRAINED = {
    section: {name: one for name, one in ALL[section].items() if one["kind"] == "trained"}
    for section in ("lipsformer", "layer_scale")
}
NAMES = {name for section in TRAINED.values() for name in section}
SEEDS = (0, 1, 2)
NOISE = (0.0, 0.03, 0.01)  # of a seed, the same in all variants


judged = partial(report.judged, TRAINED)


def ablation(root, seeds=SEEDS, **variants):
    """Accuracies (None: diverged; "stalled": not converged), or one a seed, by variant; dots as two underscores."""
    for variant, given in {"base": 0.7, **variants}.items():
        several = given if isinstance(given, list) else [given] * len(seeds)
        for seed, value in zip(seeds, several):
            train(pretend.ablation, root, variant.replace("__", "."), value, seed)


def deep(root, depth, seeds=SEEDS, suite="residual", **variants):
    for variant, given in variants.items():
        several = given if isinstance(given, list) else [given] * len(seeds)
        name = variant.replace("__", "-")
        for seed, value in zip(seeds, several):
            train(lambda *args, **more: pretend.deep(args[0], args[1], depth, args[2], suite=suite, **more),
                  root, name, value, seed)  # fmt: skip


def train(write, root, variant, value, seed):
    outcome = {None: "diverged", "stalled": "not_converged"}.get(value, "ok")
    accuracy = pretend.CHANCE if value == "stalled" else None if value is None else value + NOISE[seed]
    write(root, variant, accuracy, outcome=outcome, seed=seed)


def test_every_claim_has_a_predicate():
    assert {
        *("trains_without_warmup", "layernorm_fails", "dot_product_fails", "alpha_has_a_limit"),
        *("deeper_is_trainable", "small_not_zero", "uniform_branch_ratio", "class_attention_helps"),
    } == NAMES
    assert set(PREDICATES) == set(TRAINED["layer_scale"]) and set(SECTIONS) >= set(TRAINED)


def test_the_studies_as_the_papers_have_them(tmp_path):
    study = type("Deep", (pretend.Study,), {"depths": (24, 36)})()
    found = judged(study.write(tmp_path))
    assert {name: claim.verdict for name, claim in found.items()} == {
        **dict.fromkeys(NAMES, "reproduced"),
        # of shares of trainings, three of three
        **dict.fromkeys(("layernorm_fails", "dot_product_fails", "alpha_has_a_limit"), "direction"),
    }
    assert not any(claim.missing for claim in found.values())
    page = claims_formats.markdown(list(found.values()), "mini")
    assert "| `alpha_has_a_limit` |" in page


@pytest.mark.parametrize("seeds", [(0,), (1, 2)])
def test_too_few_seeds_are_underpowered_whatever_they_say(tmp_path, seeds):
    study = type("Few", (pretend.Study,), {"seeds": seeds, "depths": (24,)})()
    for claim in judged(study.write(tmp_path)).values():
        assert claim.verdict == "underpowered"
        assert claim.reasons == (f"{len(seeds)} seed{'s' * (len(seeds) > 1)}, needs 3",)


def test_claims_are_underpowered_if_nothing_learns(tmp_path):
    changes = {"ablation": lambda *_: (0.11, "not_converged"), "residual": lambda *_: (0.11, "not_converged")}
    found = judged(type("Idle", (pretend.Study,), changes | {"depths": (24,)})().write(tmp_path))
    deciding = NAMES - {
        "uniform_branch_ratio",
        "class_attention_helps",
    }  # of no accuracy, and of another suite
    for name in deciding:
        assert (
            found[name].verdict == "underpowered"
            and "at chance level, seeds 0, 1, 2" in found[name].reasons[0]
        )
    assert found["trains_without_warmup"].reasons == ("base and warmup at chance level, seeds 0, 1, 2",)
    assert (
        "layer_scale_1e-5 of 24 blocks and rezero of 24 blocks at chance level, seeds 0, 1, 2"
        in found["deeper_is_trainable"].reasons
    )


# qi2023


@pytest.mark.parametrize(
    ("warmup", "word"),
    [
        (0.7, "identical"),  # the same numbers at every seed are no evidence for "as good"
        (0.65, "reproduced"),
        (0.71, "contradicted"),
        ([0.75, 0.64, 0.7], "direction"),
        ([0.75, 0.66, 0.7], "inconclusive"),
        (None, "reproduced"),
    ],
)
def test_warm_up_brings_nothing(tmp_path, warmup, word):
    ablation(tmp_path, warmup=warmup)
    claim = judged(tmp_path, "trains_without_warmup")
    assert (claim.verdict, claim.provisional) == (word, False)


def test_the_interval_is_students_over_the_pairs_of_a_seed(tmp_path):
    ablation(tmp_path, warmup=[0.68, 0.69, 0.66])
    claim = judged(tmp_path, "trains_without_warmup")
    gaps = [0.02, 0.01, 0.04]
    assert claim.main.interval.estimate == pytest.approx(np.mean(gaps))
    half = stats.t.ppf(0.975, 2) * np.std(gaps, ddof=1) / math.sqrt(3)
    assert claim.main.interval.low == pytest.approx(np.mean(gaps) - half)
    assert claim.count() == {"networks": 2, "seeds": 3, "trials": 6}


def test_a_base_that_fails_contradicts_where_the_warm_up_trains(tmp_path):
    ablation(tmp_path, base=None, warmup=0.6)
    claim = judged(tmp_path, "trains_without_warmup")
    assert claim.verdict == "contradicted" and claim.main.notes[0] == "base: 10.0%; 3 of 3 diverged"


def test_accuracy_is_the_last_and_of_a_diverged_run_its_best_before(tmp_path):
    ablation(tmp_path, warmup=0.65)
    for seed in SEEDS:
        pretend.ablation(
            tmp_path,
            "warmup",
            None,
            seed=seed,
            outcome="diverged",
            metrics={"accbest_frac": 0.2 + NOISE[seed]},
        )
    assert judged(tmp_path, "trains_without_warmup").main.interval.estimate == pytest.approx(0.5)


@pytest.mark.parametrize(("kept_by_all", "gap"), [(True, -0.1), (False, 0.2)])
def test_accuracies_are_of_the_averaged_weights_only_if_all_trainings_keep_them(tmp_path, kept_by_all, gap):
    labels = {"suite": "ablation", "variant": "warmup"}
    for seed in SEEDS:
        pretend.ablation(tmp_path, "base", 0.7, seed=seed, metrics={"ema_acc_frac": 0.5 + NOISE[seed]})
        metrics = {"acc_frac": 0.5 - NOISE[seed], "accbest_frac": 0.6, "train_loss_nats": 1.0}
        if seed or kept_by_all:
            metrics["ema_acc_frac"] = 0.6 + NOISE[seed]
        more = {"place": "ablation/warmup", "seed": seed, "settings": pretend.WIDE}
        pretend.write_run(tmp_path, "train_vision", labels, metrics, study="lipsformer", **more)
    found = judged(tmp_path, "trains_without_warmup").main.interval.estimate
    assert found == pytest.approx(gap + (0 if kept_by_all else np.mean(NOISE)))


@pytest.mark.parametrize(
    ("layer_norm", "no_norm", "word"),
    [
        ("stalled", 0.6, "direction"),  # three of three
        (None, 0.6, "direction"),
        ([None, "stalled", None], 0.6, "direction"),
        (0.2, 0.6, "contradicted"),  # however bad: it trains
        (["stalled", "stalled", 0.2], 0.6, "inconclusive"),
        ("stalled", 0.71, "contradicted"),
        ("stalled", None, "direction"),
    ],
)
def test_layer_norm_fails_and_none_is_worse(tmp_path, layer_norm, no_norm, word):
    ablation(tmp_path, layer_norm=layer_norm, no_norm=no_norm)
    claim = judged(tmp_path, "layernorm_fails")
    assert (claim.verdict, claim.provisional) == (word, False)


def test_one_half_of_a_claim_is_provisional(tmp_path):
    ablation(tmp_path, layer_norm="stalled")
    claim = judged(tmp_path, "layernorm_fails")
    assert claim.provisional and claim.missing == ("no runs for no norm - CenterNorm",)
    assert claim.main.notes == ("layer_norm: 10.0%; 3 of 3 not converged",)


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        (None, "direction"),
        ("stalled", "contradicted"),  # it diverges, the claim says
        (0.6, "contradicted"),
        ([None, None, 0.6], "inconclusive"),
    ],
)
def test_dot_product_diverges(tmp_path, ends, word):
    ablation(tmp_path, dot_product=ends)
    claim = judged(tmp_path, "dot_product_fails")
    assert claim.verdict == word and claim.count()["seeds"] == 3


ALPHAS = {"alpha_0__1": 0.69, "alpha_0__3": 0.68, "alpha_0__4": None}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "direction"),
        ({"alpha_0__1": 0.71}, "contradicted"),
        ({"alpha_0__3": 0.71}, "contradicted"),
        ({"alpha_0__3": [0.8, 0.6, 0.65]}, "direction"),
        ({"alpha_0__4": 0.1}, "contradicted"),  # the worst, and yet it does not diverge
        ({"alpha_0__4": "stalled"}, "direction"),  # it does not converge
    ],
)
def test_the_best_alpha_and_the_limit(tmp_path, changes, word):
    ablation(tmp_path, **ALPHAS | changes)
    claim = judged(tmp_path, "alpha_has_a_limit")
    assert (claim.verdict, claim.provisional) == (word, False) and len(claim.parts) == 4
    assert part(claim, "alpha = 0.2 - 0.1").notes[1] == "alpha = 0.2: 71.3%"


def test_an_alpha_that_was_not_run_is_missing(tmp_path):
    ablation(tmp_path, alpha_0__1=0.6)
    claim = judged(tmp_path, "alpha_has_a_limit")
    assert claim.verdict == "reproduced" and claim.provisional and len(claim.missing) == 3


def test_another_suite_is_no_ablation(tmp_path):
    for seed in SEEDS:
        pretend.pair(tmp_path, "LipsFormer-CSwin-T", 0.9, seed=seed)
    ablation(tmp_path, warmup=0.6)
    assert judged(tmp_path, "trains_without_warmup").main.interval.estimate == pytest.approx(0.1)


# touvron2021

RIVALS = {"rezero": "stalled", "skip_init": 0.5, "fixup": None, "fixup_norm": 0.55, "t_fixup": "stalled"}
RIVALS |= {"t_fixup_norm": 0.58}
AT = {24: {"layer_scale_1e__5": 0.6}, 36: {"layer_scale_1e__6": 0.6}}


def both(root, ours=0.6, **changes):
    for depth, own in AT.items():
        deep(root, depth, **dict.fromkeys(own, ours), **RIVALS | changes)


@pytest.mark.parametrize(
    ("depth", "size"), [(6, "1e-1"), (18, "1e-1"), (24, "1e-5"), (36, "1e-6"), (48, "1e-6")]
)
def test_the_start_depends_on_the_depth(depth, size):
    assert start(depth) == f"layer_scale_{size}"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "reproduced"),
        ({"skip_init": 0.61}, "contradicted"),
        ({"t_fixup_norm": [0.8, 0.4, 0.58]}, "direction"),
        ({"rezero": 0.7}, "contradicted"),
        ({"rezero": [0.4, "stalled", None]}, "direction"),  # by accuracy, which varies that much
        ({"rezero": [0.2, "stalled", None]}, "reproduced"),
        ({"ours": "stalled"}, "contradicted"),
        (
            {"ours": [0.6, "stalled", 0.6], "fixup_norm": None, "t_fixup_norm": None, "skip_init": None},
            "direction",
        ),
    ],
)
def test_deep_networks_train_with_layer_scale(tmp_path, changes, word):
    both(tmp_path, **changes)
    claim = judged(tmp_path, "deeper_is_trainable")
    says = (
        claim.numbers_say if changes.get("ours") else claim.verdict
    )  # with both at chance it is underpowered
    assert (says, claim.provisional) == (word, False) and len(claim.parts) == 12


def test_a_depth_that_was_not_run_is_missing_and_another_is_not_asked_for(tmp_path):
    deep(tmp_path, 24, layer_scale_1e__5=0.6, **RIVALS)
    deep(tmp_path, 12, layer_scale_1e__1=0.1, **dict.fromkeys(RIVALS, 0.9))
    claim = judged(tmp_path, "deeper_is_trainable")
    assert claim.verdict == "reproduced" and claim.provisional
    assert [one.partition(":")[0] for one in claim.missing] == ["no runs for 36 blocks"] * 6


def test_the_start_that_counts_is_not_chosen_by_its_result(tmp_path):
    both(tmp_path, skip_init=0.61)
    for depth in AT:
        deep(tmp_path, depth, layer_scale_1e__4=0.9)
    claim = judged(tmp_path, "deeper_is_trainable")
    assert claim.verdict == "contradicted" and any(
        "layer_scale_1e-4: 91.3%" in note for note in claim.main.notes
    )


@pytest.mark.parametrize(
    ("zero", "word"),
    [(0.5, "reproduced"), ("stalled", "reproduced"), (0.61, "contradicted"), ([0.7, 0.5, 0.55], "direction")],
)
def test_a_small_start_beats_zero(tmp_path, zero, word):
    for depth in (12, 24):
        deep(tmp_path, depth, rezero_epsilon=0.6, rezero=zero)
    claim = judged(tmp_path, "small_not_zero")
    assert (claim.verdict, claim.provisional, len(claim.parts)) == (word, False, 2)


def test_trainings_at_a_given_rate_are_shown_only(tmp_path):
    deep(tmp_path, 24, rezero_epsilon=0.6, rezero=0.5)
    for rate, zero in (("0.004", 0.65), ("0.008", 0.7)):
        for variant, value in (("rezero_epsilon", 0.6), ("rezero", zero)):
            for seed in SEEDS:
                more = {"suite": "given_rate", "labels": {"rate": rate}, "metrics": {"rates_count": 1.0}}
                pretend.deep(tmp_path, variant, 24, value + NOISE[seed], seed=seed, **more)
    claim = judged(tmp_path, "small_not_zero")
    assert claim.verdict == "reproduced"
    shown = {part.name: part.interval.estimate for part in claim.parts if not part.decides}
    assert shown == {
        "24 blocks, both at 0.004: rezero_epsilon - rezero": pytest.approx(-0.05),
        "24 blocks, both at 0.008: rezero_epsilon - rezero": pytest.approx(-0.1),
    }


def test_a_given_rate_is_compared_with_the_trainings_that_chose_it(tmp_path):
    """LayerScale chose 0.004, so its trainings are compared with pre-norm at 0.004, and not with those at another rate."""
    for seed, noise in enumerate((1.0, 1.1, 0.9)):
        more = {"seed": seed, "suite": "residual"}
        for variant, cv, rate in (("layer_scale_1e-5", 0.6, 0.004), ("pre_norm", 0.5, 0.002)):
            metrics = {"lr": rate, "rates_count": 3.0}
            pretend.deep(tmp_path, variant, 24, 0.5, cv=cv * noise, metrics=metrics, **more)
        more["suite"] = "given_rate"
        for rate, cv in (("0.004", 1.2), ("0.008", 2.4)):
            pretend.deep(tmp_path, "pre_norm", 24, 0.5, cv=cv * noise, labels={"rate": rate}, **more)
    claim = judged(tmp_path, "uniform_branch_ratio")
    given = {part.name: part.interval.estimate for part in claim.parts if "both at" in part.name}
    assert given == {
        "24 blocks, both at 0.004: variation after training, layer_scale_1e-5 / pre_norm": pytest.approx(0.5)
    }
    assert claim.verdict == "contradicted" and claim.main.interval.estimate == pytest.approx(1.2)


def test_schemes_that_the_notes_do_not_name_are_shown_only(tmp_path):
    others = dict(skip_init=0.4, fixup=0.4, fixup_norm=0.4, t_fixup=0.4, t_fixup_norm=0.4)
    for depth, ours in ((24, "layer_scale_1e__5"), (36, "layer_scale_1e__6")):
        deep(tmp_path, depth, rezero=0.4, pre_norm=0.8, rezero_deit=0.9, **others, **{ours: 0.6})
    claim = judged(tmp_path, "deeper_is_trainable")
    shown = [part.name for part in claim.parts if not part.decides]
    assert len(shown) == 4 and claim.verdict != "contradicted"
    assert part(claim, "24 blocks: layer_scale_1e-5 - pre_norm").interval.estimate == pytest.approx(-0.2)


def ratios(root, depth, variant, values):
    for seed, cv in enumerate(values):
        pretend.deep(root, variant, depth, 0.5, seed=seed, cv=cv)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ((0.5, 0.6, 0.7), "reproduced"),
        ((1.5, 1.6, 1.7), "contradicted"),
        ((0.5, 0.9, 1.1), "direction"),
        ((0.9, 1.2, 1.3), "inconclusive"),
    ],
)
def test_the_branches_are_more_even(tmp_path, values, word):
    for depth in (24, 36):
        ratios(tmp_path, depth, "pre_norm", (1.0, 1.1, 1.2))
        ratios(tmp_path, depth, start(depth), values)
        ratios(tmp_path, depth, "layer_scale_1e-4", (9.0, 9.0, 9.0))  # beside it
    claim = judged(tmp_path, "uniform_branch_ratio")
    assert (claim.verdict, claim.provisional) == (word, False)
    assert [one.decides for one in claim.parts].count(True) == 2 and len(claim.parts) == 8
    geometric = np.exp(np.mean(np.log(np.array(values) / (1.0, 1.1, 1.2))))
    assert claim.main.interval.estimate == pytest.approx(geometric)


def test_ratios_are_of_equal_depth(tmp_path):
    ratios(tmp_path, 24, "pre_norm", (1.0, 1.1, 1.2))
    ratios(tmp_path, 36, "layer_scale_1e-6", (0.5, 0.6, 0.7))
    claim = judged(tmp_path, "uniform_branch_ratio")
    assert claim.verdict == "not_run" and claim.missing[0].startswith("no runs for 24 blocks")


@pytest.mark.parametrize(
    ("helps", "word"), [(0.7, "reproduced"), (0.5, "contradicted"), ([0.7, 0.59, 0.62], "direction")]
)
def test_class_attention_is_compared_with_a_class_token_from_the_start(tmp_path, helps, word):
    deep(tmp_path, 24, suite="class_token", class_attention=helps, from_start=0.6)
    deep(tmp_path, 24, class_attention=0.1, from_start=0.9)  # another suite
    claim = judged(tmp_path, "class_attention_helps")
    assert (claim.verdict, claim.provisional) == (word, False)


@pytest.mark.parametrize(
    ("control", "words"), [("patch4", "patches of 4 pixels"), ("longer", "four times the epochs")]
)
def test_a_control_of_class_attention_is_shown_and_does_not_decide(tmp_path, control, words):
    deep(tmp_path, 24, suite="class_token", class_attention=0.5, from_start=0.6)
    before = judged(tmp_path, "class_attention_helps")
    better = {f"class_attention_{control}": 0.8, f"from_start_{control}": 0.6}
    deep(tmp_path, 24, suite="class_token", **better)
    deep(tmp_path, 12, suite="class_token", **better)
    claim = judged(tmp_path, "class_attention_helps")
    assert (claim.verdict, claim.missing) == (before.verdict, before.missing)
    shown = {part.name: part.interval.estimate for part in claim.parts if not part.decides}
    assert shown == {
        f"{depth} blocks: class attention - class token from the start, {words}": pytest.approx(0.2)
        for depth in (12, 24)
    }


def test_a_variant_with_small_patches_differs_in_them_alone():
    train = plan(parameters.load(ROOT / "params.yaml", "small"), "small")["train_vision"]
    for variant in ("from_start", "class_attention"):
        as_it_is, small = (
            train.settings_of(suite="class_token", variant=f"{variant}{patch}", depth="24")
            for patch in ("", "_patch4")
        )
        assert as_it_is["network"]["patch_size"] == 8 and small["network"]["patch_size"] == 4
        assert {**small, "network": {**small["network"], "patch_size": 8}} == as_it_is


@pytest.mark.parametrize("step", ["tune_vision", "train_vision"])
def test_a_longer_variant_differs_in_its_epochs_alone(step):
    family = plan(parameters.load(ROOT / "params.yaml", "small"), "small")[step]
    tried = {"rate": "0.004"} if step == "tune_vision" else {}
    suite = {"of" if tried else "suite": "class_token"}
    for variant in ("from_start", "class_attention"):
        short, long = (
            family.settings_of(**suite, **tried, variant=f"{variant}{control}", depth="24")
            for control in ("", "_longer")
        )
        assert long["epochs"] == 4 * short["epochs"] and {**long, "epochs": short["epochs"]} == short


def test_a_control_with_a_larger_layer_scale_has_the_plain_class_token_as_its_rival(tmp_path):
    deep(tmp_path, 24, suite="class_token", class_attention=0.5, from_start=0.6)
    before = judged(tmp_path, "class_attention_helps")
    deep(tmp_path, 24, suite="class_token", **{"class_attention_1e-1": 0.8})
    claim = judged(tmp_path, "class_attention_helps")
    assert (claim.verdict, claim.missing) == (before.verdict, before.missing)
    name = "24 blocks: class attention - class token from the start, LayerScale from 0.1 in class attention"
    shown = {part.name: part.interval.estimate for part in claim.parts if not part.decides}
    assert shown == {name: pytest.approx(0.2)}


@pytest.mark.parametrize("step", ["tune_vision", "train_vision"])
def test_a_larger_layer_scale_of_class_attention_changes_nothing_else(step):
    family = plan(parameters.load(ROOT / "params.yaml", "small"), "small")[step]
    tried = {"rate": "0.004"} if step == "tune_vision" else {}
    plain, larger = (
        family.settings_of(**{"of" if tried else "suite": "class_token"}, **tried, variant=name, depth="24")
        for name in ("class_attention", "class_attention_1e-1")
    )
    longer = family.settings_of(
        **{"of" if tried else "suite": "class_token"},
        **tried,
        variant="class_attention_1e-1_longer",
        depth="24",
    )
    assert longer == {**larger, "epochs": 4 * larger["epochs"]}
    assert larger["network"].pop("class_epsilon") == 0.1 and larger == plain
    assert plain["network"]["epsilon"] == 1e-5


def test_class_attention_alone_is_no_comparison(tmp_path):
    deep(tmp_path, 24, suite="class_token", class_attention=0.6)
    claim = judged(tmp_path, "class_attention_helps")
    assert claim.verdict == "not_run" and claim.missing == (
        "no runs for 24 blocks: class attention - class token from the start",
    )


# what a claim of failure, and a comparison of schemes, needs


@pytest.mark.parametrize(
    ("settings", "steps", "reason"),
    [
        ({"embed_dim": 31, "depths": [1, 2, 21, 1]}, 62_500, "31 channels, needs 50% of the published 64"),
        ({"embed_dim": 64, "depths": [1, 1, 9, 1]}, 62_500, "12 blocks, needs 50% of the published 25"),
        ({"embed_dim": 64, "depths": [1, 2, 21, 1]}, 6_249, "6,249 steps, needs 10% of the published 62,500"),
    ],
)
@pytest.mark.parametrize("claim", ["dot_product_fails", "layernorm_fails", "alpha_has_a_limit"])
def test_a_small_network_cannot_contradict_a_failure(tmp_path, claim, settings, steps, reason):
    more = {"settings": {"network": settings}, "metrics": {"steps_count": steps}}
    for seed in SEEDS:
        for variant in (
            "base",
            "no_norm",
            "layer_norm",
            "dot_product",
            "alpha_0.1",
            "alpha_0.3",
            "alpha_0.4",
        ):
            pretend.ablation(tmp_path, variant, 0.6 if variant == "base" else 0.5, seed=seed, **more)
    found = judged(tmp_path, claim)
    assert (found.verdict, found.numbers_say) == ("underpowered", "contradicted")
    assert found.reasons == (reason,)


def test_the_steps_of_a_training_that_diverged_are_those_of_the_base(tmp_path):
    for seed in SEEDS:
        pretend.ablation(tmp_path, "base", 0.6, seed=seed)
        pretend.ablation(
            tmp_path, "dot_product", None, seed=seed, outcome="diverged", metrics={"steps_count": 9}
        )
    assert judged(tmp_path, "dot_product_fails").verdict == "direction"


def test_one_learning_rate_for_all_schemes_is_underpowered(tmp_path):
    for seed in SEEDS:
        for variant, value in (("layer_scale_1e-5", 0.7 + 0.01 * seed), ("rezero", 0.6)):
            labels = {"suite": "residual", "variant": variant, "depth": "24"}
            pretend.classify(
                tmp_path,
                "layer_scale",
                labels,
                value,
                seed=seed,
                metrics={"rates_count": 1.0 if seed else 3.0},
            )
    found = judged(tmp_path, "deeper_is_trainable")
    assert found.verdict == "underpowered"
    assert found.reasons == ("learning rate chosen of 1, needs 2 a scheme",)
