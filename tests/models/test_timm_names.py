"""Names in timm's registry: cheap to import, entered in either order, and with timm's interface."""

import subprocess
import sys

import pytest
import torch

from relearn.models import timm_names

TINY = dict(img_size=32, num_classes=3, embed_dim=8, depths=(1, 2), num_heads=(2, 4))
FORMS = {
    "lipsformer_swin_tiny": TINY | dict(window=4),
    "lipsformer_cswin_tiny": TINY | dict(window=(1, 2)),
    "cswin_tiny": TINY | dict(split=(1, 2)),
}
TINY_VIT = dict(img_size=32, num_classes=3, embed_dim=8, depth=2, num_heads=2)


def test_importing_the_names_costs_nothing_and_timm_knows_the_names_afterwards():
    code = """
import sys
before = len(sys.meta_path)
from relearn.models import timm_names
timm_names.register()
assert len(sys.meta_path) == before + 1
assert not {"timm", "torch", "torchvision"} & set(sys.modules)
import timm
assert len(sys.meta_path) == before
assert all(timm.is_model(name) for name in timm_names.NAMES)
assert not [name for name in sys.modules if name.startswith("relearn.models.") and "timm_names" not in name]
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_asking_where_timm_is_uses_nothing_up():
    # as transformers does, to see what is installed
    code = (
        "import importlib.util, relearn.models.timm_names;"
        "importlib.util.find_spec('timm'); importlib.util.find_spec('timm');"
        "import timm; assert timm.is_model('lipsformer_swin_tiny') and timm.is_model('cvt_ls_13')"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_timm_may_come_first(timm):
    timm_names.register()
    assert all(timm.is_model(name) for name in timm_names.NAMES)
    assert not any(isinstance(one, timm_names._WhenTimmComes) for one in sys.meta_path)
    assert set(timm.list_models("*cswin*")) >= {"cswin_tiny", "lipsformer_cswin_base"}


@pytest.mark.parametrize("name", FORMS)
def test_a_name_builds_its_network_with_any_size(timm, name):
    torch.manual_seed(0)
    net = timm.create_model(name, **FORMS[name]).eval()
    place, size = timm_names.NAMES[name]
    assert f"{type(net).__module__}:{type(net).__name__}" == place
    assert size["embed_dim"] == 64 or size["embed_dim"] == 96  # what was given went before
    images = torch.rand(2, 3, 32, 32)
    assert net(images).shape == (2, 3)
    assert net.default_cfg["input_size"] == (3, 224, 224)
    first, last = (net.get_submodule(net.default_cfg[key]) for key in ("first_conv", "classifier"))
    assert first.weight.shape[1] == 3 and last.weight.shape[0] == 3
    torch.manual_seed(0)
    features = timm.create_model(name, features_only=True, **FORMS[name]).eval()
    assert [tuple(one.shape) for one in features(images)] == [(2, 8, 8, 8), (2, 4, 4, 16)]
    assert features.feature_info.channels() == [8, 16] and str(features.output_fmt.value) == "NHWC"


@pytest.mark.parametrize(("name", "head"), [("residual_deit_tiny", "dense"), ("lrformer_depth6", "gp")])
def test_a_name_builds_a_network_without_stages(timm, name, head):
    net = timm.create_model(name, **TINY_VIT)
    place, size = timm_names.NAMES[name]
    assert f"{type(net).__module__}:{type(net).__name__}" == place == timm_names.RESIDUAL
    assert size["embed_dim"] > 8 and net.head_kind == head
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 3)
    assert net.default_cfg["classifier"] == "head" and net.get_submodule("head") is net.get_classifier()
    assert net.get_submodule(net.default_cfg["first_conv"]).weight.shape == (8, 3, 16, 16)
    features = timm.create_model(name, features_only=True, **TINY_VIT)
    assert [tuple(one.shape) for one in features(torch.rand(2, 3, 32, 32))] == [(2, 8, 2, 2)] * 2
    assert features.feature_info.reduction() == [16, 16]


def test_there_are_no_published_weights(timm):
    with pytest.raises(RuntimeError, match="No pretrained weights"):
        timm.create_model("lipsformer_swin_tiny", pretrained=True, **FORMS["lipsformer_swin_tiny"])
