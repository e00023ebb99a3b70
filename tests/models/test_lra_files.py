"""An encoder comes back from its file bit for bit; other files are refused in one line."""

import pytest
import torch

from relearn.layers.efficient import KINDS
from relearn.models import lra_encoder
from relearn.models.lra_encoder import create

TINY = dict(vocabulary=9, classes=3, max_length=20, dim=8, heads=2, ffn=12, dropout=0.25)
OWN: dict[str, dict[str, object]] = {"long_short_best": {"window": 2, "rank": 3}}


@pytest.mark.parametrize("attention", KINDS)
def test_round_trip_keeps_every_bit(tmp_path, attention: str) -> None:
    torch.manual_seed(0)
    net = create(attention, **TINY, attention_arguments=OWN.get(attention, {}))
    lra_encoder.FILE.save(net, tmp_path / "n.safetensors")
    back = lra_encoder.FILE.load(tmp_path / "n.safetensors")
    assert not back.training and back.description == net.description
    for (name, a), (other, b) in zip(net.state_dict().items(), back.state_dict().items(), strict=True):
        assert name == other and torch.equal(a, b)
    tokens = torch.tensor([[3, 4, 5, 1, 0]])
    assert torch.equal(net.eval()(tokens), back(tokens))


def test_a_file_that_does_not_fit_is_named(tmp_path) -> None:
    net = create("full", **TINY)
    net.description["ffn"] = 16
    path = tmp_path / "wrong.safetensors"
    lra_encoder.FILE.save(net, path)
    with pytest.raises(ValueError, match="not the weights") as error:
        lra_encoder.FILE.load(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
