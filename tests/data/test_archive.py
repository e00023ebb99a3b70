"""Archives made to harm: refused, and nothing is written outside or left behind."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from relearn.data import archive
from relearn.data.archive import Limits, extract, read_members

Member = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"content") -> Member:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def special(name: str, kind: bytes, link: str = "") -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member, b""


def folder(name: str) -> Member:
    return special(name, tarfile.DIRTYPE)


def pack(path: Path, *members: Member, mode: str = "w:gz", form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, mode, format=form) as tar:  # type: ignore[call-overload]
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return path


GOOD = (folder("set"), file("set/a.bin", b"aaa"), file("./set/deep/er/b.bin", b"b" * 5000), file("c", b""))


def everything(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_good_archive_is_unpacked_whole(tmp_path: Path, mode: str) -> None:
    packed = pack(tmp_path / "good.tar", *GOOD, mode=mode)
    out = extract(packed, tmp_path / "out")
    assert everything(out) == {"set", "set/a.bin", "set/deep", "set/deep/er", "set/deep/er/b.bin", "c"}
    assert (out / "set/a.bin").read_bytes() == b"aaa" and (out / "c").read_bytes() == b""
    assert everything(tmp_path) - {f"out/{name}" for name in everything(out)} == {"good.tar", "out"}
    assert read_members(packed, ["c", "set/deep/er/b.bin"]) == {"c": b"", "set/deep/er/b.bin": b"b" * 5000}


def test_the_root_itself_may_be_a_member(tmp_path: Path) -> None:
    packed = pack(tmp_path / "dot.tar", folder("./"), file("./a"))
    assert everything(extract(packed, tmp_path / "out")) == {"a"}


def test_no_mode_bits_or_owners_are_taken_over(tmp_path: Path) -> None:
    member, content = file("tool")
    member.mode, member.uid = 0o4777, 1234
    out = extract(pack(tmp_path / "x.tar", (member, content)), tmp_path / "out")
    assert (out / "tool").stat().st_mode & 0o7111 == 0
    assert (out / "tool").stat().st_uid == tmp_path.stat().st_uid


HARMFUL: dict[str, tuple[tuple[Member, ...], str]] = {
    "climbs": ((file("../out.txt"),), "climbs out with '..'"),
    "climbs in the middle": ((file("a/../../out.txt"),), "climbs out"),
    "absolute": ((file("/tmp/out.txt"),), "is absolute"),
    "drive": ((file("C:/out.txt"),), "is absolute"),
    "backslash": ((file("..\\out.txt"),), "backslash or a control character"),
    "control": ((file("a\nb"),), "backslash or a control character"),
    "escape sequence": ((file("\x1b[2Jx"),), "control character"),
    "symbolic link": ((special("a", tarfile.SYMTYPE, "/etc/passwd"),), "'a' is a symbolic link"),
    "link inside": ((file("b"), special("a", tarfile.SYMTYPE, "b")), "'a' is a symbolic link"),
    "through a link": ((special("d", tarfile.SYMTYPE, ".."), file("d/out.txt")), "'d' is a symbolic link"),
    "hard link": ((file("b"), special("a", tarfile.LNKTYPE, "b")), "'a' is a hard link"),
    "character device": ((special("a", tarfile.CHRTYPE),), "'a' is a device"),
    "block device": ((special("a", tarfile.BLKTYPE),), "'a' is a device"),
    "pipe": ((special("a", tarfile.FIFOTYPE),), "'a' is a pipe"),
    "sparse": ((special("a", tarfile.GNUTYPE_SPARSE),), "'a' is a sparse file|no whole tar"),
    "unknown type": ((special("a", b"Z"),), "'a' is of type b'Z'"),
    "case": ((file("set/Readme"), file("set/README")), "differ in case or accents only"),
    "case of a folder": ((file("Set/a"), file("set/b")), "'set' and 'Set' differ"),
    "accents": ((file("\u00e9"), file("e\u0301")), "differ in case or accents only"),
    "twice": ((file("a"), file("./a")), "'a' is there twice"),
    "file then folder": ((file("a"), file("a/b")), "'a' is there twice"),
    "folder then file": ((file("a/b"), file("a")), "'a' is there twice"),
    "long part": ((file("n" * 256),), "part longer than 255 bytes"),
    "long path": ((file("/".join(["n" * 100] * 11)),), "longer than 1024 bytes"),
}


@pytest.mark.parametrize("name", HARMFUL)
@pytest.mark.parametrize("before", [(), (file("innocent"), folder("innocents"))], ids=["alone", "hidden"])
def test_harm_is_refused_and_leaves_nothing(tmp_path: Path, name: str, before: tuple[Member, ...]) -> None:
    members, message = HARMFUL[name]
    inner = tmp_path / "inner"
    inner.mkdir()
    packed = pack(inner / "bad.tar.gz", *before, *members)
    with pytest.raises(ValueError, match=message) as caught:
        extract(packed, inner / "out")
    assert "bad.tar.gz" in str(caught.value) and "\n" not in str(caught.value)
    assert everything(tmp_path) == {"inner", "inner/bad.tar.gz"}
    with pytest.raises(ValueError, match=message):
        read_members(packed, ["absent"])


def refused(tmp_path: Path, packed: Path, message: str, limits: Limits | None = None) -> None:
    with pytest.raises(ValueError, match=message):
        extract(packed, tmp_path / "out", limits)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_too_many_members(tmp_path: Path) -> None:
    packed = pack(tmp_path / "many.tar", *(file(f"f{number}", b"") for number in range(11)))
    refused(tmp_path, packed, "more than the allowed 10 members", Limits(members=10))
    assert len(everything(extract(packed, tmp_path / "out", Limits(members=11)))) == 11


def test_too_many_bytes(tmp_path: Path) -> None:
    packed = pack(tmp_path / "large.tar", file("a", bytes(600)), file("b", bytes(600)))
    refused(tmp_path, packed, "more than the allowed 1000 bytes", Limits(unpacked_bytes=1000))
    assert extract(packed, tmp_path / "out", Limits(unpacked_bytes=1200)).is_dir()


@pytest.fixture
def low_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FLOOR", 100_000)


@pytest.mark.usefixtures("low_floor")
def test_a_bomb_is_stopped_by_its_ratio(tmp_path: Path) -> None:
    packed = pack(tmp_path / "bomb.tar.gz", file("a", bytes(5_000_000)))
    assert packed.stat().st_size < 10_000
    refused(tmp_path, packed, "unpacks to more than the allowed")
    assert extract(packed, tmp_path / "out", Limits(ratio=2000)).is_dir()


@pytest.mark.usefixtures("low_floor")
def test_a_bomb_inside_a_header_is_stopped_while_it_unpacks(tmp_path: Path) -> None:
    member, content = file("a")
    member.pax_headers = {"comment": "x" * 5_000_000}
    packed = pack(tmp_path / "header.tar.gz", (member, content))
    assert packed.stat().st_size < 10_000
    refused(tmp_path, packed, "unpacks to more than the allowed")


def damage_second_header(content: bytes) -> bytes:
    """One bit of the second member's name, which its header's checksum covers."""
    at = content.index(b"b\0\0\0", 600)
    return content[:at] + b"c" + content[at + 1 :]


def spoil(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    def spoilt(tmp_path: Path) -> Path:
        packed = pack(tmp_path / "torn.tar.gz", file("a", bytes(range(256)) * 400), file("b"))
        packed.write_bytes(change(packed.read_bytes()))
        return packed

    return spoilt


@pytest.mark.parametrize(
    "make",
    [
        spoil(lambda content: content[: len(content) // 2]),
        spoil(lambda content: content[:-4] + b"\0\0\0\0"),
        spoil(lambda content: gzip.compress(gzip.decompress(content)[:20_000])),
        spoil(lambda content: gzip.compress(damage_second_header(gzip.decompress(content)))),
        spoil(lambda content: b"<html>not found</html>"),
        spoil(lambda content: b""),
        spoil(lambda content: b"\x1f\x8b" + content[5:]),
    ],
    ids=["half", "wrong sum", "cut inside", "damaged header", "page", "empty", "garbage"],
)
def test_a_broken_archive_is_one_line(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    packed = make(tmp_path)
    with pytest.raises(ValueError, match=r"torn.tar.gz: no whole tar archive") as caught:
        extract(packed, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert everything(tmp_path) == {"torn.tar.gz"}


def test_what_exists_is_not_touched(tmp_path: Path) -> None:
    packed = pack(tmp_path / "good.tar", *GOOD)
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="exists already"):
        extract(packed, tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="exists already"):
        extract(packed, tmp_path / "link")
    assert everything(tmp_path / "out") == set()


def test_missing_members_are_named(tmp_path: Path) -> None:
    packed = pack(tmp_path / "good.tar", *GOOD)
    with pytest.raises(ValueError, match=r"good.tar: lacks x, y"):
        read_members(packed, ["c", "x", "y"])


def test_what_stands_behind_the_wanted_members_is_not_read(tmp_path: Path) -> None:
    packed = pack(tmp_path / "x.tar", file("a"), special("b", tarfile.SYMTYPE, "/"))
    assert read_members(packed, ["a"]) == {"a": b"content"}
