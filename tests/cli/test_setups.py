"""`relearn setups`: options without effect and files that are no data set are refused in one line that names them."""

import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from relearn import cli
from relearn.data.arrays import TENSORS
from relearn.data.prepared_file import HEADER

NAME = "digits-mini-v1"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that are no data set, each in another way."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("text").write_text("no tensors at all")
    Path("empty").write_bytes(b"")
    Path("torn").write_bytes(struct.pack("<Q", 10) + b"{")
    save_file({"x": torch.zeros(1)}, "foreign")
    few = {name: torch.zeros(1) for name in TENSORS}
    for name, header in (
        ("header", "{"),
        ("lacks", "{}"),
        ("list", "[]"),
        ("other", '{"data set": 5, "classes": 5}'),
    ):
        save_file(few, name, metadata={HEADER: header})
    save_file(few, "odd", metadata={HEADER: '{"data set": "digits", "classes": ["a"]}'})
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--check", "text"], 2, "--check text: found no set-up to check it against, allowed: "),
        (["--trials"], 2, "--trials: found no set-up, allowed: with one of the public benchmark, "),
        ([NAME, "--trials"], 2, f"--trials: found {NAME}, allowed: with one of the public benchmark, "),
        ([NAME, "--trials", "--check", "text"], 2, f"--trials: found {NAME}, allowed: "),
        ([NAME, "--check", "text"], 3, "text: not a safetensors file "),
        ([NAME, "--check", "empty"], 3, "empty: not a safetensors file "),
        ([NAME, "--check", "torn"], 3, "torn: not a safetensors file "),
        ([NAME, "--check", "folder"], 3, "--check folder: no file; allowed: a data.safetensors"),
        ([NAME, "--check", "nowhere"], 3, "--check nowhere: no file; allowed: a data.safetensors"),
        ([NAME, "--check", "foreign"], 2, "foreign: not a prepared data set, "),
        ([NAME, "--check", "header"], 3, "header: not a safetensors file "),
        ([NAME, "--check", "lacks"], 2, "lacks: not a prepared data set, "),
        ([NAME, "--check", "list"], 2, "list: not a prepared data set, "),
        ([NAME, "--check", "other"], 3, "--check other: "),
        ([NAME, "--check", "odd"], 3, "--check odd: "),
    ],
)
def test_wrong_use_is_one_line(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["setups", *words]) == code
    out, said = capsys.readouterr()
    assert out == "" and said.startswith(f"relearn setups: {says}") and said.count("\n") == 1, said
