"""A network comes back from its file bit for bit; a file that is no network is refused in one line."""

import pytest
import torch
from safetensors.torch import save_file

from relearn.models import create, files

TINY = dict(
    name="ResNet18", classes=4, in_channels=1, width=0.125, depth=0.5, dropout=0.1, mean=[0.4], std=[0.2]
)


def test_round_trip_keeps_every_bit_and_eval_mode(tmp_path):
    torch.manual_seed(0)
    net = create(**TINY)
    net.train()(torch.rand(4, 1, 8, 8))  # running statistics that differ from their start
    files.save(net, tmp_path / "w.safetensors", TINY)
    back = files.load(tmp_path / "w.safetensors")
    assert not back.training
    for (name, a), (other, b) in zip(net.state_dict().items(), back.state_dict().items(), strict=True):
        assert name == other and torch.equal(a, b)


def test_files_that_are_no_networks_are_named(tmp_path):
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"<html>not found</html>")
    bare = tmp_path / "bare.safetensors"
    save_file({"x": torch.zeros(1)}, bare)
    wrong = tmp_path / "wrong.safetensors"
    files.save(create(**TINY), wrong, {**TINY, "width": 0.25})
    for path, words in ((junk, "not the weights"), (bare, "no description"), (wrong, "not the weights")):
        with pytest.raises(ValueError, match=words) as error:
            files.load(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
