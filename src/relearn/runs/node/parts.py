"""Many files as one compressed stream, split into numbered parts of bounded size: ``<stem>.0.part``, ``<stem>.1.part`` …

All parts together are a gzipped tar: ``cat <stem>.?.part | tar -xz`` opens them as well. Only members whose name ends in
``.~px`` need :mod:`relearn.runs.node.pixels`: their images are stored as residuals, and images that an earlier member has,
too, as zeros and a reference to it in the member's header.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import re
import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType, TracebackType

from relearn.runs.atomic_files import sweep, write

MIB = 2**20
SUFFIX = ".part"
PIXELS = ".~px"
SAME = "RELEARN.same"
"""Header of a member: a JSON list of [offset, length, name of the earlier file, offset there]."""
MEMBER = 2048  # bytes that tar adds per member: header, long name, padding
END = 32768  # end of tar and gzip, and the overhead of zlib on incompressible bytes
PART = re.compile(r"(.+)\.(\d+)\.part")


class Cut(io.RawIOBase):
    """Splits a stream into files of at most ``limit`` bytes, which get their names by :meth:`finish`."""

    def __init__(self, folder: Path, stem: str, limit: int) -> None:
        self.folder, self.stem, self.limit = folder, stem, limit
        self.paths: list[Path] = []
        self.written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        data = memoryview(data)
        taken = len(data)
        while data:
            room = self.limit - self.written % self.limit
            if room == self.limit:
                self.paths.append(self.folder / f"{self.stem}.{len(self.paths)}.part")
            with self._temporary(self.paths[-1]).open("ab") as file:
                file.write(data[:room])
            self.written += len(data[:room])
            data = data[room:]
        return taken

    def finish(self) -> None:
        """Replace the parts of this stem in the folder; a kill leaves too few, which :func:`read` sees."""
        for old in self.folder.glob(f"{self.stem}.*.part"):
            old.unlink()
        for path in self.paths:
            self._temporary(path).rename(path)

    def sweep(self) -> None:
        """Remove what an interrupted writer left."""
        sweep(self.folder, f"{self.stem}.*.part")

    @staticmethod
    def _temporary(path: Path) -> Path:
        return path.with_name(f".{path.name}.{os.getpid()}.tmp")


class Writer:
    """Writes files into parts; a context manager.

    Args:
        folder: where the parts are written; it is created if necessary. Parts of the same stem in it are replaced at the end; after an
            error they stay as they were.
        stem: of their names.
        limit: bytes of a part.
        most: number of parts; :meth:`add` then refuses files that do not fit.
    """

    def __init__(self, folder: Path, stem: str, limit: int, most: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cut = Cut(folder, stem, limit)
        self.cut.sweep()
        self.total = None if most is None else most * limit - END
        self._buffer = io.BufferedWriter(self.cut, MIB)  # type: ignore[type-var]
        self._zipped = gzip.GzipFile("", "wb", 6, self._buffer, mtime=0)
        self._tar = tarfile.open(fileobj=self._zipped, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._reserved = 0
        self._bound = 0  # upper bound of the bytes needed by all files so far
        self._images: dict[bytes, tuple[str, int]] = {}  # by digest: the file and the offset

    @property
    def paths(self) -> list[Path]:
        return self.cut.paths

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._tar.close()
            self._zipped.close()
            self._buffer.flush()
            if error is None:
                self.cut.finish()
        finally:
            self.cut.sweep()

    def reserve(self, contents: Iterable[bytes]) -> None:
        """From now on leave room for files of these contents; none: use it."""
        self._reserved = sum(map(_needed, contents))

    def add_images(self, name: str, content: bytes) -> bool:
        """Append a safetensors file with its images as residuals, each image tensor only the first time that one comes."""
        from relearn.runs.node.pixels import image_tensors, shrunk

        whole, same, new = bytearray(content), [], {}
        for start, shape in image_tensors(content):
            size = math.prod(shape)
            digest = hashlib.sha256(content[start : start + size]).digest()
            if digest in self._images:
                same.append([start, size, *self._images[digest]])
                whole[start : start + size] = bytes(size)
            else:
                new[digest] = (name, start)
        added = self.add(name + PIXELS, shrunk(bytes(whole)), {SAME: json.dumps(same)} if same else {})
        if added:
            self._images |= new
        return added

    def add(self, name: str, content: bytes, headers: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Append a file if there is room for it; return whether there was."""
        needed = _needed(content) + self._reserved
        if self.total is not None and self._bound + needed > self.total:
            self._zipped.flush()  # the compressed size may leave more room than the bound
            self._buffer.flush()
            self._bound = self.cut.written
            if self._bound + needed > self.total:
                return False
        member = tarfile.TarInfo(name)
        member.size, member.pax_headers = len(content), dict(headers)
        self._tar.addfile(member, io.BytesIO(content))
        self._bound += _needed(content)
        return True


