"""invert from settings to record: L2 is inverted, dot product is not; trained weights; what does not fit together."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.models import character_lm
from relearn.models.character_lm import create
from relearn.report.runs import load
from relearn.runs.settings import read
from relearn.studies.l2_attention.steps import invert_residual as invert
from relearn.studies.l2_attention.steps import layer_under_test as attention_under_test

from ...measured import ROOT
from ...steps.recorded import made_by

SETTINGS = {
    "attention": "l2_tied",
    "weights": "random",
    "length": 8,
    "dim": 16,
    "heads": 4,
    "batch": 6,
    "c": [0.5, 0.9],
    "iterations": 25,
}


def step(out: Path, seed: int = 0, files: tuple[Path, ...] = (), **changed: Any) -> dict:
    settings = SETTINGS | changed
    labels = {"suite": "fig3"} | {
        name: str(settings[name]) for name in ("attention", "weights", "length", "dim")
    }
    return made_by(invert, out, settings, labels, {"network": list(files)}, study="l2_attention", seed=seed)


def layer_of(seed: int = 0, **changed: Any) -> Any:
    return attention_under_test.layer_of(read(invert.Settings, SETTINGS | changed), {}, seed, "cpu")


def rows_of(path: Path) -> list[dict[str, float]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def test_l2_is_inverted_and_dot_product_is_not(tmp_path):
    done = {kind: step(tmp_path / kind, attention=kind) for kind in ("dp", "l2", "l2_tied", "contractive")}
    for kind, one in done.items():
        rows, metrics = rows_of(tmp_path / kind / "errors.csv"), one["metrics"]
        assert tuple(rows[0]) == invert.ERRORS and len(rows) == 2 * 26
        assert [(row["c"], row["iteration"]) for row in rows] == [
            (c, k) for c in (0.5, 0.9) for k in range(26)
        ]
        finals = [row["error_max"] for row in rows if row["iteration"] == 25]
        assert metrics["error_final_max"] == max(finals) and metrics["error_final_min"] == min(finals)
        assert metrics["converged_count"] == sum(error < 1e-4 for error in finals)
        assert all(row["error_median"] <= row["error_max"] for row in rows)
        assert (metrics["c_count"], metrics["inputs_count"]) == (2, 6)
        ranges = rows_of(tmp_path / kind / "ranges.csv")
        assert tuple(ranges[0]) == invert.RANGES
        assert [(row["spread"], row["c"]) for row in ranges] == [
            (s, c) for s in invert.SPREADS for c in (0.5, 0.9)
        ]
    for kind in ("l2_tied", "contractive"):
        assert (
            done[kind]["metrics"]["error_final_max"] < 1e-9 and done[kind]["metrics"]["converged_count"] == 2
        )
    for kind in ("dp", "l2"):
        assert done[kind]["metrics"]["error_final_min"] > 0.1 and "bound" not in done[kind]["metrics"]
    assert done["contractive"]["metrics"]["bound"] == 1
    small = {kind: rows_of(tmp_path / kind / "ranges.csv")[0]["error_max"] for kind in done}
    assert max(small.values()) < 1e-3  # U[-1, 1], c = 0.5: every one of them inverts, if slowly


def test_errors_obey_the_rate_where_there_is_one(tmp_path):
    """Contractive attention: error_k <= c^k error_0, in the largest entry, which is the norm of its bound."""
    step(tmp_path / "a", attention="contractive", c=[0.3, 0.9], iterations=10)
    rows = rows_of(tmp_path / "a/errors.csv")
    for c in (0.3, 0.9):
        errors = [row["error_max"] for row in rows if row["c"] == c]
        assert all(error <= c**k * errors[0] + 1e-14 for k, error in enumerate(errors)) and errors[0] > 1e-3
    tied = step(tmp_path / "b", attention="l2_tied", c=[0.3])
    assert tied["metrics"]["bound"] == pytest.approx(float(layer_of().lipschitz_bound(8)))


def test_an_exact_fixed_point_stays(tmp_path):
    """c = 0: y is x; the history has all its rows all the same."""
    step(tmp_path / "a", c=[0.0], iterations=4)
    assert [row["error_max"] for row in rows_of(tmp_path / "a/errors.csv")] == [0.0] * 5


def test_inputs_are_those_of_the_paper_and_the_same_for_every_attention(tmp_path):
    x = attention_under_test.zero_token_inputs(4, 5, 3, 0, "cpu")
    assert x.shape == (4, 5, 3) and x.dtype == torch.float64
    assert not x[:, 0].any() and 5 < float(x[:, 1:].abs().max()) <= 10 and float(x.min()) < -5
    assert torch.equal(x, attention_under_test.zero_token_inputs(4, 5, 3, 0, "cpu"))
    narrow = attention_under_test.zero_token_inputs(4, 5, 3, 0, "cpu", 1.0)
    torch.testing.assert_close(10 * narrow, x)
    assert not torch.equal(x, attention_under_test.zero_token_inputs(4, 5, 3, 1, "cpu"))
    one, long, other = layer_of(), layer_of(length=50), layer_of(seed=1)
    assert torch.equal(one.q.weight, long.q.weight) and not torch.equal(one.q.weight, other.q.weight)
    limit = (6 / 32) ** 0.5  # Xavier-uniform of the whole map (16, 16)
    assert 0.9 * limit < float(one.q.weight.abs().max()) <= limit


def test_runs_are_repeated_exactly(tmp_path):
    for name in ("a", "b"):
        step(tmp_path / name, attention="dp")
    step(tmp_path / "c", seed=1, attention="dp")
    a, b, c = ((tmp_path / name / "errors.csv").read_text() for name in "abc")
    assert a == b != c


@pytest.fixture
def network(tmp_path) -> Path:
    sizes = {"layers": 2, "dim": 16, "heads": 4, "ffn": 32, "max_length": 40, "vocabulary": 11}
    torch.manual_seed(0)
    net = create(attention="dp", **sizes)
    with torch.no_grad():
        net.attention_layers()[0].q.weight.zero_()  # uniform attention, linear in x
    character_lm.FILE.save(net, tmp_path / "net.safetensors")
    return tmp_path / "net.safetensors"


def test_trained_weights_are_those_of_the_first_layer(tmp_path, network):
    """With W^Q = 0 dot-product attention is linear: what is inverted must be the saved layer and no drawn one."""
    done = step(tmp_path / "a", files=(network,), attention="dp", weights="trained", c=[0.5])
    layer = character_lm.FILE.load(network).attention_layers()[0].double()
    x = attention_under_test.zero_token_inputs(6, 8, 16, 0, "cpu")
    with torch.no_grad():
        y = x + 0.5 * layer(x)
    rows = rows_of(tmp_path / "a/errors.csv")
    assert rows[0]["error_max"] == pytest.approx(float((y - x).abs().max()), rel=1e-6)
    assert done["inputs"]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"weights": "given"}, "weights: found 'given', allowed: random, trained"),
        ({"weights": "trained"}, "input network: none"),
        ({"attention": "cosine"}, "attention: 'cosine'"),
        ({"heads": 3}, "heads: 3"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, changed, match):
    with pytest.raises(ValueError, match=match):
        step(tmp_path / "refused", **changed)


def test_a_network_of_another_size_is_refused(tmp_path, network):
    with pytest.raises(
        ValueError, match=r"dp of width 16 with 4 heads \(allowed: as the settings say, dp of width 16 with 2"
    ):
        step(tmp_path / "refused", files=(network,), attention="dp", weights="trained", heads=2)
    with pytest.raises(
        ValueError, match=r"dp of width 16 with 4 heads \(allowed: as the settings say, l2_tied"
    ):
        step(tmp_path / "other", files=(network,), weights="trained")
    lstm = tmp_path / "lstm.safetensors"
    character_lm.FILE.save(
        create(attention="lstm", layers=1, dim=8, heads=1, ffn=8, max_length=9, vocabulary=5), lstm
    )
    with pytest.raises(ValueError, match="a model without attention"):
        step(tmp_path / "lstm", files=(lstm,), attention="dp", weights="trained")


KINDS = ("dp", "l2_tied", "contractive")


def test_the_page_has_the_errors_of_the_records() -> None:
    runs = [run for run in load(ROOT / "results/published/mini", "mini")[0] if run.study == "l2_attention"]
    rows = {
        kind: run.rows("ranges.csv")
        for run in runs
        for kind in KINDS
        if {"suite": "fig3", "attention": kind}.items() <= dict(run.labels).items()
    }
    lines = re.findall(
        r"^\| \[-(\d+), \1\] \| (.+?) \| (\S+) or less \| (\S+) or less \|$",
        (ROOT / "docs/lipschitz.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [int(reach) for reach, *_ in lines] == [1, 3, 10, 100]
    for reach, dp, tied, largest in lines:
        found = {
            kind: [float(f"{row['error_max']:.1g}") for row in rows[kind] if row["spread"] == float(reach)]
            for kind in KINDS
        }
        assert found["dp"] == [float(one) for one in dp.split(", ")]
        assert max(found["l2_tied"]) == float(tied)
        assert max(found["contractive"]) == float(largest)
