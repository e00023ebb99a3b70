"""Poisons of a user's own: a file that cannot be read is named in one line, and the help names set-ups that exist."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from relearn import cli
from relearn.cli import evaluate_filter, evaluate_poisons
from relearn.cli.poison_files import read
from relearn.data import public_benchmark, setups

Refused = Callable[..., str]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Refused:
    """Calls the verb on a file; checks its status and that it prints one line; gives the line."""
    monkeypatch.setattr(evaluate_filter, "load_results", lambda args: ({}, tmp_path))

    def call(path: Path, status: int, *words: str) -> str:
        assert cli.main(["evaluate-poisons", str(path), *(words or ("--eps", "0.1"))]) == status
        out, error = capsys.readouterr()
        assert not out and error.count("\n") == 1, error
        return error

    return call


def test_a_damaged_file_is_named(refused: Refused, tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 64, dtype=np.uint8).reshape(2, 3, 1, 8, 8)
    np.savez_compressed(tmp_path / "whole.npz", poisons=images)
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "torn.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.npz").write_bytes(whole[:100] + bytes([whole[100] ^ 255]) + whole[101:])
    (tmp_path / "empty.npz").touch()
    (tmp_path / "text.npz").write_text("poisons\n1 2 3\n")
    np.savez(tmp_path / "objects.npz", poisons=np.array([{}, None], dtype=object))
    (tmp_path / "empty.safetensors").touch()
    (tmp_path / "damaged.safetensors").write_bytes(b"\xff" * 100)
    for file in sorted(tmp_path.iterdir()):
        if file.name != "whole.npz":
            assert f"{file}: cannot be read as poisons (" in refused(file, 3)
    assert "none.npz: no such file or folder" in refused(tmp_path / "none.npz", 3)
    assert "none: no such file or folder" in refused(tmp_path / "none", 3)
    np.savez(tmp_path / "other.npz", images=images)
    assert "other.npz: found no array poisons, allowed: uint8" in refused(tmp_path / "other.npz", 2)


def test_a_picture_that_cannot_be_read_is_named(refused: Refused, tmp_path: Path) -> None:
    for target in ("0", "1"):
        (tmp_path / target).mkdir()
        pixels = np.random.default_rng(0).integers(0, 256, (16, 16), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / target / "a.png")
    file = tmp_path / "1/a.png"
    whole = file.read_bytes()
    for content in (b"", b"no picture", whole[:100], whole[:45] + b"\xff" + whole[46:]):
        file.write_bytes(content)
        assert f"{file}: cannot be read as poisons (" in refused(tmp_path, 3)
    Image.fromarray(pixels).convert("P").save(file)
    file.rename(tmp_path / "1/a.PNG")
    assert "a.PNG: cannot be read as poisons (ValueError: found the mode P" in refused(tmp_path, 3)
    np.savez(tmp_path / "none.npz", poisons=np.zeros((0, 1, 1, 8, 8), dtype=np.uint8))
    assert "none.npz: found uint8 (0, 1, 1, 8, 8), allowed: " in refused(tmp_path / "none.npz", 2)


def test_a_folder_without_pictures_is_said(refused: Refused, tmp_path: Path) -> None:
    assert f"{tmp_path}: found no PNG files in its 0 subfolders, allowed: " in refused(tmp_path, 2)
    (tmp_path / "0").mkdir()
    assert f"{tmp_path}: found no PNG files in its 1 subfolders, allowed: " in refused(tmp_path, 2)


@pytest.mark.parametrize("digits", [1, 2])
def test_numbered_pictures_are_taken_in_the_order_of_their_numbers(tmp_path: Path, digits: int) -> None:
    for target in range(12):
        (tmp_path / f"{target:0{digits}}").mkdir()
        for k in range(11):
            picture = Image.new("L", (8, 8), 11 * target + k)
            picture.save(tmp_path / f"{target:0{digits}}" / f"p{k:0{digits}}.{'PNG' if k % 2 else 'png'}")
    found = read(tmp_path)
    assert found.shape == (12, 11, 1, 8, 8)
    assert found[..., 0, 0, 0].ravel().tolist() == list(range(132))


@pytest.mark.parametrize("eps", ["0.21", "nan", "-0.1"])
def test_a_set_up_allows_no_larger_ball(eps: str, refused: Refused, tmp_path: Path) -> None:
    error = refused(tmp_path / "none.npz", 2, "--setup", "digits-mini-v1", "--eps", eps)
    assert f"--eps: found {eps}, allowed with digits-mini-v1: 0 to 0.2, the set-up's" in error
    for allowed in ("0.2", "0.1"):
        words = ("--setup", "digits-mini-v1", "--eps", allowed)
        assert "no such file" in refused(tmp_path / "none.npz", 3, *words)


def test_options_of_the_public_set_ups_are_refused_with_others(refused: Refused, tmp_path: Path) -> None:
    for words in (["--trials", "a.pickle"], ["--controls"], ["--seed", "0"]):
        error = refused(tmp_path, 2, "--setup", "digits-mini-v1", *words)
        assert re.search(
            f"{words[0]}: found .*, allowed only with --setup schwarzschild-transfer-v1 or", error
        )


@pytest.mark.parametrize("verb", [evaluate_filter, evaluate_poisons])
def test_the_help_names_set_ups_that_exist(verb: ModuleType) -> None:
    named = set(re.findall(r"--setup (\S+)", str(verb.__doc__)))
    assert named <= {*setups.load(), *public_benchmark.SETUPS}
