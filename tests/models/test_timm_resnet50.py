"""ResNet-50 on timm's bottlenecks: timm's own network as truth, FixUp's by hand, counts by arithmetic."""

import pytest
import torch
from torch.nn import functional as F

from relearn.layers.scalar import Scale, Shift
from relearn.models import create


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
