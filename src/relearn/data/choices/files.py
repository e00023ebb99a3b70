"""Files of a set, from a folder, the official archive in it, or a download; nothing is unpacked to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from relearn.data.archive import zip_member
from relearn.data.remote import Remote, fault_of


def contents(
    folder: Path | None, names: Mapping[str, str], archive: Remote, root: str, places: Sequence[str] = ("",)
) -> tuple[dict[str, bytes], str]:
    """The content of each file, and a description of the source.

    Args:
        folder: a folder with the files, under one of ``places``, or with the archive; None downloads the archive.
        names: the files by part.
        archive: the official zip.
        root: the folder of the files in the archive.
        places: subfolders of ``folder`` that may hold the files.

    Raises:
        ValueError: the folder holds neither, some files are missing, or the archive is broken or not the official one.
        OSError: files cannot be read or fetched.
    """
    if folder is not None:
        for place in places:
            base = folder / place
            if any((base / name).is_file() for name in names.values()):
                return {part: _read(base / name) for part, name in names.items()}, "a folder with files"
        if not (folder / archive.name).is_file():
            first = next(iter(names.values()))
            raise ValueError(f"{folder}: has no {first} and no {archive.name} (allowed: one of them)")
        if fault := fault_of(folder / archive.name, archive):
            raise ValueError(f"{folder / archive.name}: {fault}; not the official archive")
        path = folder / archive.name
    else:
        from relearn.data.download import fetch

        path = fetch(archive)
    return {part: _member(path, f"{root}/{name}") for part, name in names.items()}, archive.name


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: missing (allowed: a file)") from None


def _member(path: Path, name: str) -> bytes:
    content = zip_member(path, name)
    if content is None:
        raise ValueError(f"{path}: lacks {name} (allowed: the official archive)")
    return content
