"""Location of MLflow's store, and maintenance of its SQLite file.

Standard library only: MLflow's own commands run as child processes.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path


class TrackingError(RuntimeError):
    """The store cannot be used; a one-line message says which store and what to do."""


def store_uri(uri: str | None = None, here: Path | None = None) -> str:
    """`uri`, else the user's MLFLOW_TRACKING_URI, else MLflow's default: mlflow.db in the current folder.

    The path of a SQLite URI is made relative to `here`, if given.
    """
    chosen = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    start, _, name = chosen.partition("sqlite:///")
    return f"sqlite:///{here / name}" if here and not start and name not in ("", ":memory:") else chosen


def database(uri: str) -> Path | None:
    """The file of a SQLite URI; None for other stores.

    Raises:
        ValueError: the URI names a folder, or SQLite's store in memory, which would end with the process.
    """
    if not uri.startswith("sqlite:"):
        return None
    name = uri.removeprefix("sqlite:///")
    if name in ("", ":memory:") or not uri.startswith("sqlite:///") or Path(name).is_dir():
        raise ValueError(f"tracking URI: found {uri}, allowed: sqlite:///PATH/mlflow.db, a file")
    return Path(name).absolute()


def artifact_folder(uri: str) -> Path | None:
    """Folder of a SQLite store's artifacts: the user's MLFLOW_ARTIFACTS_DESTINATION if it is a folder, else
    `mlartifacts` next to the database; None for other stores or if that variable is a URI.
    """
    file = database(uri)
    chosen = os.environ.get("MLFLOW_ARTIFACTS_DESTINATION", "")
    if file is None or "://" in chosen:
        return None
    return Path(chosen).absolute() if chosen else file.parent / "mlartifacts"


def prepare(file: Path, create: Callable[[Path], None]) -> str | None:
    """Make sure that a valid database exists at `file`; returns a message if an invalid one was moved aside.

    A new database is created by `create` under another name and then renamed, so a kill leaves no incomplete schema.
    """
    message = None
    if file.exists() and file.stat().st_size:
        fault = malformed(file)
        if fault:
            message = f"{file.name}: {fault}; put aside as {put_aside(file).name}, rebuilding from the files"
    if not file.exists() or not file.stat().st_size:
        file.parent.mkdir(parents=True, exist_ok=True)
        for left in file.parent.glob(f"{file.name}.new-*"):
            left.unlink()
        fresh = file.with_name(f"{file.name}.new-{os.getpid()}")
        create(fresh)
        os.replace(fresh, file)
    return message


def malformed(file: Path) -> str | None:
    """The fault that SQLite's check finds in a file, in one line; None if the file is valid or only busy."""
    try:
        with closing(sqlite3.connect(file, timeout=5)) as connection:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        return None if found == "ok" else found.splitlines()[-1]
    except sqlite3.OperationalError:
        return None
    except sqlite3.DatabaseError as error:
        return str(error)


def put_aside(file: Path) -> Path:
    """Rename a database and its journals to the first free ``<name>.malformed-N``; nothing is deleted."""
    number = 1
    while (aside := file.with_name(f"{file.name}.malformed-{number}")).exists():
        number += 1
    for end in ("-journal", "-wal", "-shm", ""):
        part = Path(f"{file}{end}")
        if part.exists():
            part.rename(f"{aside}{end}")
    return aside


def upgrade(file: Path) -> None:
    """Upgrade an older schema on a copy, which then replaces the file.

    Raises TrackingError if the schema is newer than the installed MLflow, or if the copy or the migration fails; the file
    is then unchanged and the copy removed.
    """
    copy = file.with_name(f"{file.name}.new-{os.getpid()}")
    copy.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)
        command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{copy}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            os.replace(copy, file)
            return
    except sqlite3.Error as error:
        raise TrackingError(f"{file.name}: older schema, and the copy to upgrade failed ({error})") from error
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            Path(f"{copy}{end}").unlink(missing_ok=True)
    if "Can't locate revision" in done.stderr:
        raise TrackingError(
            f"{file.name}: made by a newer MLflow; install that version or choose another --uri"
        )
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    raise TrackingError(f"{file.name}: older schema, and its upgrade failed ({last}); choose another --uri")
