"""Source of a task's files: a folder, the official zip in it, or a download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from relearn.data.archive import zip_member
from relearn.data.glue.tasks import Task
from relearn.data.remote import fault_of

Reader = Callable[[str], bytes | None]


def file_reader(task: Task, folder: Path | None) -> tuple[Reader, str]:
    """A function that reads a file of the task by name (None: no such file), and a description of the source.

    Args:
        task: the task.
        folder: a folder with the task's folder (``CoLA/train.tsv``), or with a folder ``glue`` that has it, or with the official zip; None
            downloads.

    Raises:
        ValueError: none of these is there, or the zip is broken or not the official one.
        OSError: files cannot be read or fetched.
    """
    needed = task.remotes[0].name
    if folder is None:
        from relearn.data.download import fetch

        fetched = {remote.name: fetch(remote) for remote in task.remotes}
        if needed.endswith(".zip"):
            return _of_zip(fetched[needed], task.folders[0]), needed
        return lambda name: fetched[name].read_bytes() if name in fetched else None, ", ".join(fetched)
    names = [name for each in task.files.values() for name in each]
    for base in (folder, folder / "glue"):
        for own in task.folders:
            if any((base / own / name).is_file() for name in names):
                return _of_folder(base / own), "a folder with tables"
        if needed.endswith(".zip") and (base / needed).is_file():
            if fault := fault_of(base / needed, task.remotes[0]):
                raise ValueError(f"{base / needed}: {fault}; not the official archive")
            return _of_zip(base / needed, task.folders[0]), needed
    places = [f"{task.folders[0]}/{name}" for name in next(iter(task.files.values()))]
    raise ValueError(
        f"{folder}: has no {' or '.join(dict.fromkeys([*places, needed]))} (allowed: one of them)"
    )


def _of_folder(folder: Path) -> Reader:
    return lambda name: (folder / name).read_bytes() if (folder / name).is_file() else None


def _of_zip(path: Path, folder: str) -> Reader:
    return lambda name: zip_member(path, f"{folder}/{name}")
