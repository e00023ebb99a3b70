"""A translation network comes back from its file bit for bit, with what is fixed in it; other files are refused in one line."""

import pytest
import torch
from safetensors.torch import save_file

from relearn.layers.residual import KINDS
from relearn.models import post_ln_transformer
from relearn.models.post_ln_transformer import PostLNTransformer

TINY = dict(dim=8, ffn=12, heads=2, encoder_layers=2, decoder_layers=1, dropout=0.25)


@pytest.mark.parametrize("residual", KINDS)
@pytest.mark.parametrize("share", ["all", "decoder", "none"])
def test_round_trip_keeps_every_bit(tmp_path, residual: str, share: str) -> None:
    torch.manual_seed(0)
    net = PostLNTransformer(11, **TINY, residual=residual, share=share)
    post_ln_transformer.FILE.save(net, tmp_path / "n.safetensors")
    state = torch.get_rng_state()
    back = post_ln_transformer.FILE.load(tmp_path / "n.safetensors")
    assert torch.equal(torch.get_rng_state(), state)
    assert not back.training and back.description == net.description
    for (name, a), (other, b) in zip(net.state_dict().items(), back.state_dict().items(), strict=True):
        assert name == other and torch.equal(a, b)
    back.train()
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6]])
    torch.manual_seed(1)
    expected = net.train()(source, target)
    torch.manual_seed(1)
    assert torch.equal(back(source, target), expected)  # the dropout is the same too


def test_a_skip_fixed_after_building_stays_fixed(tmp_path) -> None:
    net = PostLNTransformer(11, **TINY, residual="w_skip")
    for stack in net.residual_stacks().values():
        for joint in stack:
            joint.w_skip.requires_grad_(False)
    post_ln_transformer.FILE.save(net, tmp_path / "n.safetensors")
    back = post_ln_transformer.FILE.load(tmp_path / "n.safetensors")
    frozen = {name for name, parameter in back.named_parameters() if not parameter.requires_grad}
    assert frozen == {name for name, _ in net.named_parameters() if name.endswith("w_skip")} != set()


def test_files_that_are_no_networks_are_named(tmp_path) -> None:
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"<html>not found</html>")
    bare = tmp_path / "bare.safetensors"
    save_file({"x": torch.zeros(1)}, bare)
    wrong = tmp_path / "wrong.safetensors"
    net = PostLNTransformer(11, **TINY)
    net._description["ffn"] = 16
    post_ln_transformer.FILE.save(net, wrong)
    for path, words in ((junk, "not the weights"), (bare, "no description"), (wrong, "not the weights")):
        with pytest.raises(ValueError, match=words) as error:
            post_ln_transformer.FILE.load(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
