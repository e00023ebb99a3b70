"""Tasks: what is trained on, batches and pools from a seed alone, networks that go with the data, seeds from labels."""

import math
from fractions import Fraction
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from relearn.data.arrays import load_prepared
from relearn.methods.learned_scales import halves
from relearn.models import create, files, post_ln_transformer
from relearn.models.post_ln_transformer import PostLNTransformer
from relearn.runs.settings import read
from relearn.steps.tasks import OnFolder, OnImages, OnTranslation, open_task
from relearn.steps.trained.seed import seed_of

from ..studies.gradinit.runs import COUNT, NETWORK, Runs

WORDS = {"dataset": "number_words", "vocabulary": 100, "max_length": 60, "train_pairs": 300, "test_pairs": 20}
SIZES = {"dim": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.3}


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("tasks"))
    runs.step("prepare_translation", "pairs", WORDS, {})
    return runs


@pytest.fixture(scope="module")
def translation(house):
    own = OnTranslation(task="translation", label_smoothing=0.1)
    return open_task(own, {"data": [house.root / "pairs/corpus.safetensors"]}, "cpu")


@pytest.fixture(scope="module")
def plain(house):
    return images_of(house)


def images_of(house: Runs, cutout: int = 0) -> Any:
    own = OnImages(crop_padding=0, flip=False, cutout=cutout)
    return open_task(own, {"data": [house.data]}, "cpu")


def keys(images: torch.Tensor) -> list[bytes]:
    """An image as something that can be counted; floats are pixels in [0, 1]."""
    whole = images if images.dtype == torch.uint8 else (images * 255).round().byte()
    return [image.numpy().tobytes() for image in whole]


