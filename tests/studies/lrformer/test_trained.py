"""ye2023's trained part: its claim reproduced, contradicted, missing and underpowered; tables and figures of uncertainty."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import StepPatch
from scipy import stats

from relearn.report import claims, coverage, grid, table
from relearn.report.statistics import wilson
from relearn.studies import parameters
from relearn.studies.lrformer.claims import PREDICATES
from relearn.studies.lrformer.figures import entropy_distance, entropy_histograms, reliability
from relearn.studies.lrformer.plan import plan

from ...report.conftest import FOLDERS, SECTIONS, chapter, evidence_of
from ...report.drawn import (
    check_equal_files,
    check_nothing_is_covered,
    check_panels,
    drawn_of,
)
from . import fake_records as pretend

ARTEFACTS = chapter("lrformer")
FIGURES = {name: one for name, one in ARTEFACTS.items() if one.kind == "figure"}
PANELS = {"addition.lrformer_entropy": 8, "addition.lrformer_reliability": 2, "addition.lrformer_distance": 4}
CLAIM = "gp_is_distance_aware"
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return evidence_of(pretend.Study().write(tmp_path_factory.mktemp("lrformer")))


def judged(root):
    section = claims.load(FOLDERS)["lrformer"]
    found = claims.judge_all({"lrformer": {CLAIM: section[CLAIM]}}, {"lrformer": evidence_of(root)}, SECTIONS)
    return found[0]


def part(claim, name):
    return next(one for one in claim.parts if one.name == name)


def both(root, seeds=(0, 1, 2), attention="dot", accuracy=0.8, **of_gp):
    """A dense and a GP head of 12 blocks; ``of_gp``: what the GP's runs have; a list of ``aurocs``: one a seed."""
    for at, seed in enumerate(seeds):
        for head in ("dense", "gp"):
            outcome = "ok" if accuracy > 0.1 else "not_converged"
            pretend.classify(root, f"{attention}_{head}", accuracy, seed=seed, outcome=outcome)
        pretend.uncertainty(root, f"{attention}_dense", seed=seed)
        own = {
            key: value[at] if key == "aurocs" and isinstance(value, list) else value
            for key, value in of_gp.items()
        }
        pretend.uncertainty(root, f"{attention}_gp", seed=seed, **own)


# the claim


def test_every_trained_claim_of_the_section_has_a_predicate():
    section = claims.load(FOLDERS)["lrformer"]
    assert set(section) == set(PREDICATES)


def test_reproduced_over_all_attentions_and_depths(study):
    found = PREDICATES[CLAIM](study)
    decides = [one for one in found.parts if one.decides]
    assert len(decides) == 2 * 2 * 3 and not found.missing
    assert {one.verdict for one in decides} == {"reproduced"}
    assert len(found.parts) == 4 * (2 + 2 + 1 + 1 + len(pretend.SETS) + 1)


def test_the_numbers_are_paired_by_seed_and_set(tmp_path):
    noise = [0.0, 0.02, -0.01]
    names = pretend.SETS
    aurocs = [{one: 0.7 + 0.05 * at + move for at, one in enumerate(names)} for move in noise]
    both(tmp_path, aurocs=aurocs)
    claim = judged(tmp_path)
    auroc = part(claim, "dot products, 12 blocks: AUROC, GP - dense")
    # dense: 0.66 + 0.05 place + 0.002 seed
    differences = [0.04 + move - 0.002 * seed for seed, move in enumerate(noise)]
    half = stats.t.ppf(0.975, 2) * np.std(differences, ddof=1) / math.sqrt(3)
    assert auroc.interval.estimate == pytest.approx(np.mean(differences))
    assert auroc.interval.high - auroc.interval.estimate == pytest.approx(half)
    assert auroc.notes == (f"mean over {', '.join(names)}",)
    one = part(claim, "dot products, 12 blocks: AUROC against cifar100, GP - dense")
    assert not one.decides and one.interval.estimate == pytest.approx(np.mean(differences))
    spread = part(claim, "dot products, 12 blocks: AUROC by variance, GP - dense by entropy")
    assert spread.interval.estimate == pytest.approx(np.mean(differences) + 0.05) and not spread.decides
    rise = part(claim, "dot products, 12 blocks: entropy on the way out in features")
    assert rise.interval.estimate == pytest.approx(0.5) and rise.unit == "nats"
    assert rise.notes[0] == "seed 0: 0.400 to 0.900 nats at 16 deviations, rises or stays in 5 of 5 steps"
    assert len(rise.runs) == 3 and len(auroc.runs) == 6
    assert (claim.verdict, claim.main.name) == ("reproduced", rise.name)


