"""Figures of images, curves and points: what they plot is what the records' files hold."""

import numpy as np
import pytest

from relearn.studies.poisoning.claims.victim_loss import victim_losses
from relearn.studies.poisoning.figures import bars, curves, defended, plane, poisons, qualitative, toy

from ...report.conftest import every_artefact, evidence_of
from ...report.drawn import labels, rendered
from . import fake_settings
from .fake_records import write_run

ARTEFACTS = every_artefact()


def points_of(module, name, evidence):
    return module.points(ARTEFACTS[f"zhu2022.{name}"], evidence)


def test_perturbations_are_measured_on_the_images(evidence):
    gallery = fake_settings.images()
    change = gallery["poison"][0, 1].astype(int) - gallery["base"][1]
    found = {(p["series"], p["place"], p["source"]): p for p in points_of(poisons, "fig2.2", evidence)}
    second = found["convex_polytope", "bottom", "measured"]
    assert second["l1_mean_255"] == pytest.approx(np.abs(change).mean())
    assert second["linf_255"] == np.abs(change).max() <= 26
    assert second["amplified"] == pytest.approx(127 / np.abs(change).max())
    assert (found["pictures" and "feature_collision", "top", "paper"]["l1_mean_255"]) == 18.7
    assert {p["linf_255"] for p in found.values() if p["source"] == "paper"} == {26}
    assert ("bullseye_polytope", "top", "measured") in found and (
        "gradient_matching",
        "top",
        "measured",
    ) not in found


def test_pictures_are_drawn_and_not_written(evidence, tmp_path):
    made = rendered(ARTEFACTS["zhu2022.fig2.2"], evidence, tmp_path)
    header = made[0].read_text().splitlines()[0].split(",")
    assert "pictures" not in header and "l1_mean_255" in header


def test_grey_images_and_few_poisons_are_drawn(make_study):
    small = fake_settings.craft(gallery=fake_settings.images(8, 1, 1))
    bare = make_study(attacks=(), defences=(), targets=2, victims=("SENet18",), extras=(small,))
    evidence = evidence_of(bare)
    for module, name in ((poisons, "fig2.2"), (qualitative, "fig2.4")):
        drawn = module.draw(ARTEFACTS[f"zhu2022.{name}"], points_of(module, name, evidence))
        assert any(axes.images for axes in drawn.axes)
    assert {p["place"] for p in points_of(poisons, "fig2.2", evidence) if p["source"] == "measured"} == {
        "top"
    }


