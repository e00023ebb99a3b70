"""RELEARN_MIRROR names a folder with one folder per data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from relearn.data.mirror import mirror_of


def test_a_mirror_must_be_a_folder_and_may_lack_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"RELEARN_MIRROR: .*none is not a folder"):
        mirror_of("cifar10")
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path))
    assert mirror_of("cifar10") is None
    (tmp_path / "cifar10").mkdir()
    assert mirror_of("cifar10") == tmp_path / "cifar10"
    monkeypatch.setenv("RELEARN_MIRROR", "")
    assert mirror_of("cifar10") is None