def test_only_sets_that_both_heads_saw_are_compared(tmp_path):
    # the one set that only the GP saw would turn the sign
    both(tmp_path, aurocs={"cifar100": 0.60, "svhn": 1.0, "corrupted": 0.65})
    auroc = part(judged(tmp_path), "dot products, 12 blocks: AUROC, GP - dense")
    assert auroc.notes == ("mean over cifar100, corrupted",)
    # dense: 0.66 and 0.71, and 0.002 more a seed
    assert auroc.interval.estimate == pytest.approx(0.625 - 0.685 - 0.002)
    assert auroc.verdict == "contradicted"


def test_a_falling_entropy_contradicts_in_features_and_in_pixels(tmp_path):
    falls = [0.5, 0.6, 0.5, 0.4, 0.3, 0.2]
    rises = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    both(tmp_path / "a", features=falls, pixels=rises)
    claim = judged(tmp_path / "a")
    assert claim.verdict == "contradicted"
    assert (
        part(claim, "dot products, 12 blocks: entropy on the way out in features").verdict == "contradicted"
    )
    both(tmp_path / "b", features=rises, pixels=falls)
    claim = judged(tmp_path / "b")
    pixels = part(claim, "dot products, 12 blocks: entropy on the way out in pixels")
    assert claim.verdict == "contradicted" and pixels.verdict == "contradicted" and pixels.decides
    for space in ("features", "pixels"):
        dense = part(claim, f"dot products, 12 blocks: entropy on the way out in {space}, dense head")
        assert not dense.decides


def test_a_difference_that_changes_sign_is_a_direction(tmp_path):
    moved = [dict.fromkeys(pretend.SETS, 0.66 + move) for move in (0.2, 0.0, 0.15)]
    both(tmp_path, aurocs=moved)
    assert judged(tmp_path).verdict == "direction"


def test_too_few_seeds_and_networks_at_chance_are_underpowered(tmp_path):
    both(tmp_path / "a", seeds=(0, 1))
    claim = judged(tmp_path / "a")
    assert (claim.verdict, claim.numbers_say) == ("underpowered", "direction")
    assert claim.reasons == ("2 seeds, needs 3",)
    both(tmp_path / "b", accuracy=0.1)
    claim = judged(tmp_path / "b")
    assert claim.verdict == "underpowered"
    assert "dot_gp of 12 blocks and dot_dense of 12 blocks at chance level, seeds 0, 1, 2" in claim.reasons


def test_the_controls_are_shown_and_do_not_decide(tmp_path):
    falls = [0.5, 0.6, 0.5, 0.4, 0.3, 0.2]
    both(tmp_path, pixels=falls)
    before = judged(tmp_path)
    for seed in range(3):
        pretend.uncertainty(tmp_path, "dot_gp_mean", seed=seed, pixels=falls)
        pretend.uncertainty(tmp_path, "dot_gp_mean_no_norm", seed=seed, pixels=falls[::-1])
    claim = judged(tmp_path)
    assert (claim.verdict, claim.missing) == (before.verdict, before.missing)
    name = "dot products, 12 blocks, patches pooled{}: entropy on the way out in pixels"
    bounded, free = (part(claim, name.format(more)) for more in ("", ", no last norm"))
    assert (bounded.verdict, free.verdict) == ("contradicted", "reproduced")
    assert not (bounded.decides or free.decides)
    spread = part(
        claim, "dot products, 12 blocks, patches pooled: variance of the GP on the way out in pixels"
    )
    assert not spread.decides and spread.unit == "" and spread.notes[0].startswith("seed 0: 0.")


@pytest.mark.parametrize("step", ["train_vision", "evaluate_uncertainty"])
def test_a_control_differs_in_its_pooling_and_its_last_norm_alone(step):
    family = plan(parameters.load(ROOT / "params.yaml", "small"), "small")[step]
    plain, mean, free = (
        family.settings_of(variant=f"dot_gp{more}", depth="6") for more in ("", "_mean", "_mean_no_norm")
    )
    if step == "train_vision":
        assert free["network"].pop("final_norm") is False
        assert {free["network"].pop("class_token"), mean["network"].pop("class_token")} == {"mean"}
    assert plain == mean == free


def test_without_a_dense_head_the_comparison_is_missing(tmp_path):
    for seed in range(3):
        pretend.classify(tmp_path, "lrsa_gp", seed=seed)
        pretend.uncertainty(tmp_path, "lrsa_gp", seed=seed)
    claim = judged(tmp_path)
    assert claim.missing == ("no runs for LRSA, 12 blocks: AUROC",) and claim.provisional
    assert judged(tmp_path / "nothing").verdict == "not_run"


