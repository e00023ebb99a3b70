"""Features come out as the network makes them, whatever the batch size, and the network is left as it was.

The plane against slow definitions, its invariances, and what it refuses.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from relearn.measures.accuracy import accuracy
from relearn.measures.embed import embed
from relearn.measures.feature_plane import project
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


def test_real_accuracy_agrees_with_a_case_by_hand():
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


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="2 images, none with a class"):
        real_accuracy(torch.tensor([0, 1]), [(), ()])
    for predicted in (torch.tensor([0, 1]), torch.zeros(1, 3)):
        with pytest.raises(ValueError, match="1 sets of classes; allowed: one set for each prediction"):
            real_accuracy(predicted, [{0}])


def cloud(seed, n=40, d=7):
    rng = np.random.default_rng(seed)
    labels = np.r_[0, 1, rng.integers(0, 3, n - 2)]
    features = rng.normal(size=(n, d)) * rng.uniform(0.2, 3, d)
    features[labels == 1] += 4 * rng.normal(size=d)
    return features, labels


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_against_the_definitions(seed):
    features, labels = cloud(seed)
    plane = project(features, labels, 0, 1)
    means = [features[labels == c].mean(0) for c in (0, 1)]
    u = (means[1] - means[0]) / np.linalg.norm(means[1] - means[0])
    assert plane[:, 0] == pytest.approx([(f - (means[0] + means[1]) / 2) @ u for f in features])
    # the first principal direction of what is left has the largest variance that any direction has
    rest = features - features.mean(0)
    rest = rest - np.outer(rest @ u, u)
    assert plane[:, 1].var() == pytest.approx(np.linalg.eigvalsh(rest.T @ rest / len(rest))[-1])
    # orthonormal axes: no distance in the plane is longer than in feature space
    apart = np.linalg.norm(features[:, None] - features, axis=-1)
    assert (np.linalg.norm(plane[:, None] - plane, axis=-1) <= apart + 1e-9).all()


def test_the_centroids_lie_opposite_and_at_their_distance():
    features, labels = cloud(3)
    plane = project(features, labels, 0, 1)
    left, right = (plane[labels == c, 0].mean() for c in (0, 1))
    means = [features[labels == c].mean(0) for c in (0, 1)]
    assert right == pytest.approx(-left) and right > 0
    assert right - left == pytest.approx(np.linalg.norm(means[1] - means[0]))


def test_swapped_classes_mirror_across_and_keep_up():
    features, labels = cloud(5)
    one, other = project(features, labels, 0, 1), project(features, labels, 1, 0)
    assert other[:, 0] == pytest.approx(-one[:, 0]) and other[:, 1] == pytest.approx(one[:, 1])


def test_shifting_all_features_changes_nothing_and_scaling_scales():
    features, labels = cloud(6)
    plane = project(features, labels, 0, 1)
    assert project(features + 5.0, labels, 0, 1) == pytest.approx(plane, abs=1e-9)
    assert project(3.0 * features, labels, 0, 1) == pytest.approx(3.0 * plane)


def test_an_analytic_case_in_three_dimensions():
    features = np.array([[-1, 0, 0], [1, 0, 0], [0, 0, 2], [0, 0, -2], [0, 1, 0], [0, -1, 0]], dtype=float)
    plane = project(features, [0, 1, 2, 2, 2, 2], 0, 1)
    assert plane == pytest.approx(np.array([[-1, 0], [1, 0], [0, 2], [0, -2], [0, 0], [0, 0]]), abs=1e-12)


def test_nothing_left_is_flat():
    plane = project(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), [0, 1, 1], 0, 1)
    assert plane[:, 1] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (np.zeros((3, 1)), [0, 1, 1], "d at least 2"),
        (np.zeros((3, 2)), [0, 1], "labels"),
        (np.array([[0.0, np.nan], [1, 1]]), [0, 1], "NaN"),
        (np.array([[0.0, 1.0], [1, 1]]), [0, 0], "class 1 has no points"),
        (np.ones((4, 3)), [0, 0, 1, 1], "same centroid"),
    ],
)
def test_what_cannot_be_projected(features, labels, message):
    with pytest.raises(ValueError, match=message):
        project(features, labels, 0, 1)


def test_every_module_keeps_its_mode_even_after_an_error():
    net = Net().train()
    net.norm.eval()  # frozen statistics
    embed(net, torch.rand(2, 2, 2, 2))
    assert net.training and not net.norm.training and net.line.training
    with pytest.raises(RuntimeError):
        embed(net, torch.rand(2, 2, 3, 3))
    assert net.training and not net.norm.training and net.line.training
    with pytest.raises(ValueError, match="precision: found 'bfloat16', allowed are fp32, bf16"):
        embed(net, torch.rand(2, 2, 2, 2), precision="bfloat16")