def test_an_edited_gallery_is_refused_by_name(make_study):
    root = make_study(
        attacks=(), defences=(), targets=2, victims=("SENet18",), extras=(fake_settings.craft(),)
    )
    file = next(root.rglob("convex_polytope/seed0/gallery.safetensors"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match=r"craft/convex_polytope/seed0/gallery.safetensors: torn or edited"):
        points_of(poisons, "fig2.2", evidence_of(root))


def test_far_points_do_not_press_the_rest_together(evidence):
    artefact = ARTEFACTS["zhu2022.fig2.10"]
    points = points_of(plane, "fig2.10", evidence)
    far = [*points, {**points[0], "x": 1000.0}]
    drawn = plane.draw(artefact, far)
    assert drawn.axes[0].get_xlim()[1] < 10 and "(1 outside)" in drawn.axes[1].get_xlabel()
    assert "outside" not in plane.draw(artefact, points).axes[1].get_xlabel()


def test_who_fell_is_read_from_the_transfer_runs(evidence):
    found = {(p["series"], p["target"]): p for p in points_of(qualitative, "fig2.4", evidence)}
    everyone = "DenseNet121 MobileNetV2 ResNet18 SENet18"
    # target 0 falls to both attacks, target 1 to none
    assert found["feature_collision", 0]["fell"] == everyone and found["feature_collision", 0]["stood"] == ""
    assert found["convex_polytope", 1]["stood"] == everyone and found["convex_polytope", 1]["fell"] == ""
    assert found["bases", 0]["fell"] is None and ("bases", 1) in found
    assert "/train/transfer/" in found["convex_polytope", 1]["runs"]


def test_curves_of_substitutes_and_of_each_watched_victim(evidence):
    found = points_of(curves, "fig2.3", evidence)
    mine = [p for p in found if (p["attack"], p["dropout"]) == ("convex_polytope", 0)]
    assert sum(p["network"] == "substitutes" for p in mine) == fake_settings.ITERATIONS
    watched = [p for p in mine if p["network"] == "victims"]
    assert [p["iteration"] for p in watched] == [10, 20, 30, 40]
    at_end = 0.3 * (1 + 3 / 40)
    assert watched[-1]["loss"] == pytest.approx(1.5 * at_end * (1 + 0.1 * 1.5))  # mean of ranks 0 to 3
    last = [p for p in mine if p["network"] == "substitutes"][-1]
    assert last["loss"] == pytest.approx(at_end)
    assert {p["network"] for p in mine} >= {"SENet18", "DenseNet121"}
    entries = labels(curves.draw(ARTEFACTS["zhu2022.fig2.3"], mine))
    assert [text.endswith("crafted without Dropout") for text in entries] == [True, True]


def test_the_final_losses_of_the_victims_are_compared_in_pairs(evidence):
    artefact = ARTEFACTS["zhu2022.fig2.3"]
    found = points_of(curves, "fig2.3", evidence)
    apart = {p["attack"]: p for p in found if p["network"] == curves.DIFFERENCE}
    assert set(apart) == {"feature_collision", "convex_polytope"}
    one = apart["convex_polytope"]
    sides = [victim_losses(evidence, f"convex_polytope{more}") for more in ("", "_no_dropout")]
    means = [np.mean([trial.value for trial in side]) for side in sides]
    assert one["loss"] == pytest.approx(means[0] - means[1]) and one["low"] <= one["loss"] <= one["high"]
    assert one["targets"] == len({trial.target for trial in sides[0]})
    assert curves.NOTE(artefact, found).startswith(
        f"mean over {one['targets']} targets, the paper: one target"
    )
    texts = [text.get_text() for axes in curves.draw(artefact, found).axes for text in axes.texts]
    assert len(texts) == 2 and all("with - without Dropout" in text for text in texts)


def test_the_toys_titles_say_what_its_points_say(evidence):
    points = points_of(toy, "fig2.1", evidence)
    artefact = ARTEFACTS["zhu2022.fig2.1"]
    titles = [axes.get_title(loc="left") for axes in toy.draw(artefact, points).axes]
    assert titles == [
        "Feature collision: the target is still classified correctly",
        "Convex polytope: the target is misclassified",
    ]
    moved = [{**p, "x": 2.0} if p["kind"] == "target" else p for p in points]
    assert all("is misclassified" in axes.get_title(loc="left") for axes in toy.draw(artefact, moved).axes)


def test_another_victim_than_the_published_is_named(evidence, tmp_path):
    artefact = ARTEFACTS["zhu2022.fig2.10"]
    drawn = plane.draw(artefact, points_of(plane, "fig2.10", evidence))
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert titles == [
        "Convex polytope on ResNet18\n(published: DPN92)",
        "After Deep k-NN: 5 of 5 poisons removed",
    ]
    for victim in ("AlexNet", "DPN92"):
        labels = {"attack": "convex_polytope", "victim": victim}
        row = {"target": 0, "x": 0.0, "y": 0.0, "kind": "poison", "kept": 1}
        write_run(tmp_path, "feature_plane", f"convex_polytope/{victim}", labels, {}, rows=[row])
    both = evidence_of(tmp_path)
    assert {p["victim"] for p in points_of(plane, "fig2.10", both)} == {"DPN92"}


def test_overlaps_have_their_own_reference(evidence):
    found = {(p["series"], p["victim"]): p for p in points_of(bars, "fig2.6", evidence)}
    assert [
        found[name, "SENet18"]["success"] for name in ("overlap_half", "overlap_full", "overlap_disjoint")
    ] == [*(0.5, 0.25, 0.5)]
    assert all(found[name, "SENet18"]["reference"] == 0.0 for name in ("overlap_half", "overlap_full"))


def test_end_to_end_shows_both_forms_and_the_additions(evidence):
    points = points_of(bars, "fig2.7", evidence)
    found = {p["series"]: p["success"] for p in points if p["victim"] == "ResNet18"}
    wanted = {"convex_polytope": 0.0, "multi_layer": 0.75, "multi_layer_as_released": 0.25}
    additions = {"bullseye_polytope": 0.75, "gradient_matching": 0.25, "adaptive_polytope": 0.5}
    assert found == {**wanted, **additions}
    drawn = bars.draw(ARTEFACTS["zhu2022.fig2.7"], points)
    assert sum(line.get_linestyle() == "--" for line in drawn.axes[0].lines) == 1  # the paper's bound


def test_deep_knn_by_architecture(evidence):
    points = points_of(defended, "fig2.9", evidence)
    found = {(p["series"], p["panel"], p["victim"], p["source"]): p for p in points}
    mine = found["convex_polytope", "defence_success", "SENet18", "measured"]
    assert (mine["value"], mine["trials"]) == (1.0, 10)  # of twenty, ten work undefended
    accuracy = found["convex_polytope", "test_accuracy", "SENet18", "measured"]
    assert (accuracy["value"], accuracy["unfiltered"]) == (pytest.approx(0.9), pytest.approx(0.9))
    assert found["convex_polytope", "defence_success", "DPN92", "measured"]["status"] == "not_run"
    code = [p for p in points if p["source"] == "published code"]
    assert len(code) == 8 and {p["value"] for p in code} == {1.0}


def test_a_victim_on_which_no_attack_works_says_so(make_study):
    never = make_study(success=lambda *_: False, defences=("deep_knn",), victims=("SENet18",), targets=2)
    points = points_of(defended, "fig2.9", evidence_of(never))
    mine = [p for p in points if p["victim"] == "SENet18" and p["series"] == "convex_polytope"]
    assert [p["status"] for p in mine if p["source"] == "measured"] == ["no_value", "measured"]
