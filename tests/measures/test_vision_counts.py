"""Counts compared with table 5.8 of zhu2022: the printed numbers come from the file, and the reason for each difference is computed."""

from functools import cache

import pytest
import torch
from torch import nn

from relearn.measures.model_counts import rounds_to
from relearn.measures.vision_counts import COLUMNS, PRINTED, vision_counts

from ..report.conftest import printed_rows

UNITS = {
    "CvT*-LS-13 @224": 20_273_536,
    "CvT*-LS-17 @224": 23_722_896,
    "CvT*-LS-21 @224": 32_069_968,
    "CvT*-LS-21S @224": 30_148_608,
    "ViL-LS-Medium @224": 39_801_043,
    "ViL-LS-Medium @384": 39_949_963,  # larger tables
    "ViL-LS-Base @224": 55_837_279,
}
OURS = [name for name, row in PRINTED.items() if row.network.startswith(("cvt", "vil"))]


@pytest.fixture(scope="module")
def build():
    import relearn.models.timm_names  # noqa: F401  (enters the names)
    from relearn import torchvision_schema

    torchvision_schema.declare()
    import timm

    @cache
    def create(name: str, **given) -> nn.Module:
        return timm.create_model(name, **given)

    return create


def test_the_printed_numbers_are_those_of_the_table():
    found = {(row["row"], row["metric"]): row["value"] for row in printed_rows("zhu2022.table5.8")}
    for name, row in PRINTED.items():
        assert (row.millions, row.giga) == (found[name, "params_m"], found[name, "flops_g"])
    ours = {name for name, _ in found if name.startswith(("CvT", "ViL"))}
    assert ours == set(OURS)


@pytest.mark.parametrize("name", [*OURS, "DeiT-S [195] @224", "ResNet-50 @224"])
def test_a_row_has_the_printed_numbers(build, name):
    (row,) = vision_counts(build, [name])
    assert tuple(row) == COLUMNS
    assert f"{row['model']} @{row['task_or_input'].split(' ')[0]}" == name
    assert row["parameters_count"] == UNITS.get(name, row["parameters_count"])
    vil = name.startswith("ViL-") and "LS" not in name
    assert row["parameters_agree"] == (not vil and name != "ResNet-50 @224")
    assert row["flops_agree"] == (not vil)
    if "CvT*" in name or not (row["parameters_agree"] and row["flops_agree"]):
        assert row["note"]


@pytest.mark.parametrize("name", ["ViL-Small [177] @224", "ViL-Medium [177] @224", "ViL-Base [177] @224"])
def test_why_vil_differs(build, name):
    """Without the tables the parameters are the printed ones, and with 15 x 15 tokens in place of 21 x 21 the products."""
    printed = PRINTED[name]
    (row,) = vision_counts(build, [name])
    with torch.device("meta"):
        net = build(printed.network, num_classes=1000, img_size=224)
    tables = sum(
        one.numel() for key, one in net.named_parameters() if key.endswith(("bias_table", "class_bias"))
    )
    assert rounds_to(row["parameters_count"] - tables, printed.millions)
    (_, one), (_, two) = ((0, 96 * 56 * 56), (1, 192 * 28 * 28))
    depths = [len(stage.blocks) for stage in net.stages]
    saved = 2 * (21 * 21 - 15 * 15) * (depths[0] * one + depths[1] * two)
    assert (row["flops_count"] - saved) / 1e9 == pytest.approx(float(printed.giga), rel=0.01)


def test_why_cvt_is_printed_with_more(build):
    from relearn.measures.model_counts import multiply_adds

    for name, giga in (("cvt_13", 4.5), ("cvt_21", 7.1)):  # of CvT's own paper
        with torch.device("meta"):
            net = build(name, num_classes=1000, img_size=224)
            assert multiply_adds(net, torch.empty(1, 3, 224, 224)) / 1e9 == pytest.approx(giga, rel=0.02)


def test_a_row_that_there_is_not():
    with pytest.raises(ValueError, match="rows: 'PVT'"):
        vision_counts(lambda *_, **__: nn.Identity(), ["PVT"])
