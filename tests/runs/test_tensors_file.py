"""A complete safetensors file is distinguished from every truncated, extended or foreign one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from relearn.runs.tensors_file import fault_of


def whole() -> bytes:
    return save({"a": np.arange(5), "b": np.zeros((2, 3), np.uint8)}, {"relearn": "x"})


def test_what_the_library_writes_is_whole(tmp_path: Path) -> None:
    for number, content in enumerate((whole(), save({}), save({"empty": np.zeros((0, 3))}))):
        file = tmp_path / f"{number}.safetensors"
        file.write_bytes(content)
        assert fault_of(file) is None


def test_every_cut_is_seen(tmp_path: Path) -> None:
    content, file = whole(), tmp_path / "cut"
    for length in range(len(content)):
        file.write_bytes(content[:length])
        assert fault_of(file), length
    file.write_bytes(content + b"\0")
    assert fault_of(file) == f"{len(content) + 1} bytes, its header says {len(content)}"


@pytest.mark.parametrize(
    "content", [b"<html></html>", b"\x80\x04pickle", bytes(8), b"\x02" + bytes(7) + b"[]"]
)
def test_what_is_none_is_seen(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "foreign"
    file.write_bytes(content)
    assert fault_of(file)
