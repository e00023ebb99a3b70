"""Archives are read into memory: the named files, nothing else, nothing on disk, at most the limit."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from relearn.data.archive import read_matching, read_members, zip_member

Member = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"content") -> Member:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def special(name: str, kind: bytes, link: str = "") -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member, b""


def pack(path: Path, *members: Member, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_files_are_read_by_name_and_by_pattern(tmp_path: Path, mode: str) -> None:
    folder = special("set", tarfile.DIRTYPE)
    packed = pack(
        tmp_path / "a.tar", folder, file("set/a", b"aaa"), file("./set/b", b"b"), file("c"), mode=mode
    )
    assert read_members(packed, ["set/b", "set/a"]) == {"set/a": b"aaa", "set/b": b"b"}
    assert read_matching(packed, lambda name: name.startswith("set")) == {"set/a": b"aaa", "set/b": b"b"}
    with pytest.raises(ValueError, match=r"a\.tar: lacks x, y"):
        read_members(packed, ["c", "x", "y"])


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_not_followed(tmp_path: Path, kind: bytes) -> None:
    packed = pack(tmp_path / "a.tar", file("other"), special("wanted", kind, "other"))
    with pytest.raises(ValueError, match="lacks wanted"):
        read_members(packed, ["wanted"])


@pytest.mark.parametrize("name", ["../out", "/tmp/relearn-out", "a/../../out"])
def test_nothing_is_written(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    packed = pack(inner / "a.tar", file(name), file("good"))
    assert set(read_matching(packed, lambda _: True)) == {name, "good"}
    assert sorted(tmp_path.rglob("*")) == [inner, packed] and not Path("/tmp/relearn-out").exists()


def test_the_limit_counts_the_files_that_are_read(tmp_path: Path) -> None:
    packed = pack(
        tmp_path / "bomb.tar.gz", file("a", bytes(600)), file("b", bytes(600)), file("c", bytes(10**6))
    )
    assert packed.stat().st_size < 2000
    assert len(read_members(packed, ["a", "b"], limit=1200)) == 2
    with pytest.raises(ValueError, match=r"bomb\.tar\.gz: unpacks to more than the allowed 1199 bytes"):
        read_members(packed, ["a", "b"], limit=1199)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[: len(content) // 2],
        lambda content: gzip.compress(gzip.decompress(content)[:20_000]),
        lambda content: b"<html>not found</html>",
        lambda content: b"",
        lambda content: b"\x1f\x8b\xff" + content[5:],  # 255 names no compression method, whatever the date
        lambda content: content[:-8] + bytes(4) + content[-4:],
        lambda content: content[:-6],
    ],
    ids=["half", "cut inside", "page", "empty", "garbage", "another checksum", "no end"],
)
def test_a_broken_tar_archive_is_one_line(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    packed = pack(tmp_path / "torn.tar.gz", file("a", bytes(range(256)) * 400), file("b"))
    packed.write_bytes(change(packed.read_bytes()))
    with pytest.raises(ValueError, match=r"torn\.tar\.gz: not a complete tar archive") as caught:
        read_members(packed, ["a", "b"])
    assert "\n" not in str(caught.value)


def test_a_zip_gives_one_file_within_the_limit(tmp_path: Path) -> None:
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("set/a", bytes(1000))
    assert zip_member(packed, "set/a", limit=1000) == bytes(1000)
    assert zip_member(packed, "set/b") is None
    with pytest.raises(ValueError, match=r"a\.zip: set/a unpacks to more than the allowed 999 bytes"):
        zip_member(packed, "set/a", limit=999)
    packed.write_bytes(packed.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"a\.zip: not a complete zip archive") as caught:
        zip_member(packed, "set/a")
    assert "\n" not in str(caught.value)
