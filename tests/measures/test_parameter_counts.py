"""Counting against closed forms and against built networks; the published sizes against the files of reported numbers."""

import re
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from relearn.measures.model_counts import rounds_to
from relearn.measures.parameter_counts import (
    COLUMNS,
    PUBLISHED,
    RELEASED,
    count_parameters,
    parameter_counts,
)
from relearn.models import create

from ..report.conftest import printed_rows

NAMES = {  # the tables' words for a network
    "VGG-19 w/o BN": "VGG-19",
    "VGG-19 w/ BN": "VGG-19-BN",
    "ResNet-110 w/o BN": "ResNet-110",
    "ResNet-110 w/ BN": "ResNet-110-BN",
    "ResNet-1202 w/ BN": "ResNet-1202-BN",
    "WRN-28-10 w/ BN": "WRN-28-10",
    "FixUpResNet N/A": "FixUpResNet-110",
    "DenseNet-100 w/o BN": "DenseNet-100",
    "DenseNet-100 w/ BN": "DenseNet-100-BN",
}


class Tied(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        if tied:
            self.b.weight = self.a.weight


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3), st.booleans())
def test_a_convolution_has_weights_and_biases(inputs, outputs, kernel, bias):
    found = count_parameters(partial(nn.Conv2d, inputs, outputs, kernel, bias=bias))
    assert found == outputs * (inputs * kernel**2 + bias)


def test_a_shared_tensor_counts_once_and_a_buffer_not_at_all():
    assert count_parameters(partial(Tied, False)) == 24
    assert count_parameters(partial(Tied, True)) == 15
    assert count_parameters(partial(nn.BatchNorm2d, 7)) == 14


def test_nothing_is_built():
    built = []

    def huge() -> nn.Module:
        built.append(nn.Linear(1_000_000, 1_000_000))  # four terabytes, were it made
        return built[0]

    assert count_parameters(huge) == 10**12 + 10**6
    assert built[0].weight.device == torch.device("meta")


def test_what_is_counted_is_what_a_built_network_has():
    built = create("ResNet18", width=0.25)
    assert count_parameters(partial(create, "ResNet18", width=0.25)) == sum(
        one.numel() for one in built.parameters()
    )


def test_the_published_sizes_are_those_of_the_tables():
    found = {}
    for table in ("zhu2022.table4.4", "zhu2022.table4.5"):
        for row in printed_rows(table):
            said = re.fullmatch(r"(.+) \((\d+\.\d\d)M\) CIFAR-10 .+", row["column"])
            assert said, row["column"]
            found[NAMES[said[1]]] = float(said[2])
    assert found == PUBLISHED


@pytest.mark.parametrize("name", RELEASED)
def test_the_house_has_the_published_networks_to_the_unit(name):
    (row,) = parameter_counts({name: partial(create, name)})
    assert tuple(row) == COLUMNS
    assert row["count"] == RELEASED[name] and row["equal_to_released"]
    assert row["equal"] in (True, None)
    assert (row["equal"] is None) == (name not in PUBLISHED)


def test_another_width_is_another_network_and_seen_to_be():
    (row,) = parameter_counts({"VGG-19": partial(create, "VGG-19", width=0.5)})
    assert not row["equal"] and not row["equal_to_released"]
    assert row["count"] == sum(one.numel() for one in create("VGG-19", width=0.5).parameters())


def test_a_count_rounds_to_what_is_printed():
    assert rounds_to(1_725_000, "1.73") and not rounds_to(1_724_999, "1.73")
    assert rounds_to(1_734_999, "1.73") and not rounds_to(1_735_000, "1.73")
    assert all(rounds_to(RELEASED[name], f"{millions:.2f}") for name, millions in PUBLISHED.items())


def test_a_network_of_ones_own_has_nothing_to_compare_with():
    (row,) = parameter_counts({"mine": partial(nn.Linear, 2, 3)})
    assert row["count"] == 9
    assert [row[key] for key in COLUMNS[2:]] == [None] * 4
    with pytest.raises(ValueError, match="networks: none"):
        parameter_counts({})
