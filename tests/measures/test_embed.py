"""Features come out as the network makes them, whatever the batch size, and the network is left as it was."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from relearn.measures.accuracy import accuracy
from relearn.measures.embed import embed
from relearn.measures.real_accuracy import real_accuracy


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


# Any right class counts, images without one do not; with one class an image it is accuracy.

IMAGES = st.lists(st.tuples(st.integers(0, 4), st.sets(st.integers(0, 4))), min_size=1, max_size=12)


def test_by_hand():
    predicted = torch.tensor([3, 1, 0, 2])
    assert real_accuracy(predicted, [{3, 4}, {0}, (), [2]]) == (pytest.approx(2 / 3), 3)


@given(IMAGES.filter(lambda images: any(allowed for _, allowed in images)))
def test_it_is_the_share_that_a_count_gives_and_more_classes_never_lower_it(images):
    predicted = torch.tensor([guess for guess, _ in images])
    allowed = [classes for _, classes in images]
    share, count = real_accuracy(predicted, allowed)
    assert count == sum(map(bool, allowed))
    assert share * count == pytest.approx(sum(guess in classes for guess, classes in images))
    wider = [classes | {0} if classes else classes for classes in allowed]
    assert real_accuracy(predicted, wider)[0] >= share


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(0, 99))
def test_with_one_class_an_image_it_is_accuracy(labels, seed):
    logits = torch.randn(len(labels), 5, generator=torch.Generator().manual_seed(seed))
    found, count = real_accuracy(logits.argmax(1), [{label} for label in labels])
    assert count == len(labels) and found == pytest.approx(accuracy(logits, torch.tensor(labels)))


def test_refusals():
    with pytest.raises(ValueError, match="2 images, none with a class"):
        real_accuracy(torch.tensor([0, 1]), [(), ()])
    for predicted in (torch.tensor([0, 1]), torch.zeros(1, 3)):
        with pytest.raises(ValueError, match=r"1 sets of classes: allowed is \(n,\)"):
            real_accuracy(predicted, [{0}])
