"""The study's figures show the records, and name the runs that are missing."""

import math

import pytest

from relearn.report import coverage
from relearn.report.quantities import Evidence

from ...report.conftest import chapter, evidence_of
from ...report.drawn import (
    check_equal_files,
    check_figure,
    drawn_of,
    labels,
    module_of,
    points_of,
    words,
)
from . import fake_records as pretend

ALL = chapter("long_short")
#: panels without runs and of the whole chapter, cells measured and defined
SIZES = {"zhu2022.fig5.3": (2, 2, 4, 8), "zhu2022.fig5.5": (2, 2, 12, 12), "zhu2022.fig5.6": (1, 2, 4, 4)}
FIGURES = {name: ALL[name] for name in SIZES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    small = type("Small", (pretend.Chapter,), {"seeds": (0, 1), "tasks": ()})()
    found = evidence_of(small.write(tmp_path_factory.mktemp("long_short")))
    return Evidence(run for run in found.runs if run.study == "long_short")


def test_all_figures_are_there():
    assert {name for name, one in ALL.items() if one.kind == "figure"} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_every_figure_is_drawn_with_and_without_runs(name, whole, tmp_path):
    empty, full, *cells = SIZES[name]
    check_figure(name, whole, evidence_of(tmp_path), (empty, full), cells)


def test_equal_records_give_equal_files(whole, tmp_path):
    check_equal_files("zhu2022.fig5.6", whole, tmp_path)


# figure 5.3


def line(name, evidence, **wanted):
    return [p for p in points_of(name, evidence) if all(p[key] == value for key, value in wanted.items())]


def test_norms_before_training_layer_by_layer(tmp_path):
    for seed, ratio in enumerate((1.1, 1.3)):
        pretend.predict(tmp_path, "enwik8", "no_dual_norm", 1.0, ratio=ratio, seed=seed)
    found = line("zhu2022.fig5.3", evidence_of(tmp_path), panel="ratios", of="keys")
    assert [p["place"] for p in found] == list(range(1, 13))
    assert [p["value"] for p in found] == pytest.approx(
        [1 + 0.2 * (0.8 + 0.2 * n / 12) for n in range(1, 13)]
    )
    assert (found[-1]["low"], found[-1]["high"]) == pytest.approx((1.1, 1.3)) and found[-1]["seeds"] == 2
    values = line("zhu2022.fig5.3", evidence_of(tmp_path), panel="ratios", of="values")
    assert {round(p["value"], 9) for p in values} == {1.16}
    drawn = drawn_of("zhu2022.fig5.3", evidence_of(tmp_path))
    assert labels(drawn) == ["enwik8, without DualLN: keys, loss", "enwik8, without DualLN: values"]


def test_validation_loss_runs_over_the_phases_and_where_it_was_measured(tmp_path):
    pretend.predict(tmp_path, "text8", "dual_norm", 1.0)
    found = line("zhu2022.fig5.3", evidence_of(tmp_path), panel="loss")
    assert [p["place"] for p in found] == [200, 400, 600, 800, 1000, 1200]
    assert found[-1]["value"] == pytest.approx(1 + 1 / 12)
    # the paper's left panel has one line with DualLN, of enwik8
    assert not line("zhu2022.fig5.3", evidence_of(tmp_path), panel="ratios")


def test_a_diverged_training_has_its_own_line(tmp_path):
    for seed, outcome in enumerate(("ok", "ok", "diverged")):
        bits = None if outcome == "diverged" else 1.0 + 0.2 * seed
        pretend.predict(tmp_path, "warandpeace", "no_dual_norm", bits, outcome=outcome, seed=seed)
    known = evidence_of(tmp_path)
    sound, lost = (line("zhu2022.fig5.3", known, panel="loss", diverged=one) for one in (0, 1))
    assert {p["seeds"] for p in sound} == {2} and sound[0]["value"] == pytest.approx(1.1 + 0.5)
    assert len(lost) == 6 and lost[0]["runs"].endswith("seed2")
    marks = {item.get_marker() for item in drawn_of("zhu2022.fig5.3", known).axes[1].get_lines()}
    assert "X" in marks


def test_with_is_solid_and_without_is_dashed(whole):
    drawn = drawn_of("zhu2022.fig5.3", whole)
    dashed = {handle.get_label(): handle.get_linestyle() for handle in drawn.legends[0].legend_handles}
    assert {name for name, style in dashed.items() if style == "--"} == {
        *("enwik8, without DualLN: keys, loss", "War and Peace, without DualLN: keys, loss")
    }
    assert dashed["enwik8, with DualLN: keys, loss"] == "-"


def test_every_line_of_the_ratios_has_the_look_of_one_entry_of_the_legend(whole):
    drawn = drawn_of("zhu2022.fig5.3", whole)

    def look(line):
        ends = line.get_marker(), line.get_markerfacecolor()
        return line.get_color(), line.get_linestyle(), *ends

    entries = [look(handle) for handle in drawn.legends[0].legend_handles]
    assert len(set(entries)) == len(entries)
    lines = [
        look(one)
        for one in drawn.axes[0].get_lines()
        if one.get_linestyle() != "-" or len(one.get_xdata()) > 2
    ]
    assert len(lines) == len(set(lines)) and set(lines) <= set(entries)
    values = [one for one, text in zip(entries, labels(drawn)) if text.endswith(": values")]
    assert values and {one[1] for one in values} == {":"} and set(values) <= set(lines)


# figure 5.5


def test_cost_by_attention_batch_and_length(tmp_path):
    pretend.curve(tmp_path, lengths=(1024, 4096), batches=(2, 8))
    found = line("zhu2022.fig5.5", evidence_of(tmp_path), panel="time", attention="full", batch=8)
    assert [(p["length"], p["value"]) for p in found] == [
        (1024, pytest.approx(0.08)),
        (4096, pytest.approx(1.28)),
    ]
    memory = line("zhu2022.fig5.5", evidence_of(tmp_path), panel="memory", attention="long_short", batch=2)
    assert [p["value"] for p in memory] == pytest.approx([180.0, 420.0])
    drawn = drawn_of("zhu2022.fig5.5", evidence_of(tmp_path))
    assert labels(drawn) == ["Full attention", "Transformer-LS", "Batch 2", "Batch 8"]
    assert all(axes.get_xscale() == axes.get_yscale() == "log" for axes in drawn.axes)


def test_the_line_says_where_the_settings_stop_full_attention(tmp_path):
    artefact = FIGURES["zhu2022.fig5.5"]
    more = {"lengths": [1024, 4096, 8192], "longest": {"full": 2048}}
    pretend.curve(tmp_path / "a", lengths=(1024, 2048), settings=more)
    said = "full attention: up to 2,048 by choice; slope: longer half of each line; the paper: up to 14,336"
    assert (
        module_of("zhu2022.fig5.5").NOTE(artefact, points_of("zhu2022.fig5.5", evidence_of(tmp_path / "a")))
        == said
    )
    pretend.curve(tmp_path / "b", lengths=(1024, 2048), settings={"lengths": [1024, 2048]})
    free = points_of("zhu2022.fig5.5", evidence_of(tmp_path / "b"))
    assert module_of("zhu2022.fig5.5").NOTE(artefact, free) == "slope: longer half of each line"


def test_what_a_machine_has_no_memory_for_is_left_out(tmp_path):
    rows = [
        {
            "attention": name,
            "length": length,
            "batch": 1,
            "step_s": step,
            "peak_memory_mb": None,
            "repeats": 7,
        }
        for name, length, step in (("full", 1024, 0.1), ("full", 4096, None), ("long_short", 4096, 0.2))
    ]
    pretend.write_run(tmp_path, "benchmark_attention", {"protocol": "curve"}, {}, {"cost.csv": rows})
    known = evidence_of(tmp_path)
    assert [(p["attention"], p["length"]) for p in points_of("zhu2022.fig5.5", known)] == [
        ("full", 1024),
        ("long_short", 4096),
    ]
    assert sum(text == "not run" for text in words(drawn_of("zhu2022.fig5.5", known))) == 1  # memory
    found = coverage.cover(FIGURES["zhu2022.fig5.5"], known)
    assert (found.measured, found.defined) == (2, 12)


# figure 5.6


def test_similarity_by_layer_before_and_after(tmp_path):
    for seed, deep in enumerate((0.8, 0.9)):
        pretend.similarity(tmp_path, "CvT-13", deep, seed=seed)
    known = evidence_of(tmp_path)
    end = line("zhu2022.fig5.6", known, panel="end", series="CvT-13")
    assert [p["layer"] for p in end] == list(range(1, 14))
    assert end[-1]["value"] == pytest.approx(0.85) and (end[-1]["low"], end[-1]["high"]) == (0.8, 0.9)
    assert line("zhu2022.fig5.6", known, panel="start")[-1]["value"] == pytest.approx(0.7)
    drawn = drawn_of("zhu2022.fig5.6", known)
    assert len(drawn.axes) == 1 and labels(drawn) == ["CvT-13", "Before training", "Trained"]


def test_other_networks_have_their_own_panel(tmp_path):
    pretend.similarity(tmp_path, "ViL-LS-Medium", 0.7, layers=6)
    drawn = drawn_of("zhu2022.fig5.6", evidence_of(tmp_path))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["As in the paper", "Other networks"]
    assert sum(text == "not run" for text in words(drawn)) == 1


def test_a_similarity_that_is_not_finite_is_left_out(tmp_path):
    rows = [{"moment": "end", "layer": n, "cosine": math.nan if n == 2 else 0.5} for n in (1, 2, 3)]
    metrics = {"deep_cosine": None, "start_deep_cosine": None}
    pretend.write_run(tmp_path, "patch_similarity", {"network": "CvT-13"}, metrics, {"similarity.csv": rows})
    assert [p["layer"] for p in points_of("zhu2022.fig5.6", evidence_of(tmp_path))] == [1, 3]