def test_what_diverged_is_left_out(tmp_path):
    both(tmp_path)
    pretend.classify(tmp_path, "dot_gp", seed=3)
    pretend.write_run(
        tmp_path, "evaluate_uncertainty", "dot_gp", {"test_count": 5.0}, {}, seed=3, outcome="diverged"
    )
    assert len(part(judged(tmp_path), "dot products, 12 blocks: AUROC, GP - dense").runs) == 6


# tables


def cells(name, evidence):
    return {(cell.row.id, cell.column.id): cell for cell in table.build(ARTEFACTS[name], evidence)}


def test_tables_hold_the_records_numbers(study):
    found = cells("addition.lrformer_training", study)
    assert found["dot_dense_12", "accuracy"].mean == pytest.approx(0.8)
    assert found["dot_dense_12", "ece"].mean == pytest.approx(0.1)
    assert found["lrsa_gp_6", "nll"].mean == pytest.approx(0.6 + 0.05 * 0.7)
    found = cells("addition.lrformer_ood", study)
    assert found["dot_gp_6", "cifar100/auroc"].mean == pytest.approx(0.702)
    assert found["dot_gp_6", "natural_patches/fpr95"].mean == pytest.approx(1 - 0.852)
    assert found["dot_dense_6", "all/auroc"].mean == pytest.approx(0.66 + 0.075 + 0.002)
    assert found["dot_dense_6", "svhn/auroc"].status == "no_value"
    assert found["dot_dense_6", "corrupted/variance"].status == "not_applicable"
    assert found["dot_gp_6", "corrupted/variance"].mean == pytest.approx(0.802)
    assert found["dot_gp_6", "all/variance"].mean == pytest.approx(0.70 + 0.075 + 0.002 + 0.05)


@pytest.mark.parametrize("name", ["addition.lrformer_training", "addition.lrformer_ood"])
def test_tables_are_lines_of_one_width(name, study, tmp_path):
    for known in (study, evidence_of(tmp_path)):
        artefact = ARTEFACTS[name]
        header, lines = grid.header_and_rows(artefact, list(cells(name, known).values()))
        assert {len(line) for line in lines} == {len(header)} and len(lines) >= 8
    assert coverage.cover(ARTEFACTS[name], study).addition


# figures


def test_the_figures_are_these():
    assert set(FIGURES) == set(PANELS)


@pytest.mark.parametrize("name", PANELS)
def test_every_figure_is_drawn_with_and_without_runs(name, study, tmp_path):
    empty = full = PANELS[name]
    check_panels(name, evidence_of(tmp_path), empty, gaps=empty)
    check_panels(name, study, full, gaps=0)
    check_nothing_is_covered(drawn_of(name, study))


def test_equal_records_give_equal_files(study, tmp_path):
    check_equal_files("addition.lrformer_reliability", study, tmp_path)


def test_histograms_are_shares_that_add_up_and_are_drawn(tmp_path):
    for seed in (0, 1):
        pretend.uncertainty(tmp_path, "dot_gp", seed=seed, aurocs={"svhn": 0.8})
    artefact = FIGURES["addition.lrformer_entropy"]
    found = entropy_histograms.points(artefact, evidence_of(tmp_path))
    assert {(p["row"], p["panel"], p["seeds"]) for p in found} == {("depth12", "dot_gp", 2)}
    for name in ("test", "svhn"):
        assert sum(p["share"] for p in found if p["set"] == name) == pytest.approx(1)
    first = [pretend.histogram(("svhn",), 0.9, seed)[0]["count"] / 500 for seed in (0, 1)]
    assert found[0]["share"] == pytest.approx(np.mean(first))
    drawn = entropy_histograms.draw(artefact, found)
    assert len(drawn.axes) == 4  # the depth without a run has no panels
    panel = next(axes for axes in drawn.axes if axes.get_title(loc="left") == "Dot product, GP,\n12 blocks")
    steps = [patch.get_data() for patch in panel.findobj(StepPatch)]
    assert len(steps) == 3  # test images filled and outlined, svhn
    np.testing.assert_allclose(steps[2].values, [p["share"] for p in found if p["set"] == "svhn"])
    assert [t.get_text() for t in drawn.legends[0].get_texts()] == ["Test images", "SVHN"]


