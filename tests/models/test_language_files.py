"""A character model comes back from its file bit for bit; other files are refused in one line."""

import pytest
import torch
from safetensors.torch import save_file

from relearn.models import character_lm
from relearn.models.character_lm import KINDS, create

TINY = dict(vocabulary=9, layers=2, dim=8, heads=2, ffn=12, max_length=20, dropout=0.25)


@pytest.mark.parametrize("attention", KINDS)
def test_round_trip_keeps_every_bit(tmp_path, attention: str) -> None:
    torch.manual_seed(0)
    net = create(attention=attention, **TINY, norm="no_norm", glorot="printed", init_scale=0.5)
    character_lm.FILE.save(net, tmp_path / "n.safetensors")
    state = torch.get_rng_state()
    back = character_lm.FILE.load(tmp_path / "n.safetensors")
    assert torch.equal(torch.get_rng_state(), state)
    assert not back.training and back.description == net.description
    for (name, a), (other, b) in zip(net.state_dict().items(), back.state_dict().items(), strict=True):
        assert name == other and torch.equal(a, b)
    tokens = torch.tensor([[3, 4, 5, 1]])
    torch.manual_seed(1)
    expected = net.train()(tokens)
    torch.manual_seed(1)
    assert torch.equal(back.train()(tokens), expected)  # the dropout is the same too


def test_files_that_are_no_networks_are_named(tmp_path) -> None:
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"<html>not found</html>")
    bare = tmp_path / "bare.safetensors"
    save_file({"x": torch.zeros(1)}, bare)
    wrong = tmp_path / "wrong.safetensors"
    net = create(attention="dp", **TINY)
    net.description["ffn"] = 16
    character_lm.FILE.save(net, wrong)
    for path, words in ((junk, "not the weights"), (bare, "no description"), (wrong, "not the weights")):
        with pytest.raises(ValueError, match=words) as error:
            character_lm.FILE.load(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
