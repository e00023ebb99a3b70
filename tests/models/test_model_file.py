"""Any network comes back from its file: bits, types, computed buffers, aligned tensors; and a load draws nothing."""

from __future__ import annotations

import pytest
import torch
from safetensors import safe_open
from torch import nn

from relearn.models.files import ModelFile


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
