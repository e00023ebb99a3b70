"""What all figures share: the line below them, their width, the places of their points, and what is said of networks and chance."""

import csv
import re
from dataclasses import replace
from importlib import import_module
from inspect import getsource
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from relearn.report import classified, figures
from relearn.report.artefacts import Artefact
from relearn.report.figures import claims_forest, foot, over_seeds, panels, picture, style
from relearn.report.figures.style import SMALL, WIDTH, apply_style, chance_line, empty_figure, in_percent
from relearn.report.quantities import Evidence
from relearn.report.views.names import plural
from relearn.studies.study import all_studies

from ..studies.l2_attention import fake_records as language
from . import fake_vision as pretend
from .conftest import RENDERERS, every_artefact, evidence_of

BARS = "bands: lowest to highest seed"


@pytest.fixture
def figure() -> Artefact:
    return replace(every_artefact()["zhu2022.fig4.2"], stated=(), addition=False)


def point(seeds: int, low: float, high: float) -> dict[str, float]:
    return {"seeds": seeds, "low": low, "high": high}


def test_seeds_are_counted_and_bands_named_where_there_are_some(figure: Artefact) -> None:
    none = "no published numbers to compare with"
    assert foot.words(figure, [point(1, 0.5, 0.5)], BARS) == f"1 seed; {none}"
    assert (
        foot.words(figure, [point(1, 0.5, 0.5), point(3, 0.4, 0.6)], BARS) == f"1 to 3 seeds; {BARS}; {none}"
    )
    assert foot.words(figure, [{"trials": 20, "low": None, "high": None}], BARS) == f"20 trials each; {none}"
    assert foot.words(figure, [], BARS) == ""
    assert foot.words(figure, [], BARS, missing=["DPN92"]) == ""
    assert (
        foot.words(figure, [point(1, 0.5, 0.5)], "", missing=["A", "B"])
        == f"1 seed; not run here: A · B; {none}"
    )


def test_published_points_are_neither_counted_nor_missed(figure: Artefact) -> None:
    points = [{"source": "measured", "trials": 5}, {"source": "published code", "trials": 102}]
    assert foot.words(figure, points, "") == "5 trials each"
    assert foot.words(replace(figure, addition=True), [point(2, 0, 1)], "") == "2 seeds"


def test_the_line_is_drawn_within_the_figure() -> None:
    drawn = empty_figure(2.0, width=3.0)
    drawn.subplots()
    foot.write(
        drawn, "1 to 3 seeds; " + BARS + "; and many words that do not fit into one line of a small figure"
    )
    (text,) = [one for one in drawn.texts if "seeds" in one.get_text()]
    drawn.draw_without_rendering()
    assert text.get_text().count("\n") >= 1
    assert text.get_window_extent().x1 <= drawn.bbox.x1


def test_one_file_decides_how_wide_figures_and_how_large_letters_are() -> None:
    own = re.compile(r"fontsize=[\d.]+|empty_figure\([^()]*,|Figure\(")
    modules = [import_module(name) for study in all_studies() for name in study.figures.values()]
    assert [module.__name__ for module in (*modules, claims_forest) if own.search(getsource(module))] == []


def test_a_renderer_that_draws_intervals_says_what_they_are() -> None:
    modules = [import_module(name) for study in all_studies() for name in study.figures.values()]
    silent = [
        module.__name__
        for module in modules
        if ("fill_between" in getsource(module) or "errorbar" in getsource(module))
        and not getattr(module, "BARS", "")
    ]
    assert silent == [] and figures.foot is foot


def test_published_numbers_stand_in_the_line_that_names_them() -> None:
    told = foot.words(
        every_artefact()["zhu2022.fig4.4"], [point(1, 0.5, 0.5)], "", "networks at 0.25 of the width"
    )
    assert told == (
        "1 seed; networks at 0.25 of the width; the paper: σ(g) of the first convolution over that of the last: "
        "204.9 with Kaiming, 164.8 with GradInit"
    )


def test_seeds_of_single_runs_are_counted(figure: Artefact) -> None:
    ours = replace(figure, addition=True)
    assert foot.words(ours, [{"seed": 0}, {"seed": 0}], "") == "1 seed"
    assert foot.words(ours, [{"seed": 0}, {"seed": 1}], "") == "2 seeds"
    assert foot.words(ours, [{"seed": 0, "seeds": 3}], "") == "3 seeds"


def test_the_chance_level_is_given_if_points_have_one(figure: Artefact) -> None:
    assert (
        foot.words(replace(figure, addition=True), [{"chance": 0.1}, {"chance": None}], "") == "chance: 10%"
    )


