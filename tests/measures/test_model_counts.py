"""Counting against closed forms; published sizes against the files of reported numbers."""

import re
from functools import cache, partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from relearn.measures.model_counts import (
    COLUMNS,
    PUBLISHED,
    RELEASED,
    TOLERANCE,
    model_counts,
    multiply_adds,
    rounds_to,
)

from ..report.conftest import printed_rows

BUILDS = {
    "Swin-T": "swin_tiny_patch4_window7_224",
    "Swin-L": "swin_large_patch4_window7_224",
    "CSwin-T": "cswin_tiny",
    "CSwin-S": "cswin_small",
    "CSwin-B": "cswin_base",
    "LipsFormer-CSwin-T": "lipsformer_cswin_tiny",
    "LipsFormer-CSwin-S": "lipsformer_cswin_small",
    "LipsFormer-CSwin-B": "lipsformer_cswin_base",
    "LipsFormer-Swin-T": "lipsformer_swin_tiny",
    "LipsFormer-Swin-S": "lipsformer_swin_small",
    "LipsFormer-Swin-B": "lipsformer_swin_base",
    "LipsFormer-Swin-L": "lipsformer_swin_large",
}


@pytest.fixture(scope="module")
def built():
    """A network of a name without memory for it, made once."""
    import relearn.models.timm_names  # noqa: F401  (enters the names)
    from relearn import torchvision_schema

    torchvision_schema.declare()
    import timm

    @cache
    def build(name: str) -> nn.Module:
        with torch.device("meta"):
            return timm.create_model(name)

    return build


class Attention(nn.Module):
    def forward(self, x):
        return scaled_dot_product_attention(x, x, x)


@settings(max_examples=6)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 3]), st.integers(3, 6))
def test_a_convolution_has_its_products(groups, inputs, outputs, kernel, side):
    layer = nn.Conv2d(groups * inputs, groups * outputs, kernel, padding=kernel // 2, groups=groups)
    expected = side * side * groups * outputs * inputs * kernel * kernel
    assert multiply_adds(layer, torch.zeros(1, groups * inputs, side, side)) == expected


def test_linear_layers_and_both_products_of_attention():
    assert multiply_adds(nn.Linear(3, 5), torch.zeros(7, 3)) == 7 * 3 * 5
    for device in ("cpu", "meta"):
        rows = torch.zeros(2, 4, 6, 8, device=device)  # batch, heads, tokens, width
        assert multiply_adds(Attention(), rows) == 2 * (2 * 4 * 6 * 6 * 8)
    assert multiply_adds(nn.Sequential(nn.GELU(), nn.LayerNorm(3)), torch.zeros(7, 3)) == 0


def test_looking_leaves_a_network_in_its_mode():
    layer = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 5)).train()
    multiply_adds(layer, torch.randn(7, 3))
    assert layer.training and layer[0].num_batches_tracked == 0
    layer[0].eval()  # frozen statistics
    multiply_adds(layer, torch.randn(7, 3))
    assert layer.training and not layer[0].training
    with pytest.raises(RuntimeError):
        multiply_adds(layer, torch.randn(7, 4))
    assert layer.training and not layer[0].training and layer[1].training


def test_the_published_numbers_are_those_of_the_tables():
    millions: dict[str, set[str]] = {name: set() for name in PUBLISHED}
    giga: dict[str, set[float]] = {name: set() for name in PUBLISHED}
    for table in ("2", "4", "5", "7"):
        for row in printed_rows(f"qi2023.table{table}"):
            name = row["row"].removesuffix(" (ours)")
            if name in PUBLISHED and row["metric"] == "params_m":
                millions[name].add(row["value"])
            if name in PUBLISHED and row["metric"] == "flops_g":
                giga[name].add(float(row["value"]))
    assert millions == {name: {said.millions} for name, said in PUBLISHED.items()}
    assert giga == {
        name: set() if said.giga is None else {float(said.giga)} for name, said in PUBLISHED.items()
    }


@pytest.mark.parametrize("name", BUILDS)
def test_the_house_has_the_published_networks(built, name):
    (row,) = model_counts({name: partial(built, BUILDS[name])})
    assert tuple(row) == COLUMNS
    assert row["within"] and abs(row["relative_difference"]) <= TOLERANCE
    assert row["equal"] == (name not in ("Swin-T", "Swin-L", "CSwin-T", "CSwin-B"))
    assert bool(row["reason"]) == (not row["equal"])
    if "rounded up" in (row["reason"] or ""):
        assert -(-row["parameters"] // 1_000_000) == int(PUBLISHED[name].millions)
    assert row["equal_to_released"] is (True if name in RELEASED else None)


def parameters(net: nn.Module, but: str = " ") -> int:
    return sum(one.numel() for name, one in net.named_parameters() if not re.search(but, name))


def test_the_largest_has_its_printed_size_with_the_classes_of_imagenet_22k(built):
    net = built("lipsformer_swin_large_plus_plus")
    assert parameters(net) == 478_908_700
    with torch.device("meta"):
        net.reset_classifier(21_841)
    assert parameters(net) == 526_947_205
    assert parameters(net) // 1_000_000 == int(PUBLISHED["LipsFormer-Swin-L++"].millions)


def test_only_one_configuration_of_convolutions_has_all_printed_sizes(built):
    """qi2023 speaks of one depth-wise convolution (section 4.2.1) and of two (5.3)."""
    without = {"A": r"convs|joins", "B": r"convs\.0\.2|(convs|joins)\.1", "C": r"(convs|joins)\.1", "D": " "}
    names = ("LipsFormer-Swin-B", "LipsFormer-CSwin-S")
    fits = {
        conv: [rounds_to(parameters(built(BUILDS[name]), but), PUBLISHED[name].millions) for name in names]
        for conv, but in without.items()
    }
    assert fits == {"A": [False, False], "B": [False, False], "C": [False, False], "D": [True, True]}
    for but in (r"joins\.1", "norm1"):  # one α or one norm a block less: 9,856 and 19,712 parameters
        count = parameters(built("lipsformer_cswin_small"), but)
        assert not rounds_to(count, PUBLISHED["LipsFormer-CSwin-S"].millions)


def test_a_count_rounds_to_what_is_printed():
    assert rounds_to(37_500_000, "38") and not rounds_to(37_499_999, "38")
    assert rounds_to(190_650_000, "190.7") and not rounds_to(190_649_999, "190.7")


def test_another_network_is_seen_to_be_another():
    (row,) = model_counts({"Swin-T": partial(nn.Conv2d, 3, 1, 1)}, images=(3, 2, 2))
    assert row["parameters"] == 4 and row["multiply_adds"] == 12
    assert not row["equal"] and not row["within"]
    (own,) = model_counts({"mine": partial(nn.Conv2d, 3, 1, 1)}, images=(3, 2, 2))
    assert [own[key] for key in COLUMNS if key not in ("network", "parameters", "multiply_adds")] == [
        None
    ] * 8
    with pytest.raises(ValueError, match="networks: none"):
        model_counts({})
