"""Features come out as the network makes them, whatever the batch size, and the network is left as it was."""

import torch
from torch import nn

from relearn.measures.embed import embed


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(2)
        self.line = nn.Linear(8, 3)

    def features(self, x):
        return self.line(self.norm(x).flatten(1))


def test_batches_do_not_matter_and_eight_bits_are_pixels():
    torch.manual_seed(0)
    net = Net().train()
    images = torch.randint(0, 256, (7, 2, 2, 2), dtype=torch.uint8)
    whole = embed(net, images)
    assert torch.allclose(embed(net, images, batch_size=3), whole, atol=1e-6)
    assert torch.allclose(embed(net, images.float() / 255), whole, atol=1e-6)
    net.eval()
    assert torch.allclose(net.features(images.float() / 255), whole, atol=1e-6)
    assert not whole.requires_grad


def test_mode_and_batch_statistics_are_left_alone():
    net = Net().train()
    embed(net, torch.rand(4, 2, 2, 2))
    assert net.training and net.norm.running_mean.abs().sum() == 0
    assert not Net().eval().training and not (lambda n: (embed(n, torch.rand(2, 2, 2, 2)), n.training)[1])(
        Net().eval()
    )
