"""What is measured on whole networks: norms against dense Jacobians, bounds from the weights, and that a wrong start is seen.

Which layers the spectral initialisation makes 1-Lipschitz.
"""

import math
from functools import cache

import pytest
import torch
from torch import nn

from relearn.maths.network_bounds import gelu_constant
from relearn.measures.attention_cases import spectral_norms, whole_networks
from relearn.measures.attention_cases.whole_networks import affine, attention, prepared, stack
from relearn.measures.lipschitz.jacobian import jacobian
from relearn.methods.spectral_start import spectral_start
from relearn.models.lipsformer import LipsFormer


def network(**changed: object) -> LipsFormer:
    torch.manual_seed(0)
    sizes = dict(img_size=16, patch_size=2, embed_dim=8, depths=(1, 2), num_heads=(2, 2), window=2)
    return LipsFormer(**{**sizes, "num_classes": 2, "eps": 0.5, **changed})


@cache
def norm_of(layer: torch.nn.Module, shape: tuple[int, ...]) -> float:
    return float(torch.linalg.matrix_norm(jacobian(layer, torch.zeros(shape)), 2))


def test_attention_is_measured_with_its_bias_and_obeys_the_bounds():
    net = network()
    for layer in net.modules():
        if hasattr(layer, "relative_position_bias_table"):
            torch.nn.init.normal_(layer.relative_position_bias_table)
    rows = list(attention("tiny", net, spreads=[0.5], iterations=40, seed=0))
    assert [(row["p"], row["dim"]) for row in rows] == [("two", 8), ("inf", 8), ("two", 16), ("two", 16)]
    first = net.layers[0][1].attention
    tokens = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = 0.5 * math.sqrt(0.5) * tokens
    exact = jacobian(lambda z: first.attention(z, bias=first.bias().double()), x)
    assert rows[0]["norm"] == pytest.approx(float(torch.linalg.matrix_norm(exact, 2)), rel=1e-3)
    assert rows[1]["norm"] == pytest.approx(float(exact.abs().sum(1).max()), rel=1e-9)
    for row in rows:
        assert row["holds"] and row["network"] == "tiny" and 0 < row["norm"] < row["tight"] < row["printed"]
    with torch.no_grad():
        first.attention.qkv.weight.mul_(3)  # the bound grows with the weights
    assert next(attention("tiny", net, spreads=[0.5], iterations=40, seed=0))["tight"] == pytest.approx(
        3 * rows[0]["tight"]
    )


def test_the_stack_is_the_whole_network_and_its_parts():
    net = network(alpha=0.25)
    row = stack("tiny", net, iterations=60, seed=0)
    image = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    tokens = net.patch_embed(image)
    whole = jacobian(net.layers, tokens)
    assert row["norm"] == pytest.approx(float(torch.linalg.matrix_norm(whole, 2)), rel=1e-2)
    assert (row["blocks"], row["branches"], row["length"], row["dim"]) == (3, 12, 4, 8)
    assert row["norm"] <= row["product"] * 1.001 <= row["corrected"] and row["holds"]
    blocks = [net.layers[0][1], *net.layers[1][1:]]
    bounds = [float(one.attention.attention.lipschitz_bound(4)) for one in blocks]
    kappa = max(*bounds, 7 * gelu_constant() ** 2)
    assert row["kappa"] == pytest.approx(kappa, rel=1e-3) and row["alpha"] == 0.25
    assert row["printed"] == pytest.approx(math.exp(row["kappa"]))


def test_an_infinite_bound_is_infinite():
    assert stack("tiny", network(eps=1e-12), iterations=1, seed=0)["printed"] == math.inf


def test_affine_layers_start_with_norm_one_where_windows_do_not_overlap():
    net = network()
    rows = list(affine("tiny", net, size=8))
    kinds = {row["case"] for row in rows}
    assert kinds >= {"linear", "depth_wise"}
    assert all(row["holds"] for row in rows)
    for row in rows:
        if row["case"] != "depth_wise":
            assert row["norm"] == pytest.approx(1, abs=1e-4)
    wide = [row for row in rows if row["case"] == "depth_wise"]
    layer = next(one for one in net.modules() if isinstance(one, torch.nn.Conv2d) and one.groups == 8)
    assert wide[0]["norm"] == pytest.approx(norm_of(layer, (1, 8, 8, 8)), rel=1e-2)
    assert any(row["norm"] > 1.01 for row in wide)  # erratum Q12


def test_a_start_above_one_is_seen():
    net = network()
    with torch.no_grad():
        net.layers[0][1].mlp.fc1.weight.mul_(1.001)
    assert sum(not row["holds"] for row in affine("tiny", net, size=8)) == 1


def test_prepared_keeps_no_gradient():
    assert not any(parameter.requires_grad for parameter in prepared(network()).parameters())
    assert whole_networks.CASE == "network"


def start(layer, seed, image):
    spectral_start(
        layer, None, None if image is None else iter([(image,)]), seed=seed, operator=image is not None
    )


@pytest.fixture(scope="module")
def rows():
    return spectral_norms.cases(start, channels=(8, 16), size=14)


def test_every_case_holds(rows) -> None:
    assert len(rows) == 2 * (4 + 2 * 2) + 2
    assert all(tuple(row) == spectral_norms.COLUMNS and row["holds"] for row in rows)


def test_only_overlapping_windows_make_the_printed_statement_false(rows) -> None:
    failed = {(row["case"], row["start"]) for row in rows if not row["printed_holds"]}
    assert failed == {("depth_wise", "flattened"), ("dense", "flattened"), ("equal", "flattened")}
    three, seven = (row["norm"] for row in rows if row["case"] == "equal")
    assert 2.8 < three < 3 and 5.9 < seven < 7  # borders take a little; 3 and 7 on a large image
    for row in rows:
        if row["case"] in ("linear", "patches", "merging", "point_wise"):
            assert row["norm"] == pytest.approx(1, rel=1e-4)


def test_a_start_that_does_not_divide_is_found_out() -> None:
    def plain(layer, seed, image):
        nn.init.xavier_normal_(layer.weight)

    rows = spectral_norms.cases(plain, channels=(8,), size=8)
    assert not any(row["holds"] for row in rows if row["case"] in ("linear", "patches", "merging"))
    assert not any(row["holds"] for row in rows if row["start"] == "operator")


def test_a_size_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="size: 7"):
        spectral_norms.cases(start, channels=(8,), size=7)
