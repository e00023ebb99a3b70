"""Where downloads lie, and what serves where that cannot be written.

RELEARN_MIRROR names a folder with one folder per data set.
"""

from pathlib import Path

import pytest

from relearn.data import cache
from relearn.data.mirror import mirror_of


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(cache.sys, "platform", "linux")


def test_the_variable_decides_then_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RELEARN_CACHE", "~/mine")
    assert cache.cache_folder() == Path.home() / "mine"
    monkeypatch.setenv("RELEARN_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "relearn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path.home() / ".cache" / "relearn"
    monkeypatch.setattr(cache.sys, "platform", "darwin")
    assert cache.cache_folder() == Path.home() / "Library" / "Caches" / "relearn"


def test_a_folder_is_made_where_that_is_possible(tmp_path: Path) -> None:
    assert cache.writable_folder(tmp_path / "a" / "b") == (tmp_path / "a" / "b", "")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_private_folder_that_somebody_else_could_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder, remark = cache.writable_folder(tmp_path / "file" / "cache")
    assert folder == cache.private_folder() and "\n" not in remark and str(tmp_path / "file") in remark
    folder.chmod(0o777)
    with pytest.raises(OSError, match="not a private folder of this user; set RELEARN_CACHE"):
        cache.writable_folder(tmp_path / "file" / "cache")


def test_a_link_in_the_place_of_the_private_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "lure").mkdir(mode=0o700)
    cache.private_folder().symlink_to(tmp_path / "lure")
    with pytest.raises(OSError, match="not a private folder of this user"):
        cache.writable_folder(tmp_path / "file" / "cache")


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