def test_panels_that_were_not_run_and_own_rows_of_the_caption_are_named() -> None:
    profile = every_artefact()["zhu2022.fig4.1"]
    some = [{"panel": one.id, "series": row.id} for one in profile.columns[:4] for row in profile.rows]
    assert figures.missing(profile, some, Evidence([])) == [
        "ResNet-50 with BN: BN weights",
        "ResNet-50 with BN: conv. and linear weights",
    ]
    bars = every_artefact()["zhu2022.fig2.7"]
    drawn = [{"series": row.id, "source": "measured", "status": "measured"} for row in bars.rows[:2]]
    gone = [{"series": row.id, "source": "measured", "status": "not_run"} for row in bars.rows[2:]]
    assert figures.missing(bars, drawn + gone, Evidence([])) == ["Several layers, as released"]
    depths = every_artefact()["addition.layer_scale_accuracy"]  # a row and a panel can have one id
    assert figures.missing(depths, [{"panel": "fixup", "series": "rezero"}], Evidence([]))[-3:] == [
        column.title for column in depths.columns if column.id != "fixup"
    ]
    curves = every_artefact()["kim2020.fig4"]  # a panel is a row, and a published line is no run
    own = [{"panel": row.id, "series": 1} for row in curves.rows[1:]]
    lines = [*own, {"panel": curves.rows[0].id, "series": "paper"}]
    assert figures.missing(curves, lines, Evidence([])) == [curves.rows[0].title]


def test_columns_that_only_some_rows_lack_are_named_with_these_rows(tmp_path: Path) -> None:
    for attention, layers in (("dp", 1), ("l2", 1), ("contractive", 1), ("contractive", 14)):
        language.language(tmp_path, attention, layers, 1.0)
    curves = every_artefact()["kim2020.fig4"]
    drawn = [{"panel": row.id, "series": 1} for row in curves.rows if row.id in ("dp", "l2", "contractive")]
    assert figures.missing(curves, drawn, evidence_of(tmp_path)) == [
        *("LSTM", "Tied L2", "2, 3, 4, 5 layers (DP, L2)"),
        "2, 3, 4, 5, 6, 8, 10, 12 layers (Contractive L2)",
    ]


def test_a_mean_of_three_seeds_has_an_interval_and_one_of_two_their_range() -> None:
    assert over_seeds.spread([0.3]) == (0.3, 0.3, 0.3, 1)
    assert over_seeds.spread([0.2, 0.4]) == (pytest.approx(0.3), 0.2, 0.4, 2)
    half = 4.302653 * 0.1 / 3**0.5
    assert over_seeds.spread([0.1, 0.2, 0.3]) == (
        *(pytest.approx(0.2), pytest.approx(0.2 - half), pytest.approx(0.2 + half)),
        3,
    )
    assert over_seeds.spread([0.1, 0.2, 0.3], 0.0, 0.25)[1:3] == (0.0, 0.25)  # a share is in [0, 1]
    assert over_seeds.spread([0.5] * 4) == (0.5, 0.5, 0.5, 4)
    many = over_seeds.spread([0.1, 0.2, 0.3] * 10)
    assert many[2] - many[1] < 0.3 * 2 * half  # a range would be as wide as before


def test_the_line_says_whether_bands_are_intervals_or_ranges(figure: Artefact) -> None:
    interval = "Student's 95% interval of the mean over seeds"
    for seeds, said in (
        ((1, 2), "bands: lowest to highest seed"),
        ((1, 3, 5), f"bands: {interval}"),
        ((2, 3), f"bands: {interval}, with 2 seeds the lowest to highest seed"),
    ):
        assert over_seeds.bands(figure, [point(n, 0.4, 0.6) for n in seeds]) == said
    hatched = over_seeds.hatched_bands(figure, [point(3, 0.4, 0.6)])
    assert hatched == f"bands: {interval}, hatched around dashed lines"


def test_a_band_that_reaches_0_ends_at_the_lower_edge_of_a_log_axis() -> None:
    ends = [{**point(3, low, 5.0), "value": 2.0, "x": x} for x, low in enumerate((-1.0, 1.5))]
    assert over_seeds.edges(ends) == (1.0, 7.5)
    assert over_seeds.log_bands(ends, lambda _: 0).endswith(", cut at the lower edge")
    assert over_seeds.log_bands(ends[1:], lambda _: 0).endswith("over seeds")
    axes = empty_figure(3.0).subplots()
    axes.set_yscale("log", nonpositive="mask")
    axes.set_ylim(over_seeds.edges(ends))
    style.band(axes, ends, "x", "red")
    corners = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.min() == 1.0 and np.isfinite(corners).all()


