"""MPS is started for what runs inside, and ended behind it; the server itself needs a device."""

import os
from pathlib import Path

import pytest

from relearn.runs.node import mps


def pretend(folder: Path, status: int) -> Path:
    """A control program that notes its arguments, its folder and its input; returns the note's path."""
    program, note = folder / mps.CONTROL, folder / "calls"
    program.write_text(
        f'#!/bin/sh\necho "$@" "$CUDA_MPS_PIPE_DIRECTORY" >> {note}\n'
        f'[ "$1" = -d ] || cat >> {note}\nexit {status}\n'
    )
    program.chmod(0o755)
    return note


def test_it_is_started_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = pretend(tmp_path, 0)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_MPS_LOG_DIRECTORY", "before")
    with pytest.raises(RuntimeError, match="inside"), mps.served():
        folder = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
        assert Path(folder).is_dir() and note.read_text() == f"-d {folder}\n"
        raise RuntimeError("inside")
    assert note.read_text().splitlines()[1:] == [folder, "quit -t 1"] and not Path(folder).exists()
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ and os.environ["CUDA_MPS_LOG_DIRECTORY"] == "before"


def test_without_it_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps, "DRIVER", str(tmp_path))
    monkeypatch.setenv("PATH", "/bin")
    with pytest.raises(OSError, match="nvidia-cuda-mps-control: not found"), mps.served():
        pytest.fail("entered")
    pretend(tmp_path, 3)
    with pytest.raises(OSError, match="did not start \\(status 3\\)"), mps.served():
        pytest.fail("entered")
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