def same(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_everything_that_the_split_left_for_training_and_nothing_of_the_test(house):
    task, prepared = house.task(), load_prepared(house.data)
    assert torch.equal(task.labels.bincount(), torch.full((10,), COUNT // 10))
    parts = [prepared.pretrain(), prepared.pool()]
    assert sorted(keys(task.images)) == sorted(key for images, _ in parts for key in keys(images))
    told = dict(zip(keys(task.images), task.labels.tolist()))
    assert all(
        told[key] == label for images, labels in parts for key, label in zip(keys(images), labels.tolist())
    )
    assert not set(keys(task.images)) & set(keys(task.test_images))


def test_batches_are_whole_and_go_through_all_images_in_an_order_of_their_own(plain):
    given = dict(zip(keys(plain.images), plain.labels.tolist()))
    size, epochs = 32, []
    batches = plain.batches(7, size)
    for _ in range(2):
        epoch = list(islice(batches, COUNT // size))
        assert {len(images) for images, _ in epoch} == {size}
        seen = [key for images, _ in epoch for key in keys(images)]
        assert len(set(seen)) == len(seen) == COUNT // size * size
        assert [given[key] for key in seen] == [label for _, labels in epoch for label in labels.tolist()]
        epochs.append(seen)
    assert epochs[0] != epochs[1]


def test_batches_come_from_their_seed_and_leave_torchs_state_alone(house):
    task, before = house.task(), torch.get_rng_state()
    one, again, other = (list(islice(task.batches(seed, 32), 8)) for seed in (3, 3, 4))
    assert all(same(a, b) for a, b in zip(one, again))
    assert not any(same(a, b) for a, b in zip(one, other))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_larger_than_the_data_is_all_of_it(plain):
    images, labels = next(plain.batches(0, 10 * COUNT))
    assert sorted(keys(images)) == sorted(keys(plain.images)) and len(labels) == COUNT


@given(size=st.integers(2, COUNT // 2), percent=st.integers(0, 100))
@example(size=10, percent=90)  # 10 · (2 - 0.9) is more than 11 in floats
@settings(max_examples=60)
def test_a_pool_holds_s_of_the_asked_size_and_the_asked_overlap(plain, size, percent):
    overlap = Fraction(percent, 100)
    assume(percent == 0 or size * overlap >= 1)
    assume(percent == 100 or size * (1 - overlap) >= 1)
    pool = next(plain.pools(1, size, float(overlap)))
    assert len(pool[0]) == math.ceil(size * (2 - overlap))
    first, second = halves(pool, float(overlap))
    assert len(first[0]) == len(first[1]) == len(second[0]) == size
    assert len(set(keys(first[0])) & set(keys(second[0]))) == math.floor(size * overlap)


def test_cutout_leaves_the_mean_which_the_network_sees_as_nought(house, plain):
    side = 3
    cut = images_of(house, side)
    net = cut.create(NETWORK)
    generator = torch.Generator().manual_seed(5)
    images = plain.images.float() / 255
    found = cut.augment(images, generator)
    holes = found != images
    assert torch.all(((found - net.mean) / net.std)[holes] == 0)
    area = holes.sum((1, 2, 3))
    assert area.max() == side**2 and area.min() < side**2 and area.min() >= (side // 2 + 1) ** 2
    rows, columns = holes.any(3).sum(2), holes.any(2).sum(2)
    assert rows.max() <= side and columns.max() <= side
    assert torch.equal(plain.augment(images, generator), images)


def test_steps_per_epoch_are_those_of_training(plain):
    assert plain.steps_per_epoch(48) == math.ceil(COUNT / 48)
    assert plain.steps_per_epoch(COUNT - 1) == 1  # a single image is left out


def test_the_loss_takes_classes_and_probabilities(plain):
    logits = torch.randn(6, 10, dtype=torch.float64)
    labels = torch.arange(6)
    slow = sum(float(row.exp().sum().log() - row[label]) for row, label in zip(logits, labels)) / 6
    assert float(plain.loss(logits, labels)) == pytest.approx(slow)
    sure = torch.eye(10, dtype=torch.float64)[labels]
    assert float(plain.loss(logits, sure)) == pytest.approx(slow)
    assert plain.loss(logits.bfloat16(), labels).dtype == torch.float32


def test_a_network_goes_through_its_file(house, tmp_path):
    task = house.task()
    torch.manual_seed(4)
    net = task.create(NETWORK)
    torch.manual_seed(4)
    twin = task.create(NETWORK)
    assert same(net.state_dict().values(), twin.state_dict().values())
    task.save(net, tmp_path / "net.safetensors")
    back = task.network(tmp_path / "net.safetensors")
    images = task.test_images[:5].float() / 255
    assert torch.equal(back(images), net.eval()(images)) and not back.training
    task.save(back, tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "net.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("key", "value"), [("classes", 7), ("in_channels", 3), ("mean", [0.25]), ("std", [0.5])]
)
def test_a_network_of_other_data_is_refused_in_one_line(house, tmp_path, key, value):
    task = house.task()
    described = task.describe(NETWORK) | {key: value}
    if key == "in_channels":
        described |= {"mean": [0.0] * 3, "std": [1.0] * 3}
    files.save(create(**described), tmp_path / "net.safetensors", described)
    with pytest.raises(ValueError, match=rf"net.safetensors: a network with {key} .* \(allowed: ") as caught:
        task.network(tmp_path / "net.safetensors")
    assert "\n" not in str(caught.value)


def test_an_unknown_task_names_the_known_ones():
    with pytest.raises(ValueError, match=r"task: found 'speech', allowed: images, folder, translation"):
        read(OnImages | OnFolder | OnTranslation, {"task": "speech"})


def test_translation_networks_fit_the_corpus(translation, tmp_path):
    torch.manual_seed(1)
    net = translation.create({**SIZES, "residual": "post_ln"})
    described = net.description
    assert described["attention_dropout"] == described["activation_dropout"] == pytest.approx(0.1)
    translation.save(net, tmp_path / "net.safetensors")
    assert same(
        translation.network(tmp_path / "net.safetensors").state_dict().values(), net.state_dict().values()
    )
    other = PostLNTransformer(50, dim=8, ffn=8, heads=2, encoder_layers=1, decoder_layers=1)
    post_ln_transformer.FILE.save(other, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"other.safetensors: a network of 50 units \(allowed: 100"):
        translation.network(tmp_path / "other.safetensors")


def test_translation_pools_are_of_so_many_tokens_and_cut_into_two_thirds(translation):
    for (source, target_in), target in islice(translation.pools(2, 300, 0.5), 20):
        rows = len(source)
        assert rows >= 3 and rows * max(source.shape[1], target.shape[1]) <= 300
        first, second = halves([(source, target_in), target], 0.5)
        assert len(first[1]) == len(second[1]) == 2 * rows // 3
    one, again, other = (next(translation.batches(seed, 300))[1] for seed in (3, 3, 4))
    assert torch.equal(one, again) and not (one.shape == other.shape and torch.equal(one, other))


def test_translation_loss_smooths_and_ignores_padding(translation):
    logits, target = torch.randn(2, 3, 100, dtype=torch.float64), torch.tensor([[5, 2, 0], [7, 9, 2]])
    logs = logits.log_softmax(-1)
    each = [
        -0.9 * float(logs[b, t, target[b, t]]) - 0.1 * float(logs[b, t].mean())
        for b in range(2)
        for t in range(3)
        if target[b, t]
    ]
    assert float(translation.loss(logits, target)) == pytest.approx(sum(each) / len(each), rel=1e-6)


def test_seeds_come_from_the_named_labels_alone():
    labels = {"task": "images", "network": "A", "initialisation": "x"}
    other = labels | {"initialisation": "y"}
    assert seed_of(labels, 0, "task", "network") == seed_of(other, 0, "task", "network")
    seeds = [
        seed_of(one, seed, "task", "network", "initialisation") for one in (labels, other) for seed in (0, 1)
    ]
    seeds += [seed_of(labels | {"network": "B"}, 0, "task", "network")]
    assert len(set(seeds)) == len(seeds)


def test_a_label_that_a_run_does_not_have_is_refused():
    """Otherwise a renamed label would silently change which runs are paired."""
    with pytest.raises(ValueError, match=r"^seed: found no label 'suite', allowed: task, network$"):
        seed_of({"task": "images", "network": "A"}, 0, "task", "suite")
