"""The external data sets that jobs read: whether they are at hand, where to get them, their size and licence.

The facts are in data_sets.json. A set is recognised by values in the settings (``where``: key → values). It is at hand if
``$RELEARN_MIRROR`` has one of its ``places``, the cache has its files, or the hub's cache has its checkpoint. A licence is
given as stated by the publisher; it is "unknown" if we have not read one.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies

from relearn.data.cache import cache_folder, private_folder

FACTS = Path(__file__).with_name("data_sets.json")
AT_HAND, DOWNLOAD, MISSING, OPTIONAL = "at hand", "downloaded by its step", "missing", "missing, not needed"
TIMEOUT_S = 3.0


class DataSet(NamedTuple):
    """One data set that planned jobs need.

    Attributes:
        name, title: short and long name.
        status: :data:`AT_HAND`, :data:`DOWNLOAD`, :data:`MISSING`, or :data:`OPTIONAL` if its steps can run without it.
        megabytes: size of the download; None: unknown.
        source: address.
        put: where to put it by hand.
        licence: as stated by its publisher.
        jobs: number of planned jobs that need it.
    """

    name: str
    title: str
    status: str
    megabytes: float | None
    source: str
    put: str
    licence: str
    jobs: int

    @property
    def size(self) -> str:
        """The size of the download as text."""
        if self.megabytes is None:
            return "size unknown"
        return f"{self.megabytes / 1000:.0f} GB" if self.megabytes >= 1000 else f"{self.megabytes:g} MB"

    @property
    def line(self) -> str:
        """How to get a missing set."""
        return f"{self.title} ({self.size}): get it from {self.source} and put it at {self.put}"


class Job(Protocol):
    """What is read of a job."""

    @property
    def settings(self) -> Mapping[str, Any]: ...


def needed(jobs: Iterable[Job]) -> list[DataSet]:
    """The data sets that the settings of the jobs name, in the order of the facts."""
    facts = _facts()
    counts = dict.fromkeys(facts, 0)
    for job in jobs:
        for name in {name for pair in words(job.settings) for name in _sets_by_setting().get(pair, ())}:
            counts[name] += 1
    return [_data_set(name, facts[name], count) for name, count in counts.items() if count]


def at_hand(job: Job) -> bool:
    """Whether the job can run without fetching any data."""
    return all(one.status in (AT_HAND, OPTIONAL) for one in needed([job]))


def words(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every string in the settings, with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from words(one, name)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from words(one, key)


def unreachable(sets: Iterable[DataSet]) -> list[DataSet]:
    """The sets to be downloaded whose host does not respond; none if a proxy is configured, as hosts cannot be checked then."""
    if getproxies().keys() & {"http", "https", "all"}:
        return []
    return [
        one for one in sets if one.status == DOWNLOAD and not _answers(urlsplit(one.source).hostname or "")
    ]


@cache
def _answers(host: str) -> bool:
    try:
        with socket.create_connection((host, 443), timeout=TIMEOUT_S):
            return True
    except OSError:
        return False


@cache
def _facts() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(FACTS.read_bytes())
    return found


@cache
def _sets_by_setting() -> dict[tuple[str, str], list[str]]:
    """Maps (key, value) of settings to the names of the data sets they require."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, facts in _facts().items():
        for key, values in facts["where"].items():
            for value in values:
                found.setdefault((key, value), []).append(name)
    return found


def _data_set(name: str, facts: Mapping[str, Any], jobs: int) -> DataSet:
    if "hub" in facts:
        put = "the hub's cache (HF_HOME)"
    elif facts.get("parts"):
        put = f"$RELEARN_MIRROR/{facts['places'][0]}/{{{','.join(facts['parts'])}}}"
    else:
        put = f"$RELEARN_MIRROR/{facts['places'][0]}"
    offline = os.environ.get("RELEARN_OFFLINE", "0") not in ("", "0")
    status = MISSING if offline or not facts["fetched"] else DOWNLOAD
    if _at_hand(facts):
        status = AT_HAND
    elif facts.get("optional"):
        status = OPTIONAL
    return DataSet(
        name, facts["title"], status, facts["megabytes"], facts["source"], put, facts["licence"], jobs
    )


def _at_hand(facts: Mapping[str, Any]) -> bool:
    if hub := facts.get("hub"):
        home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
        return (home / "hub" / f"models--{hub.replace('/', '--')}" / "snapshots").is_dir()
    mirror = os.environ.get("RELEARN_MIRROR")
    for place in facts["places"] if mirror else ():
        path = Path(str(mirror), place)
        parts = [path / part for part in facts.get("parts", ())] or [path]
        if all(part.is_file() or (part.is_dir() and any(part.iterdir())) for part in parts):
            return True
    files = facts.get("cached", ())
    return bool(files) and any(
        all((folder / name).is_file() for name in files) for folder in (cache_folder(), private_folder())
    )
