"""Our networks under timm's names, and timm's ResNet-50 with our residual blocks."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

from relearn.layers.scalar import Scale, Shift
from relearn.models import create, timm_names

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


@pytest.mark.parametrize("name", ["residual_deit_tiny", "lrformer_depth6"])
def test_dropout_before_the_head_is_timms(timm, name):
    given = TINY_VIT | dict(in_chans=1, drop_rate=0.5, drop_path_rate=0.1, global_pool="avg")
    states = []
    for drop_rate in (0.0, 0.5):
        torch.manual_seed(0)
        net = timm.create_model(name, **given | dict(drop_rate=drop_rate))
        states.append(torch.get_rng_state())
    assert torch.equal(*states)  # no more random draws at the start
    truth = timm.create_model("vit_tiny_patch16_224", depth=1, embed_dim=8, num_heads=2, drop_rate=0.5)
    tokens, found = torch.rand(4, 5, 8), []
    for one in (net, truth.train()):
        one.head, one.fc_norm, one.global_pool = torch.nn.Identity(), torch.nn.Identity(), "avg"
        torch.manual_seed(1)
        found.append(one.forward_head(tokens))
    torch.testing.assert_close(*found)
    assert torch.equal(net.eval().forward_head(tokens), tokens[:, 1:].mean(1)) and not found[0].all()
    for wrong in (dict(drop_rate=1.0), dict(global_pool="max")):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: .*allowed: .*[^ ]\\)$"):
            timm.create_model(name, **TINY_VIT | wrong)


def test_there_are_no_published_weights(timm):
    with pytest.raises(RuntimeError, match="No pretrained weights"):
        timm.create_model("lipsformer_swin_tiny", pretrained=True, **FORMS["lipsformer_swin_tiny"])


# ResNet-50 ----------------------------------------------------------------------------------------------------------


def count(size, layer, numbers, classes):
    total, channels = layer(7, 3, 64) + size.linear(2048, classes) + numbers, 64
    for planes, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        total += layer(1, channels, 4 * planes)
        for _ in range(blocks):
            total += layer(1, channels, planes) + layer(3, planes, planes) + layer(1, planes, 4 * planes)
            channels = 4 * planes
    return total


@pytest.mark.parametrize(
    ("name", "published_count"), [("timm-ResNet-50-BN", 25_557_032), ("timm-ResNet-50-FixUp", 25_504_026)]
)
def test_it_has_the_published_parameters(timm, name, published_count, size, parameters):
    with torch.device("meta"):
        net = create(name, classes=1000)
        stages = net.stages(torch.empty(1, 3, 224, 224))
    expected = (size.unit, 0) if name.endswith("BN") else (size.conv, 16 * 7 + 2)
    assert parameters(net) == count(size, *expected, classes=1000) == published_count
    assert [tuple(stage.shape[1:3]) for stage in stages] == [(256, 56), (512, 28), (1024, 14), (2048, 7)]
    assert len(net.branches()) == 16 and {len(branch) for branch in net.branches()} == {3}


def test_logits_are_timms(timm, wake, give):
    torch.manual_seed(0)
    net = wake(create("timm-ResNet-50-BN", classes=4)).eval()
    truth = timm.create_model("resnet50", num_classes=4)
    ours = [key for key in net.state_dict() if key not in ("mean", "std")]
    assert len(ours) == len(truth.state_dict())
    shapes = {key: value.shape for key, value in truth.state_dict().items()}
    assert [net.state_dict()[key].shape for key in ours] == list(shapes.values())
    truth.load_state_dict(dict(zip(shapes, (net.state_dict()[key] for key in ours))))
    images = torch.rand(1, 3, 64, 64, dtype=torch.double)
    torch.testing.assert_close(net(images), truth.double().eval()(images))


def test_no_normalisation_starts_at_zero(timm):
    net = create("timm-ResNet-50-BN", width=0.1)
    scales = [m.weight for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert all(torch.equal(scale, torch.ones_like(scale)) for scale in scales)
    (control,) = {m.weight.abs().max().item() for m in [timm.create_model("resnet50").layer1[0].bn3]}
    assert control == 0  # timm's default


def test_fixup_without_normalisation_is_the_formula(timm):
    torch.manual_seed(0)
    net = create("timm-ResNet-50-FixUp", width=0.1, depth=0.5).double()
    for module in net.modules():
        if isinstance(module, Scale | Shift):
            next(module.parameters()).data.normal_()
    x = torch.rand(2, 3, 40, 40, dtype=torch.double)
    conv, shift, _, _ = net.stem
    h = F.conv2d(x, conv.weight, stride=2, padding=3) + shift.bias
    h = F.max_pool2d(h.clamp(min=0), 3, 2, 1)
    for number, stage in enumerate(net.body):
        for index, block in enumerate(one for one in stage if hasattr(one, "conv3")):
            stride = 2 if number and not index else 1
            low = h + block.before1.bias
            inner = (F.conv2d(low, block.conv1.weight) + block.after1.bias).clamp(min=0)
            inner = F.conv2d(inner + block.before2.bias, block.conv2.weight, stride=stride, padding=1)
            inner = (inner + block.after2.bias).clamp(min=0)
            branch = F.conv2d(inner + block.before3.bias, block.conv3.weight)
            branch = branch * block.scale.scale + block.after3.bias
            if not index:
                h = F.conv2d(low, block.shortcut.weight, stride=stride)
            h = (branch + h).clamp(min=0)
    h = h.mean((2, 3)) + net.body[-1][-1].bias
    torch.testing.assert_close(net(x), h @ net.head.weight.T + net.head.bias)
