"""pretrain: the recorded accuracy is the stored network's; roles and seeds start apart; a resumed job ends the same."""

import json

import torch

from relearn.data.arrays import load_prepared
from relearn.models import files


def test_recorded_accuracy_is_that_of_the_stored_weights(chain):
    record = json.loads((chain.path("victim") / "record.json").read_text())
    net = files.load(chain.path("victim/weights.safetensors"))
    images, labels = load_prepared(chain.path("prepare/data.safetensors")).test()
    with torch.no_grad():
        right = (net(images.float() / 255).argmax(1) == labels).double().mean()
    assert abs(record["metrics"]["test_accuracy_frac"] - float(right)) < 1e-12
    assert record["metrics"]["parameters_count"] == sum(p.numel() for p in net.parameters())


def test_networks_normalise_with_the_pretraining_images(chain):
    net = files.load(chain.path("victim/weights.safetensors"))
    images, _ = load_prepared(chain.path("prepare/data.safetensors")).pretrain()
    pixels = images.double() / 255
    assert abs(float(net.mean) - float(pixels.mean())) < 1e-6
    assert abs(float(net.std) - float(pixels.std(unbiased=False))) < 1e-6


def test_substitute_and_victim_of_one_architecture_differ(chain):
    one, other = (files.load(chain.path(f"{role}/weights.safetensors")) for role in ("substitute", "victim"))
    assert not torch.equal(one.head.weight, other.head.weight)


def test_same_settings_and_seed_give_the_same_bits(chain):
    before = chain.path("victim/weights.safetensors").read_bytes()
    record = json.loads((chain.path("victim") / "record.json").read_text())
    chain.step("pretrain", "again", record["settings"], record["labels"], data="prepare/data.safetensors")
    assert chain.path("again/weights.safetensors").read_bytes() == before
