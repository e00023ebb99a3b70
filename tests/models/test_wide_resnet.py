"""WRN-28-10: parameters by arithmetic, a slow forward pass, momentum, branches."""

import torch
from torch.nn import functional as F

from relearn.models import create


def test_it_has_the_published_parameters(size, published, parameters):
    total, channels = size.conv(3, 3, 16) + 16, 16
    for planes in (160, 320, 640):
        total += size.conv(1, channels, planes) + planes  # every stage begins with a shortcut of its own
        for _ in range(4):
            total += size.norm(channels) + size.conv(3, channels, planes) + planes
            total += size.norm(planes) + size.conv(3, planes, planes) + planes
            channels = planes
    total += size.norm(640) + size.linear(640, 10)
    assert parameters(published("WRN-28-10")) == total == 36_489_290


def test_forward_is_the_formula(wake):
    def norm(module, h):
        return F.batch_norm(h, module.running_mean, module.running_var, module.weight, module.bias)

    torch.manual_seed(0)
    net = wake(create("WRN-28-10", width=0.05, depth=0.5)).eval()
    x = torch.rand(2, 3, 9, 9, dtype=torch.double)
    h = F.conv2d(x, net.stem.weight, net.stem.bias, padding=1)
    for number, stage in enumerate(net.body):
        blocks = [one for one in stage if hasattr(one, "conv1")]
        assert len(blocks) == 2
        for index, block in enumerate(blocks):
            stride = 2 if number and not index else 1
            branch = F.conv2d(
                norm(block.norm1, h).clamp(min=0), block.conv1.weight, block.conv1.bias, padding=1
            )
            branch = norm(block.norm2, branch).clamp(min=0)
            branch = F.conv2d(branch, block.conv2.weight, block.conv2.bias, stride=stride, padding=1)
            if not index:  # 1 × 1 on x itself
                low = h[:, :, ::stride, ::stride]
                low = torch.einsum("oi,bihw->bohw", block.shortcut.weight[:, :, 0, 0], low)
                h = low + block.shortcut.bias.view(1, -1, 1, 1)
            h = h + branch
    h = norm(net.body[-1][-2], h).clamp(min=0).mean((2, 3))
    torch.testing.assert_close(net(x), h @ net.head.weight.T + net.head.bias)


def test_the_last_running_statistics_follow_the_last_batch(published):
    *norms, last = [m for m in published("WRN-28-10").modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert last.momentum == 0.9
    assert {one.momentum for one in norms} == {0.1}


def test_branches_are_the_two_convolutions_of_every_block(published):
    net = published("WRN-28-10")
    branches = net.branches()
    assert len(branches) == 12
    assert all(layer.kernel_size == (3, 3) for branch in branches for layer in branch)
    assert net.stem not in [layer for branch in branches for layer in branch]
