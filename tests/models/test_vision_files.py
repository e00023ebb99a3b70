"""A vision network comes back from its file with every bit, computed tables and window masks too."""

from __future__ import annotations

import pytest
import torch

from relearn.models import vision

from .test_vision import FORMS, build


@pytest.mark.parametrize("name", [name for name in FORMS if FORMS[name]])
def test_round_trip_keeps_every_bit(tmp_path, name):
    net = build(name, drop_path_rate=0.2)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    vision.FILE.save(net, tmp_path / "n.safetensors")
    before = torch.get_rng_state()
    back = vision.FILE.load(tmp_path / "n.safetensors")
    assert torch.equal(torch.get_rng_state(), before)
    assert not back.training and back.description == net.description
    for (key, a), (other, b) in zip(net.state_dict().items(), back.state_dict().items(), strict=True):
        assert key == other and torch.equal(a, b)
    for (key, a), (other, b) in zip(net.named_buffers(), back.named_buffers(), strict=True):
        assert key == other and torch.equal(a, b)
    x = torch.rand(4, 2, 8, 8)
    torch.manual_seed(1)
    expected = net.train()(x)
    torch.manual_seed(1)
    assert torch.equal(back.train()(x), expected)  # the same branches are dropped too


def test_another_networks_file_is_named(tmp_path):
    net = build("deit_tiny_patch16_224")
    net.description["embed_dim"] = 16
    vision.FILE.save(net, tmp_path / "n.safetensors")
    with pytest.raises(ValueError, match=r"n\.safetensors: not the weights of a vision network"):
        vision.FILE.load(tmp_path / "n.safetensors")
