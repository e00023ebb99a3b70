"""The step from settings to record: the three figures in small, its bounds, what it refuses."""

from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.layers.l2_attention import L2Attention
from relearn.maths.l2_bounds import growth
from relearn.maths.lambert import covariance_bound
from relearn.measures.lipschitz import jacobian_norm, two_point
from relearn.models import character_lm
from relearn.models.character_lm import create
from relearn.runs.settings import read
from relearn.studies.l2_attention.steps import lipschitz_lower_bound as ascend

from ...steps.recorded import by_command, made_by, rows_of

IDENTITY = {"attention": "l2_tied", "dim": 1, "heads": 1, "weights": "identity"}
SEARCH = {"lr": 0.1, "spread": 10.0, "top": 5}
FIGURE_2 = IDENTITY | SEARCH | {"p": "inf", "length": 30, "starts": 12, "steps": 120}
FIGURE_7 = IDENTITY | SEARCH | {"p": "two", "length": 12, "starts": 6, "steps": 60}
RANDOM = {"attention": "dp", "dim": 8, "heads": 2, "weights": "random"}
FIGURE_8 = RANDOM | SEARCH | {"p": "inf", "length": 8, "starts": 3, "steps": 150, "top": 2}


def step(out: Path, settings: dict[str, Any], *, seed: int = 0, **inputs: Path) -> dict[str, Any]:
    given = {name: [path] for name, path in inputs.items()}
    labels = {name: str(settings[name]) for name in ("attention", "weights", "p", "length")}
    done = made_by(ascend, out, settings, labels, given, study="l2_attention", seed=seed)
    assert done["outcome"] == "ok"
    return done


def starts_of(settings: dict[str, Any], seed: int = 0) -> torch.Tensor:
    return ascend._starts(read(ascend.Settings, settings), seed, "cpu")


def test_figure_2_has_its_ascents_and_its_bound(tmp_path):
    metrics = step(tmp_path / "a", FIGURE_2)["metrics"]
    rows = rows_of(tmp_path / "a/ascents.csv")
    assert tuple(rows[0]) == ascend.ASCENTS and [row["rank"] for row in rows] == [
        str(i) for i in range(1, 13)
    ]
    values, first = ([float(row[name]) for row in rows] for name in ("value", "first_value"))
    assert values == sorted(values, reverse=True) and all(a >= b for a, b in zip(values, first))
    assert sorted(int(row["start"]) for row in rows) == list(range(12))
    assert {row["above_bound"] for row in rows} == {"0"} and {row["steps"] for row in rows} == {"120"}
    assert metrics["bound"] == pytest.approx(4 * covariance_bound(30) + 1)
    assert metrics["structured"] == pytest.approx(two_point(30).value)
    assert 0.85 * metrics["structured"] < metrics["largest"] <= metrics["bound"]
    assert metrics["largest"] == values[0] and metrics["ratio"] == values[0] / metrics["bound"]
    assert metrics["top_mean"] == pytest.approx(sum(values[:5]) / 5)
    assert metrics["growth"] == pytest.approx(values[0] / first[0])
    assert (metrics["starts_count"], metrics["steps_count"]) == (12, 120)
    assert metrics["late_rise_frac"] < 1e-2 and "bound_tight" not in metrics
    curve = rows_of(tmp_path / "a/curve.csv")
    assert tuple(curve[0]) == ascend.CURVE
    for rank in range(1, 6):
        way = [(int(row["step"]), float(row["value"])) for row in curve if row["rank"] == str(rank)]
        steps = [step for step, _ in way]
        assert len(way) == 100 and steps == sorted(set(steps)) and (steps[0], steps[-1]) == (0, 119)
        assert way[0][1] == pytest.approx(first[rank - 1], rel=1e-5)
        assert max(value for _, value in way) <= values[rank - 1] * (1 + 1e-5)
    assert len(curve) == 500


def test_the_starts_are_those_of_appendix_i():
    drawn = starts_of(FIGURE_2 | {"starts": 200, "length": 300})
    reach = drawn.abs().amax((1, 2))
    few = FIGURE_2 | {"length": 300, "starts": 3}
    assert float(drawn.abs().max()) <= 10 and torch.equal(drawn[:3], starts_of(few))
    quantiles = torch.quantile(
        reach, torch.tensor([0.1, 0.5, 0.9])
    )  # c ~ U[0, 10]: nearly its own largest number
    assert torch.allclose(quantiles, torch.tensor([1.0, 5.0, 9.0]), atol=1.0)
    inside = (drawn / reach[:, None, None]).flatten()
    assert float(inside.mean()) == pytest.approx(0, abs=0.02)
    assert float(inside.var()) == pytest.approx(1 / 3, rel=0.05)
    assert not torch.equal(drawn[:3], starts_of(few, seed=1))


