"""relearn bound: weights that cannot be loaded, numbers that are none, and options and names that do not apply are one line each."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from relearn import cli

SMALL = ("bound", "resnet18", "--classes", "3", "--image-size", "32")


class Hostile:
    """A pickle of it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The status and the one line of a call that prints nothing else."""
    status = cli.main([*words])
    out, error = capsys.readouterr()
    assert not out and error.count("\n") == 1, (out, error)
    return status, error


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    from relearn.models import vision

    return vision.create("resnet18", classes=3).trunk.state_dict()


def test_unusable_weights_are_named_in_one_line(
    state: dict[str, torch.Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(state, tmp_path / "whole.pth")
    whole = (tmp_path / "whole.pth").read_bytes()
    (tmp_path / "torn.pth").write_bytes(whole[: len(whole) // 2])
    torch.save({"conv1.weight": state["conv1.weight"]}, tmp_path / "another.pth")
    (tmp_path / "empty.pth").touch()
    (tmp_path / "random.pth").write_bytes(bytes(range(255, 0, -1)))
    (tmp_path / "text.pth").write_text("epoch,loss\n1,0.5\n")
    (tmp_path / "hostile.pth").write_bytes(pickle.dumps(Hostile(tmp_path / "touched")))
    (tmp_path / "damaged.safetensors").write_bytes(b"\xff" * 100)
    torch.save([1, 2], tmp_path / "list.pth")
    for file in sorted(tmp_path.iterdir()):
        if file.name != "whole.pth":
            status, error = refused(capsys, *SMALL, "--weights", str(file))
            assert status == 2 and f"{file}: not weights of resnet18 for 3 classes: " in error, error
            if file.name in ("empty.pth", "text.pth", "list.pth"):
                assert "Error " in error and "allowed: a dict of tensors" in error, error
    assert not (tmp_path / "touched").exists()
    status, error = refused(capsys, *SMALL, "--weights", str(tmp_path / "none.pth"))
    assert status == 3 and f"--weights {tmp_path / 'none.pth'}: no such file" in error
    status, error = refused(capsys, *SMALL, "--weights", str(tmp_path / "weights.npz"))
    assert status == 3


def test_the_bound_is_that_of_the_given_weights(
    state: dict[str, torch.Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = {name: one.contiguous() for name, one in state.items()}
    torch.save({"state_dict": state}, tmp_path / "same.pth")
    save_file({**state, "fc.weight": 2 * state["fc.weight"]}, tmp_path / "double.safetensors")
    lines = []
    for name in ("same.pth", "double.safetensors"):
        assert cli.main([*SMALL, "--weights", str(tmp_path / name)]) == 0
        lines.append(capsys.readouterr().out.splitlines()[0])
    same, double = (float(line.split()[3]) for line in lines)
    assert double == pytest.approx(2 * same, rel=1e-3)


def test_the_network_is_built_for_the_given_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bound", "lrformer_depth6", "--image-size", "32", "--classes", "2"]) == 0
    assert "images of 32 x 32" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("resnet18", "--image-size", "0"), "--image-size: found 0, allowed: 1 or more"),
        (("resnet18", "--image-size", "-1"), "--image-size: found -1, allowed: 1 or more"),
        (("resnet18", "--classes", "0"), "--classes: found 0, allowed: 1 or more"),
        (("resnet18", "--classes", "-1"), "--classes: found -1, allowed: 1 or more"),
        (("resnet18", "--steps", "3"), "--steps: found with resnet18, allowed only with K11, "),
        (("T1", "--starts", "0"), "--starts: found 0, allowed: 1 or more"),
        (("K11", "--steps", "-1"), "--steps: found -1, allowed: 0 or more"),
        (("T1", "--width", "0"), "--width: found 0, allowed: 1 or more"),
        (("K11", "--heads", "3", "--width", "4"), "heads: 3 of width 4 (allowed: a divisor of the width)"),
        (("T1", "--heads", "3"), "heads: 3 of width 2 (allowed: a divisor of the width)"),
        (("T1", "--weights", "/nonexist"), "--weights: found with T1, allowed only with a network"),
        (("T2", "--norm", "two"), "--norm: found with T2, allowed only with a network"),
        (("K11", "--json"), "--json: found with K11, allowed only with a network"),
        (("K11-causal", "--classes", "1000"), "--classes: found with K11-causal, allowed only with"),
        (("t1",), "found t1, allowed: a name of timm's registry, K11, K11-causal, T1, T2; nearest: T1"),
        (("resnet1000",), "nearest: resnet"),
        (("hf-hub:foo/bar",), "found hf-hub:foo/bar, allowed: a name of timm's registry, K11, "),
        (("hf_hub:foo/bar",), "found hf_hub:foo/bar, allowed: "),
        (("local-dir:/tmp",), "found local-dir:/tmp, allowed: "),
        (("foo/bar",), "found foo/bar, allowed: "),
    ],
)
def test_what_does_not_apply_is_refused_in_one_line(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, error = refused(capsys, "bound", *words)
    assert status == 2 and says in error, error


def test_the_bound_of_pixels_is_that_of_standardised_images_over_the_smallest_std(
    state: dict[str, torch.Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(state, tmp_path / "one.pth")
    for more in ([], ["--weights", str(tmp_path / "one.pth")]):
        assert cli.main([*SMALL, *more]) == 0
        first, second, *_ = capsys.readouterr().out.splitlines()
        assert "two-norm, standardised images of 32 x 32" in first and second.startswith("pixels in [0, 1]")
        inner, outer = float(first.split()[3]), float(second.split()[-1])
        assert outer == pytest.approx(inner / 0.224, rel=1e-3)  # of timm's std for resnet18, the smallest
    assert cli.main([*SMALL, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["input"] == "standardised" and found["pixels_factor"] == pytest.approx(1 / 0.224)