def test_reliability_is_of_one_seeds_images_with_less_than_three_seeds(tmp_path):
    rows = [
        [{"bin": 0, "samples": 10, "confidence": 0.3, "accuracy": 0.2},
         {"bin": 1, "samples": 0, "confidence": None, "accuracy": None},
         {"bin": 2, "samples": 1000, "confidence": 0.9, "accuracy": 0.8}],
        [{"bin": 0, "samples": 30, "confidence": 0.32, "accuracy": 0.6},
         {"bin": 1, "samples": 1, "confidence": 0.5, "accuracy": 1.0},
         {"bin": 2, "samples": 959, "confidence": 0.9, "accuracy": 0.9}],
    ]  # fmt: skip
    for seed in (0, 1):
        pretend.write_run(
            tmp_path,
            "evaluate_uncertainty",
            "lrsa_gp",
            {},
            {"calibration.csv": rows[seed]},
            depth=6,
            seed=seed,
        )
    artefact = FIGURES["addition.lrformer_reliability"]
    found = reliability.points(artefact, evidence_of(tmp_path))
    assert [(p["panel"], p["series"], p["bin"]) for p in found] == [
        ("depth6", "lrsa_gp", at) for at in (0, 1, 2)
    ]
    assert [p["accuracy"] for p in found] == pytest.approx([0.4, 1.0, 0.85])
    assert found[0]["confidence"] == pytest.approx(0.31)
    ends = wilson(0.4 * 20, 20)  # each seed has about 20 samples in the bin
    assert (found[0]["low"], found[0]["high"]) == pytest.approx((ends.low, ends.high))
    assert {p["interval"] for p in found} == {"wilson"}
    assert reliability.BARS(artefact, found) == "bars: Wilson's 95% interval over one seed's images of a bin"
    assert sum(p["share"] for p in found) == pytest.approx(1)
    line = reliability.draw(artefact, found).axes[0].lines[-1]  # the bin of one sample of 2000 is left out
    np.testing.assert_allclose(line.get_xdata()[:1], [0.31])
    assert any(len(one.get_xdata()) == 2 for one in reliability.draw(artefact, found).axes[0].lines[1:])


def test_reliability_of_three_seeds_has_their_interval_and_lines_side_by_side(tmp_path):
    for variant in ("lrsa_gp", "dot_gp"):
        for seed, accuracy in enumerate((0.5, 0.6, 0.7)):
            rows = [{"bin": 4, "samples": 100, "confidence": 0.4, "accuracy": accuracy},
                    {"bin": 5, "samples": 100, "confidence": 0.5, "accuracy": 1.0}]  # fmt: skip
            files = {"calibration.csv": rows}
            pretend.write_run(tmp_path, "evaluate_uncertainty", variant, {}, files, depth=6, seed=seed)
    artefact = FIGURES["addition.lrformer_reliability"]
    found = reliability.points(artefact, evidence_of(tmp_path))
    half = stats.t.ppf(0.975, 2) * 0.1 / math.sqrt(3)
    one, equal = (p for p in found if p["series"] == "lrsa_gp")
    assert (one["accuracy"], one["low"], one["high"]) == pytest.approx((0.6, 0.6 - half, 0.6 + half))
    assert equal["low"] == pytest.approx(wilson(100, 100).low)  # equal accuracies are no certainty
    assert reliability.BARS(artefact, found).count("95% interval") == 2
    drawn = reliability.draw(artefact, found).axes[0].findobj(LineCollection)
    places = {round(float(one.get_segments()[0][0, 0]), 6) for one in drawn}
    assert len(drawn) == len(places) == 2


def test_distances_show_mean_and_range_of_the_seeds_by_space(tmp_path):
    for seed in (0, 1):
        pretend.uncertainty(tmp_path, "lrsa_gp", seed=seed, features=[0.2 + 0.1 * seed] * 6, pixels=[1.0] * 6)
    artefact = FIGURES["addition.lrformer_distance"]
    found = entropy_distance.points(artefact, evidence_of(tmp_path))
    assert [p["panel"] for p in found] == ["features12"] * 6 + ["pixels12"] * 6
    assert [p["distance"] for p in found[:6]] == list(pretend.DISTANCES)
    one, top = found[3], math.log(10)
    shares = (one["entropy_share"], one["low"], one["high"])
    assert shares == pytest.approx((0.25 / top, 0.2 / top, 0.3 / top)) and one["seeds"] == 2
    assert one["variance"] == pytest.approx(1 - math.exp(-0.3 - 1))
    assert found[-1]["entropy_share"] == pytest.approx(1 / top)
    pretend.uncertainty(tmp_path, "lrsa_dense")
    found = entropy_distance.points(artefact, evidence_of(tmp_path))
    assert {p["variance"] for p in found if p["series"] == "lrsa_dense"} == {None}


def test_labels_of_the_distance_do_not_overlap(study):
    drawn = drawn_of("addition.lrformer_distance", study)
    drawn.draw_without_rendering()
    labels = [axes.xaxis.label.get_window_extent() for axes in drawn.axes]
    assert len(labels) == 4 and all(one.x1 < other.x0 for one, other in itertools.pairwise(labels))