def test_figure_7_and_the_three_bounds(tmp_path):
    metrics = step(tmp_path / "a", FIGURE_7)["metrics"]
    for name, form in {
        "bound": "tightest",
        **{f"bound_{one}": one for one in ("printed", "corrected", "tight")},
    }.items():
        assert metrics[name] == pytest.approx(growth(12, form=form))
    assert metrics["structured"] == pytest.approx(two_point(12, "two").value)
    assert 1 < metrics["largest"] <= metrics["bound"] < metrics["bound_corrected"]
    again = step(tmp_path / "b", FIGURE_7)["metrics"]
    assert again["largest"] == metrics["largest"]
    assert step(tmp_path / "c", FIGURE_7, seed=1)["metrics"]["largest"] != metrics["largest"]


def test_values_of_p_two_are_norms_of_the_whole_with_or_without_the_row_first(tmp_path, monkeypatch):
    """What `ascend` is given last is the layer, whose float64 norm the record holds."""
    seen = []
    whole = ascend._ascents

    def spied(*arguments: Any) -> Any:
        seen.append(whole(*arguments))
        return seen[-1]

    monkeypatch.setattr(ascend, "_ascents", spied)
    layer = L2Attention(1, 1, fused=False).double()
    for weight in layer.parameters():
        torch.nn.init.ones_(weight)
    reached = []
    for number, more in enumerate(({}, {"row_steps": 120})):
        done = step(tmp_path / str(number), FIGURE_7 | {"length": 40, "steps": 30} | more)
        found = seen[-1][0]
        best = int(found.values.argmax())
        norm = jacobian_norm(layer, found.inputs[best].double(), method="exact").value
        assert done["metrics"]["largest"] == pytest.approx(norm, rel=1e-4)
        assert done["metrics"]["steps_count"] == 30 + more.get("row_steps", 0)
        first = [float(row["first_value"]) for row in rows_of(tmp_path / str(number) / "ascents.csv")]
        reached.append((done["metrics"]["largest"], sorted(first)))
    assert reached[1][0] > 1.1 * reached[0][0] and reached[1][0] > 0.97 * two_point(40, "two").value
    assert reached[0][1] == pytest.approx(reached[1][1])


def test_figure_8_grows_without_a_bound_and_l2_does_not(tmp_path):
    metrics = step(tmp_path / "dp", FIGURE_8)["metrics"]
    assert metrics["growth"] > 5 and not {"bound", "ratio", "structured"} & set(metrics)
    assert {row["above_bound"] for row in rows_of(tmp_path / "dp/ascents.csv")} == {""}
    assert {row["rank"] for row in rows_of(tmp_path / "dp/curve.csv")} == {"1", "2"}
    tied = step(tmp_path / "l2", FIGURE_8 | {"attention": "l2_tied"})["metrics"]
    assert 0 < tied["ratio"] <= 1 and metrics["largest"] > tied["bound"] > tied["largest"]
    assert "structured" not in tied


def test_weights_of_a_trained_network_are_looked_at(tmp_path):
    """The first attention of a language model; its values differ from those of random weights."""
    torch.manual_seed(0)
    net = create(attention="dp", vocabulary=12, layers=2, dim=8, heads=2, ffn=16, max_length=16)
    character_lm.FILE.save(net, tmp_path / "net.safetensors")
    settings = FIGURE_8 | {"weights": "trained", "steps": 20}
    done = step(tmp_path / "a", settings, network=tmp_path / "net.safetensors")
    other = step(tmp_path / "b", settings | {"weights": "random"})
    assert done["metrics"]["largest"] > 0 and done["metrics"]["largest"] != other["metrics"]["largest"]
    layer = net.attention_layers()[0].double()
    layer.fused = False  # type: ignore[assignment]
    starts = starts_of(settings).double()
    first = {int(row["start"]): float(row["first_value"]) for row in rows_of(tmp_path / "a/ascents.csv")}
    for number, x in enumerate(starts):
        row = jacobian_norm(lambda z: layer.row(z, 0), x, "inf")  # type: ignore[operator]
        assert first[number] == pytest.approx(row.value, rel=1e-9)


def test_from_the_command_line_with_no_step_and_few_starts(tmp_path):
    settings = FIGURE_2 | {"starts": 2, "steps": 0, "top": 5}
    metrics = by_command("l2_attention", "lipschitz_lower_bound", tmp_path / "run", settings)["metrics"]
    assert metrics["growth"] == 1 and metrics["steps_count"] == 0 and metrics["late_rise_frac"] == 0
    assert rows_of(tmp_path / "run/curve.csv") == []


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"attention": "l2"}, "attention: found 'l2', allowed: dp, l2_tied"),
        ({"p": "one"}, "p: found 'one', allowed: inf, two"),
        ({"weights": "odd"}, "weights: found 'odd', allowed: identity, random, trained"),
        ({"weights": "trained"}, "network"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, change, match):
    with pytest.raises(ValueError, match=match):
        step(tmp_path / "refused", FIGURE_2 | change)
