"""A network of any kind comes back from its file bit for bit; a file that is no network of its kind is refused in one line.

Any network comes back from its file: bits, types, computed buffers, aligned tensors; and a load draws nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from relearn.layers.efficient import KINDS
from relearn.models import character_lm, create, files, lra_encoder, vision
from relearn.models.files import ModelFile

from .test_vision import FORMS, build

SMALL = dict(
    name="ResNet18", classes=4, in_channels=1, width=0.125, depth=0.5, dropout=0.1, mean=[0.4], std=[0.2]
)
TEXT: dict[str, Any] = dict(vocabulary=9, dim=8, heads=2, ffn=12, max_length=20, dropout=0.25)
OWN: dict[str, dict[str, object]] = {"long_short_best": {"window": 2, "rank": 3}}
TOKENS = torch.tensor([[3, 4, 5, 1, 0]])


def encoder(attention: str) -> nn.Module:
    return lra_encoder.create(attention, **TEXT, classes=3, attention_arguments=OWN.get(attention, {}))


def language_model(attention: str) -> nn.Module:
    forms: dict[str, Any] = {"norm": "no_norm", "glorot": "printed", "init_scale": 0.5}
    return character_lm.create(attention=attention, **TEXT, layers=2, **forms)


def deep(name: str) -> nn.Module:
    return build(name, drop_path_rate=0.2)


ROUND_TRIPS: dict[str, tuple[Any, Callable[[str], Any], Tensor]] = {
    **{f"encoder {kind}": (lra_encoder.FILE, encoder, TOKENS) for kind in KINDS},
    **{f"language {kind}": (character_lm.FILE, language_model, TOKENS) for kind in character_lm.KINDS},
    **{f"vision {name}": (vision.FILE, deep, torch.rand(4, 2, 8, 8)) for name in FORMS if FORMS[name]},
}


@pytest.mark.parametrize("which", ROUND_TRIPS)
def test_round_trip_keeps_every_bit(tmp_path: Path, which: str) -> None:
    file, make, inputs = ROUND_TRIPS[which]
    torch.manual_seed(0)
    net = make(which.partition(" ")[2])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    file.save(net, tmp_path / "n.safetensors")
    before = torch.get_rng_state()
    back = file.load(tmp_path / "n.safetensors")
    assert torch.equal(torch.get_rng_state(), before)
    assert not back.training and back.description == net.description
    same(net, back)
    torch.manual_seed(1)
    expected = net.train()(inputs)
    torch.manual_seed(1)
    assert torch.equal(back.train()(inputs), expected)  # the same dropout and dropped branches, too


def same(net: nn.Module, back: nn.Module) -> None:
    """Equal parameters and buffers, computed tables and window masks included."""
    for one, other in (
        (net.state_dict().items(), back.state_dict().items()),
        (net.named_buffers(), back.named_buffers()),
    ):
        for (name, a), (key, b) in zip(one, other, strict=True):
            assert name == key and torch.equal(a, b)


def test_round_trip_keeps_every_bit_and_eval_mode(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = create(**SMALL)
    net.train()(torch.rand(4, 1, 8, 8))  # running statistics that differ from their start
    files.save(net, tmp_path / "w.safetensors", SMALL)
    back = files.load(tmp_path / "w.safetensors")
    assert not back.training
    same(net, back)


@pytest.mark.parametrize("kind", ["classifier", "language", "encoder", "vision"])
def test_files_that_are_no_networks_are_named(tmp_path: Path, kind: str) -> None:
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"<html>not found</html>")
    bare = tmp_path / "bare.safetensors"
    save_file({"x": torch.zeros(1)}, bare)
    wrong = tmp_path / "wrong.safetensors"
    if kind == "classifier":
        files.save(create(**SMALL), wrong, {**SMALL, "width": 0.25})
        load: Callable[[Path], Any] = files.load
    else:
        file, net, key = {
            "language": (character_lm.FILE, language_model("dp"), "ffn"),
            "encoder": (lra_encoder.FILE, encoder("full"), "ffn"),
            "vision": (vision.FILE, build("deit_tiny_patch16_224"), "embed_dim"),
        }[kind]
        net.description[key] = 16
        file.save(net, wrong)
        load = file.load
    for path, words in ((junk, "not the weights"), (bare, "no description"), (wrong, "not the weights")):
        with pytest.raises(ValueError, match=words) as error:
            load(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)


class Odd(nn.Module):
    """A network with a random start, a buffer outside its state, a scalar, a frozen parameter and an integer."""

    def __init__(self, width: int, note: str = "") -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.gain = nn.Parameter(torch.tensor(1.0))
        self.fixed = nn.Parameter(torch.zeros(3), requires_grad=False)
        self.register_buffer("steps", torch.tensor(7))
        self.register_buffer("index", torch.arange(width).flip(0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gain * self.linear(x)[:, self.index]


FILE = ModelFile("odd", "an odd network", Odd)


def round_trip(net: nn.Module, path, **description) -> Odd:
    FILE.save(net, path, description)
    return FILE.load(path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_bits_types_and_computed_buffers_come_back(tmp_path, dtype):
    net = Odd(5).to(dtype)
    with torch.no_grad():
        net.gain.fill_(1.5)
    back = round_trip(net, tmp_path / "n.safetensors", width=5)
    assert not back.training and not back.fixed.requires_grad and back.gain.requires_grad
    for (name, a), (other, b) in zip(net.state_dict().items(), back.state_dict().items(), strict=True):
        assert name == other and a.dtype == b.dtype and torch.equal(a, b)
    x = torch.rand(2, 5).to(dtype)
    assert back.index.device.type == "cpu" and torch.equal(back(x), net(x))


def test_loaded_tensors_are_aligned_wherever_they_lie_in_the_file(tmp_path):
    mapped = set()
    for length in range(0, 64, 8):
        path = tmp_path / f"{length}.safetensors"
        back = round_trip(Odd(5), path, width=5, note="x" * length)
        assert {tensor.data_ptr() % 64 for tensor in back.state_dict().values()} == {0}
        with safe_open(path, "pt") as file:
            mapped |= {file.get_tensor(name).data_ptr() % 64 for name in file.keys()}  # noqa: SIM118
    assert len(mapped) > 1  # the control: in the file they lie anywhere


def test_a_load_draws_nothing_from_the_global_generator(tmp_path):
    net = Odd(5)
    before = torch.get_rng_state()
    round_trip(net, tmp_path / "n.safetensors", width=5)
    assert torch.equal(torch.get_rng_state(), before)
    Odd(5)
    assert not torch.equal(torch.get_rng_state(), before)  # the control: building draws


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"width": 6}, "not the weights of an odd network"),
        ({"breadth": 5}, "not the weights of an odd network: .*breadth"),
        (None, r"no description of an odd network in it \(allowed: files written by relearn\)"),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_files_name(tmp_path, description, words):
    path = tmp_path / "n.safetensors"
    header = "other" if description is None else "odd"
    ModelFile(header, "a network", Odd).save(Odd(5), path, description or {})
    with pytest.raises(ValueError, match=words) as error:
        FILE.load(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