def _needed(content: bytes) -> int:
    """Upper bound of the bytes that a file takes in the parts."""
    return len(content) + len(content) // 1000 + MEMBER


def read(paths: Iterable[Path], folder: Path) -> list[Path]:
    """Unpack parts (in any order) below ``folder`` and return the files, each written in one rename.

    Raises:
        ValueError: a part is missing, damaged or of another set, or a member would leave the folder; one line.
    """
    ordered = in_order(paths)
    found = []
    stream = io.BufferedReader(_Joined(ordered))
    try:
        with tarfile.open(fileobj=stream, mode="r|gz") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file is None or not _inside(member.name):
                    raise ValueError(
                        f"{ordered[0]}: holds {member.name}, allowed: plain files below its folder"
                    )
                content, name = file.read(), member.name
                if len(content) != member.size:
                    raise EOFError
                if name.endswith(PIXELS):
                    from relearn.runs.node.pixels import restore

                    content, name = restore(content), name.removesuffix(PIXELS)
                    content = _with_earlier(content, member.pax_headers.get(SAME, "[]"), folder)
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path, content)
                found.append(path)
        while stream.read(MIB):  # read on to the end of the stream, which has the checksum
            pass
    except (EOFError, tarfile.TarError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{ordered[-1]}: torn, or a part behind it is missing ({len(ordered)} parts given; {error})"
        ) from None
    return found


def _with_earlier(content: bytes, same: str, folder: Path) -> bytes:
    """The content with the images that it shares with files below ``folder``."""
    whole = bytearray(content)
    for start, size, name, there in json.loads(same):
        if not _inside(name):
            raise ValueError(f"{name}: found as the place of images, allowed: below the folder")
        with (folder / name).open("rb") as file:
            file.seek(there)
            images = file.read(size)
        if len(images) != size:
            raise EOFError
        whole[start : start + size] = images
    return bytes(whole)


def in_order(paths: Iterable[Path]) -> Sequence[Path]:
    """Parts in the order of their numbers.

    Raises:
        ValueError: not the parts 0, 1, … of one stem, each once; one line.
    """
    numbered: dict[int, Path] = {}
    stems = set()
    for path in paths:
        match = PART.fullmatch(path.name)
        if match is None:
            raise ValueError(f"{path}: found another name, allowed: <stem>.<number>.part")
        stems.add(match[1])
        if (other := numbered.setdefault(int(match[2]), path)) is not path:
            raise ValueError(
                f"{path}: found a second part {match[2]} beside {other}, allowed: one of each number"
            )
    if len(stems) != 1:
        raise ValueError(
            f"parts: found those of {', '.join(sorted(stems)) or 'nothing'}, allowed: of one stem"
        )
    missing = next((number for number in range(len(numbered)) if number not in numbered), None)
    if missing is not None:
        raise ValueError(f"{stems.pop()}.{missing}.part: missing, {len(numbered)} other parts are here")
    return [numbered[number] for number in sorted(numbered)]


class _Joined(io.RawIOBase):
    """The concatenated bytes of several files."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._left = list(paths)
        self._file: io.FileIO | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while True:
            if self._file is None:
                if not self._left:
                    return 0
                self._file = io.FileIO(self._left.pop(0))
            count = self._file.readinto(buffer)
            if count:
                return count
            self._file.close()
            self._file = None


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)