def test_a_legend_counts_seeds_if_its_lines_have_different_numbers() -> None:
    both = [{"series": name, **point(seeds, 0, 1)} for name, seeds in (("a", 3), ("b", 3))]
    assert over_seeds.numbers(both)["a"] == ""
    more = over_seeds.numbers([*both, {"series": "b", **point(5, 0, 1)}])
    assert (more["a"], more["b"], more["none"]) == (" (n = 3)", " (n = 3 to 5)", "")


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        *((10, 2e4, ["10", "100", "1000", "10000"]), (50, 2e5, ["1e2", "1e3", "1e4", "1e5"])),
        (2e-5, 0.5, ["1e-4", "1e-3", "1e-2", "1e-1"]),
    ],
)
def test_a_log_axis_has_one_notation(low: float, high: float, said: list[str]) -> None:
    axes = empty_figure(3.0).subplots()
    axes.set(yscale="log", ylim=(low, high))
    style.few_numbers(axes.yaxis)
    axes.figure.draw_without_rendering()
    texts = [(label.get_position()[1], label.get_text()) for label in axes.get_yticklabels()]
    assert [text for at, text in texts if low <= at <= high] == said


def test_words_of_a_renderer_may_depend_on_its_points(
    figure: Artefact, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(RENDERERS[str(figure.renderer)])
    monkeypatch.setattr(module, "points", lambda *_: [point(3, 0.4, 0.6)])
    monkeypatch.setattr(module, "NOTE", lambda _, points: f"{len(points)} point", raising=False)
    told = figures.prepare(figure, Evidence([]), RENDERERS).text
    assert told.startswith("3 seeds; bands: Student's 95% interval of the mean over seeds; 1 point; ")


def test_bands_of_one_colour_differ_in_their_filling() -> None:
    axes = empty_figure(3.0).subplots()
    ends = [{**point(2, 0.4, 0.6), "x": x} for x in (0, 1)]
    for hatch in ("", style.HATCH):
        style.band(axes, ends, "x", "#DE8F05", hatch=hatch)
    filled, hatched = axes.collections
    assert (filled.get_hatch(), hatched.get_hatch()) == (None, style.HATCH)
    assert hatched.get_facecolor()[0, 3] < filled.get_facecolor()[0, 3] < hatched.get_edgecolor()[0, 3]


RED = (255, 0, 0)


def test_places_are_those_of_the_png(tmp_path: Path) -> None:
    points = [{"x": 1, "y": 10.0}, {"x": 3, "y": 1000.0}, {"x": 2, "y": None}]
    with apply_style():
        drawn = empty_figure(3.0)
        axes = drawn.subplots()
        axes.set_title("a title that moves the axes down")
        axes.plot([1, 3], [10.0, 1000.0], "s", color="red", ms=7, zorder=9)
        axes.set(yscale="log", ylabel="y", xlim=(0, 4), ylim=(1, 10000))
    for point in points[:2]:
        drawn.mark(axes, point["x"], point["y"], point, style.number(point["y"]))
    figures.write(drawn, points, ("x", "y"), tmp_path / "one")
    with (tmp_path / "one.csv").open() as file:
        first, second, third = csv.DictReader(file)
    assert (first["plot_says"], second["plot_says"], third["plot_left"]) == ("10", "1,000", "")
    with Image.open(tmp_path / "one.png") as image:
        pixels = image.convert("RGB")
        assert pixels.width == round(100 * WIDTH)
        for row in (first, second):
            at = (float(row["plot_left"]) * pixels.width, float(row["plot_top"]) * pixels.height)
            assert pixels.getpixel(at) == pytest.approx(RED, abs=8)


def test_a_point_outside_its_axes_has_no_place() -> None:
    drawn = empty_figure(3.0)
    axes = drawn.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    inside, outside = {"y": 1.0}, {"y": 1.5}
    for point in (inside, outside):
        drawn.mark(axes, 0.5, point["y"], point, "")
    drawn.draw_without_rendering()
    ((found, place),) = drawn.places()
    assert found is inside and set(place) == set(picture.FIELDS) == set(figures.PLACED)


def test_numbers_have_their_interval_where_they_have_one() -> None:
    assert style.number(0.2, 0.081, 0.416, percent=True) == "20% [8.1%, 41.6%]"
    assert style.number(0.2, 0.2, 0.2) == style.number(0.2) == style.number(0.2, None, 1.0) == "0.2"
    assert plural(1, "seed") == "1 seed" and plural(60.0, "step") == "60 steps"


@pytest.mark.parametrize(("reach", "lines"), [(True, 1), (False, 0)])
def test_chance_is_a_line_on_the_axis_and_has_its_name(reach: bool, lines: int) -> None:
    axes = empty_figure(3.0).subplots()
    axes.plot([0, 1], [0.8, 0.9])
    in_percent(axes.yaxis)
    points = [{"chance": 0.1}, {"chance": 0.1}, {"chance": None}, {}]
    chance_line(axes, points, reach=reach)
    drawn = [line for line in axes.lines if list(line.get_ydata()) == [0.1, 0.1]]
    assert len(drawn) == len(axes.texts) == lines
    low, high = axes.get_ylim()
    assert bool(0.1 - low > 0.08 * (high - low)) is reach  # room for the name below the line
    assert all(text.get_va() == "top" for text in axes.texts)
    assert all(text.get_text() == "chance" and text.get_fontsize() == SMALL for text in axes.texts)


def test_a_panel_without_runs_keeps_the_ticks_that_others_share() -> None:
    first, second = empty_figure(3.0).subplots(1, 2, sharey=True)
    first.plot([0, 1], [0, 1])
    panels.empty(second)
    assert len(first.get_yticks()) > 2 and len(second.get_xticks()) == 0
    assert [text.get_text() for text in second.texts] == ["not run"]


def test_a_palette_keeps_the_hue_of_light_bands() -> None:
    bands = np.full((60, 60, 3), 255, dtype=np.uint8)
    for place in range(60):  # sixty light colours
        bands[:, place] = (200 + place % 4 * 16, 196 + place // 4 % 4 * 16, 192 + place // 16 * 16)
    found = figures.palette(Image.fromarray(bands))
    assert np.abs(np.asarray(found.convert("RGB")).astype(int) - bands).max() <= min(figures.NEAR.values())
    sixteen = Image.fromarray(bands).quantize(16, Image.Quantize.FASTOCTREE).convert("RGB")
    assert np.abs(np.asarray(sixteen).astype(int) - bands).max() > max(
        figures.NEAR.values()
    )  # fewer colours would not do


def made(root: Path, network: str, **settings: float) -> None:
    own = {"network": {"name": network, **settings}}
    pretend.write_run(root, "initialise", {"network": network}, {}, study="lipsformer", settings=own)
    pretend.write_run(root, "train_vision", {"network": network}, {}, study="lipsformer")


def images(root: Path, dataset: str, classes: int) -> None:
    labels = {"dataset": dataset}
    pretend.write_run(root, "prepare_images", labels, {"classes_count": classes}, study="lipsformer")


def behind(evidence: Evidence, *named: str) -> list[dict[str, str]]:
    runs = [run for run in evidence.runs if run.labels.get("network") in named and run.step == "train_vision"]
    return [{"runs": " ".join(run.folder for run in runs)}]


def test_networks_that_are_smaller_than_their_names_say_so(tmp_path: Path) -> None:
    made(tmp_path, "VGG-19", width=0.25, depth=0.1)
    made(tmp_path, "ResNet-110", width=0.25, depth=0.2)
    made(tmp_path, "Whole", width=1.0, depth=1.0)
    known = evidence_of(tmp_path)
    both = foot.sizes(behind(known, "VGG-19", "ResNet-110"), known)
    assert both == "networks at 0.25 of the width and 0.1 to 0.2 of the depth of the named networks"
    assert foot.sizes(behind(known, "VGG-19"), known).startswith("networks at 0.25 of the width and 0.1 of")
    assert foot.sizes(behind(known, "Whole"), known) == foot.sizes([], known) == ""


def test_networks_of_another_suite_do_not_count(tmp_path: Path) -> None:
    for suite, width in (("first_steps", 1.0), ("grid", 0.25)):
        labels = {"network": "VGG-19", "suite": suite}
        own = {"network": {"name": "VGG-19", "width": width}}
        pretend.write_run(tmp_path, "initialise", labels, {}, study="lipsformer", settings=own)
        pretend.write_run(tmp_path, "train_vision", labels, {}, study="lipsformer")
    known = evidence_of(tmp_path)
    found = {
        run.labels["suite"]: foot.sizes([{"runs": run.folder}], known)
        for run in known.runs
        if run.step == "train_vision"
    }
    assert found == {"first_steps": "", "grid": "networks at 0.25 of the width of the named networks"}


def test_vision_transformers_tell_their_channels_and_blocks(tmp_path: Path) -> None:
    sizes = {
        "CvT-13": {"name": "cvt_13", "embed_dim": 16, "depths": [1, 1, 3]},
        "CvT-13-part": {"name": "cvt_13", "embed_dim": 16, "depths": [1, 1, 3]},
        "ResNet-50": {"name": "resnet50", "channels": [16, 32, 64, 128], "layers": [1, 1, 2, 1]},
        "DeiT-S": {"name": "deit", "embed_dim": 96, "depth": 4},
        "Swin-T": {"name": "swin", "embed_dim": 24, "depths": [2, 2, 6, 2]},
        "LRFormer": {"name": "lrformer_depth6", "embed_dim": 48},
        "Deep": {"name": "deep", "embed_dim": 384, "depth": 24},
        "Other": {"name": "other", "embed_dim": 8, "depth": 24},
    }
    whole = {
        "CvT-13": {"embed_dim": 64, "depths": [1, 2, 10]},
        "ResNet-50": {"channels": [64, 128, 256, 512], "layers": [3, 4, 6, 3]},
        "DeiT-S": {"embed_dim": 384, "depth": 12},
        "Swin-T": {"embed_dim": 96, "depths": [2, 2, 6, 2]},
        "LRFormer": {"embed_dim": 384},
        "Deep": {"embed_dim": 384, "depth": 24},
    }
    for network, own in sizes.items():
        pretend.write_run(
            tmp_path, "train_vision", {"network": network}, {}, study="lipsformer", settings={"network": own}
        )
    runs = evidence_of(tmp_path).runs
    named = {run.folder: run.labels["network"] for run in runs}
    paper = {folder: {"network": whole[name]} for folder, name in named.items() if name in whole}
    known = Evidence(runs, published=paper.get)
    told = {network: foot.sizes(behind(known, network), known) for network in sizes}
    smaller, both = "versions of the named networks:", "narrower and shallower"
    assert told == {
        "CvT-13": f"{both} {smaller} 16 of 64 channels in the first stage, 5 of 13 blocks",
        "CvT-13-part": f"{both} {smaller} 16 of 64 channels in the first stage, 5 of 13 blocks",
        "ResNet-50": f"{both} {smaller} 16 of 64 channels in the first stage, 5 of 16 blocks",
        "DeiT-S": f"{both} {smaller} 96 of 384 channels, 4 of 12 blocks",
        "Swin-T": f"narrower {smaller} 24 of 96 channels in the first stage",
        "LRFormer": f"narrower {smaller} 48 of 384 channels",
        "Deep": "",
        "Other": f"narrower {smaller} 8 channels",
    }
    assert foot.sizes(behind(known, "CvT-13", "ResNet-50", "DeiT-S"), known) == (
        f"{both} {smaller} 16 of 64 channels in the first stage, 96 of 384 channels, 4 of 12, 5 of 13 and 5 of 16 blocks"
    )
    sure = {run.labels["network"]: foot.size_of([run], known, full="whole") == "whole" for run in runs}
    assert [network for network, whole_size in sure.items() if whole_size] == ["Deep"]


def test_a_guess_is_right_once_in_as_many_as_there_are_classes(tmp_path: Path) -> None:
    images(tmp_path, "digits", 10)
    assert classified.guess(evidence_of(tmp_path)) == pytest.approx(0.1)
    images(tmp_path, "cifar100", 100)
    assert classified.guess(evidence_of(tmp_path)) is None
    assert classified.guess(Evidence([])) is None


CONTENT = b"""series,value,runs,plot_left,plot_top,plot_says
a,0.5,runs/s/t/seed0 runs/s/t/seed1,0.1234,0.5,"A, x: 50%"
b,,,,,
c,0.25,,1.0,0.00001,C: 25%
"""


def test_points_that_are_shown_lead_to_their_first_run() -> None:
    found = figures.placed(
        CONTENT, lambda row: figures.first_run(row) and f"{figures.first_run(row)}/record.json"
    )
    assert found == [
        {
            "left": "12.34",
            "top": "50",
            "says": "A, x: 50%. Run: t/seed0 and 1 more",
            "href": "runs/s/t/seed0/record.json",
        },
        {"left": "100", "top": "0.001", "says": "C: 25%", "href": ""},
    ]


def test_a_figure_without_places_has_no_points() -> None:
    assert figures.placed(b"series,value\na,1\n", lambda _: "x") == []
