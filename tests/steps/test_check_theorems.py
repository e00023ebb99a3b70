"""check_theorems of three studies: every protocol from settings to record; the tables are the measures', the metrics are the tables'."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.layers.attention_kinds import attention
from relearn.measures.attention_cases import (
    activations,
    cosine,
    dropout,
    layer_norm,
    lemma_f_1,
    lrsa,
    masks,
    outputs,
    residual_stack,
    spectral_norms,
    theorem_3_1,
)
from relearn.models import character_lm
from relearn.models.character_lm import create
from relearn.runs.settings import read
from relearn.steps import bound_shares
from relearn.steps.csv_rows import write_rows
from relearn.studies.l2_attention.steps import attention_outputs
from relearn.studies.l2_attention.steps import check_theorems as l2_attention
from relearn.studies.l2_attention.steps import layer_under_test as attention_under_test
from relearn.studies.lipsformer.steps import check_theorems as lipsformer
from relearn.studies.lrformer.steps import check_theorems as lrformer

from . import recorded
from .recorded import rows_of

SPREADS = [1.0, 100.0]
SIZES = {"lengths": [2, 4], "dims": [2]}
NO_NETWORK: dict[str, Any] = {"networks": [], "iterations": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "theorem_3_1": {**SIZES, "heads": 2, "spreads": SPREADS},
    "lemma_f_1": {**SIZES, "spreads": SPREADS},
    "masks": {**SIZES, "heads": 2, "spreads": SPREADS},
    "dropout": {**SIZES, "keep": 0.75},
    "outputs": {
        "attention": "dp",
        "weights": "random",
        "length": 5,
        "dim": 8,
        "heads": 2,
        "batch": 3,
        "bins": 9,
    },
    "theorem_1": {**SIZES, "heads": 1, "taus": [2.0], "spreads": [1.0], "steps": 2, **NO_NETWORK},
    "theorem_2": {
        "blocks": [1],
        "lengths": [2],
        "dims": [2],
        "heads": 1,
        "tau": 2.0,
        "eps": [1.0],
        **NO_NETWORK,
    },
    "spectral_start": {"channels": [4], "size": 8, "networks": []},
    "activations": {"pairs": 20, "reach": 4.0, "points": 9},
    "layer_norm": {"dims": [2, 3], "eps": 1e-3, "spreads": [1.0]},
    "lrsa": {"lengths": [2], "dims": [2], "spreads": [1.0, 0.1], "draws": 2},
}


def step(out: Path, protocol: str, seed: int = 0, **changed: Any) -> dict:
    module = next((one for one in (lipsformer, lrformer) if protocol in one.PROTOCOLS), l2_attention)
    return made_by(
        module, "check_theorems", out, {"protocol": protocol} | SETTINGS.get(protocol, {}) | changed, seed
    )


def outputs_of(out: Path, files: tuple[Path, ...] = (), **changed: Any) -> dict:
    inputs = {"network": list(files)}
    return made_by(attention_outputs, "attention_outputs", out, SETTINGS["outputs"] | changed, 0, inputs)


def made_by(module: Any, name: str, out: Path, settings: dict, seed: int, inputs: dict | None = None) -> dict:
    labels = {name: settings[name] for name in ("protocol", "attention", "weights") if name in settings}
    return recorded.made_by(module, out, settings, labels, inputs, study="l2_attention", step=name, seed=seed)


MODULES = {
    "theorem_3_1": theorem_3_1,
    "lemma_f_1": lemma_f_1,
    "masks": masks,
    "dropout": dropout,
    "theorem_1": cosine,
    "theorem_2": residual_stack,
    "spectral_start": spectral_norms,
    "activations": activations,
    "layer_norm": layer_norm,
    "lrsa": lrsa,
}
BOUNDED = {  # protocol: the columns of the bound that holds and of the printed one
    "theorem_1": ("tight", "printed"),
    "theorem_2": ("corrected", "printed"),
    "spectral_start": ("limit", None),
    "activations": ("bound", "printed"),
    "layer_norm": ("constant", "printed"),
    "lrsa": ("bound", "printed"),
}


@pytest.mark.parametrize("protocol", MODULES)
def test_the_table_is_the_measures_and_the_counts_are_the_tables(tmp_path, protocol):
    done = step(tmp_path / "a", protocol)
    rows, metrics = rows_of(tmp_path / "a/cases.csv"), done["metrics"]
    of_networks = ("network",) if "networks" in SETTINGS[protocol] else ()
    assert tuple(rows[0]) == (*MODULES[protocol].COLUMNS, *of_networks) and done["outcome"] == "ok"
    assert metrics["cases_count"] == len(rows) == metrics["holds_count"]
    assert {row["holds"] for row in rows} == {"1"}
    if "printed_holds" in rows[0]:
        assert metrics["printed_fails_count"] == sum(row["printed_holds"] == "0" for row in rows) > 0
    else:
        assert "printed_fails_count" not in metrics


def test_the_seed_decides_and_nothing_else(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        step(tmp_path / name, "masks", seed)
    a, b, c = ((tmp_path / name / "cases.csv").read_text() for name in "abc")
    assert a == b != c
    expected = masks.cases(partial(attention, "l2_tied"), **SETTINGS["masks"], seed=1)
    found = rows_of(tmp_path / "c/cases.csv")
    assert [float(row["norm"]) for row in found] == [row["norm"] for row in expected]


def test_the_telling_numbers(tmp_path):
    """Growth between spreads 1 and 100; the control and what keeps its diagonal stay below their bounds."""
    theorem = step(tmp_path / "t", "theorem_3_1")["metrics"]
    rows = rows_of(tmp_path / "t/cases.csv")

    def norms(kind: str, spread: float) -> list[float]:
        return [float(r["norm"]) for r in rows if r["attention"] == kind and float(r["spread"]) == spread]

    for kind in ("dp", "dp_bias"):
        ratios = [last / first for first, last in zip(norms(kind, 1.0), norms(kind, 100.0))]
        assert theorem[f"{kind}_growth_ratio"] == pytest.approx(min(ratios)) and min(ratios) > 50
    assert theorem["dp_norm_max"] == max(norms("dp", 100.0)) and theorem["tied_share_max"] < 1
    assert theorem["formula_error_frac"] < 1e-9
    lemma = step(tmp_path / "l", "lemma_f_1")["metrics"]
    assert (
        lemma["l2_growth_ratio"] > 50 and lemma["tied_share_max"] < 1 and lemma["formula_error_frac"] < 1e-6
    )
    assert lemma["l2_norm_max"] > 1e3
    masked = step(tmp_path / "m", "masks")["metrics"]
    assert masked["hidden_norm_max"] > 1e4 and 0.99 < masked["visible_share_max"] <= 1 + 1e-9
    dropped = step(tmp_path / "d", "dropout")["metrics"]
    assert dropped["inverted_norm_max"] == pytest.approx(4 / 3) and dropped["binary_norm_max"] == 1


def test_curves_of_the_activations_are_a_second_file(tmp_path):
    metrics = step(tmp_path / "a", "activations")["metrics"]
    rows = rows_of(tmp_path / "a/curves.csv")
    assert tuple(rows[0]) == activations.CURVE_COLUMNS and len(rows) == 9 * len(activations.FUNCTIONS)
    assert {float(row["x"]) for row in rows} == set(range(-4, 5))
    slopes = {row["activation"]: float(row["norm"]) for row in rows_of(tmp_path / "a/cases.csv")}
    assert {name: metrics[f"{name}_slope_max"] for name in slopes} == slopes


@pytest.mark.parametrize("protocol", BOUNDED)
def test_how_near_norms_come_to_their_bounds(tmp_path, protocol):
    metrics = step(tmp_path / "a", protocol)["metrics"]
    rows = rows_of(tmp_path / "a/cases.csv")
    for name, column in zip(("bound", "printed"), BOUNDED[protocol]):
        pairs = [(float(row["norm"]), float(row[column] or 0) if column else 1.0) for row in rows]
        expected = max(norm / bound for norm, bound in pairs if bound)
        assert metrics[f"{name}_share_max"] == pytest.approx(expected)
    assert metrics["bound_share_max"] <= 1 + 1e-9
    assert (metrics["printed_share_max"] > 1) == (protocol != "layer_norm")


def test_a_norm_above_a_bound_of_zero_is_not_passed_over():
    rows = [{"norm": 1.0, "a": 0.0, "b": 2.0}, {"norm": 0.0, "a": None, "b": 0.0}]
    assert bound_shares.shares(rows, bound="b", printed="a") == {
        "bound_share_max": 0.5,
        "printed_share_max": float("inf"),
    }


def test_a_case_that_fails_is_counted_and_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(dropout, "ROUNDING", -1.0)
    done = step(tmp_path / "a", "dropout")
    assert done["metrics"]["holds_count"] == 0 and {
        r["holds"] for r in rows_of(tmp_path / "a/cases.csv")
    } == {"0"}


@pytest.mark.parametrize("kind", ["dp", "l2_tied"])
def test_outputs_are_those_of_the_layer_at_the_inputs_of_figure_3(tmp_path, kind):
    done = outputs_of(tmp_path / "a", attention=kind)
    rows, metrics = rows_of(tmp_path / "a/histogram.csv"), done["metrics"]
    assert tuple(rows[0]) == outputs.COLUMNS and len(rows) == 2 * 9
    x = attention_under_test.zero_token_inputs(3, 5, 8, 0, "cpu")
    layer = attention_under_test.layer_of(
        read(attention_outputs.Settings, SETTINGS["outputs"] | {"attention": kind}), {}, 0, "cpu"
    )
    y = layer(x)
    for side, values in (("input", x), ("output", y)):
        assert sum(int(row["count"]) for row in rows if row["side"] == side) == 3 * 5 * 8 == values.numel()
        assert metrics[f"{side}_std"] == pytest.approx(float(values.std(correction=0)))
    expected = float((y.max() - y.min()) / (x.max() - x.min()))
    assert metrics["output_range_over_input_range"] == pytest.approx(expected)


def test_outputs_of_a_trained_layer(tmp_path):
    torch.manual_seed(0)
    net = create(attention="l2_tied", layers=1, dim=8, heads=2, ffn=16, max_length=9, vocabulary=7)
    with torch.no_grad():
        net.attention_layers()[0].out.weight.zero_()
    character_lm.FILE.save(net, tmp_path / "net.safetensors")
    files = (tmp_path / "net.safetensors",)
    done = outputs_of(tmp_path / "a", files, attention="l2_tied", weights="trained")
    assert done["metrics"]["output_std"] == 0 and done["metrics"]["input_std"] > 1


@pytest.mark.parametrize(
    ("protocol", "changed", "match"),
    [
        (
            "theorem_3_2",
            {},
            "protocol: found 'theorem_3_2', allowed: theorem_3_1, lemma_f_1, masks, dropout",
        ),
        ("masks", {"lengths": [1]}, "lengths: 1"),
        ("dropout", {"keep": 1.0}, "keep: 1.0"),
        ("theorem_3_1", {"heads": 3}, "heads: 3 of width 2"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, protocol, changed, match):
    with pytest.raises(ValueError, match=match):
        step(tmp_path / "refused", protocol, **changed)


def test_a_histogram_has_bins(tmp_path):
    with pytest.raises(ValueError, match="bins: 0"):
        outputs_of(tmp_path / "refused", bins=0)


def test_truth_is_a_number_and_what_does_not_exist_is_empty(tmp_path) -> None:
    rows = [{"b": True, "a": 0.1}, {"a": None, "b": False, "more": 3}, (math.inf, "x"), (math.nan, 2)]
    write_rows(tmp_path / "t.csv", ("a", "b"), rows)
    assert (tmp_path / "t.csv").read_bytes() == b"a,b\n0.1,1\n,0\n,x\n,2\n"


def test_a_row_without_a_column_is_refused(tmp_path) -> None:
    with pytest.raises(KeyError, match="b"):
        write_rows(tmp_path / "t.csv", ("a", "b"), [{"a": 1}])
