"""The event spool of one run: JSON lines that a job appends while it works and `relearn.tracking.importer` reads at
its own pace.

There are three kinds of lines; `t` is in seconds since 1970, `cpu_s` is the CPU time of this attempt so far::

    {"t": …, "event": "start", "attempt": 1, "started": "…", …the run: labels, settings, inputs, code, machine…}
    {"t": …, "cpu_s": …, "step": 12, "metrics": {"loss": 0.31, "grad_norm": "nan"}}
    {"t": …, "event": "end", "status": "FINISHED", "reason": null, …}

Each line is a single write to a file opened for appending, so a kill can truncate only the last line, and a truncated line is
skipped. The file's modification time is the heartbeat. A file holds one execution: attempts that resume each
other append to it; a new execution (the last one finished, or code or inputs changed since) begins a new file
in one rename. A step that two attempts logged counts once, with the later value. Non-finite values are the
strings "nan", "inf", "-inf", which people can read and programs cannot mistake for numbers. Standard library only.
"""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relearn.runs import atomic_files as durable

FINISHED, FAILED, KILLED, RUNNING = "FINISHED", "FAILED", "KILLED", "RUNNING"
Event = dict[str, Any]


class Spool:
    """The writing side. A failing disk loses lines but never stops the job: `lost` counts the lines that could not be
    written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lost = 0
        self.fault: str | None = None
        self._torn = False
        self._descriptor: int | None = None

    def begin(self, start: Event, fresh: bool) -> None:
        """Open the file with a start line: a new file (`fresh`), or one more attempt appended to the old one.

        Raises OSError if the folder cannot be written to, so that this fails before the work and not after it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = _line({"t": time.time(), "event": "start", **start})
        if fresh or not self.path.exists():
            durable.write(self.path, line)
            line = b""
        elif not _ends_with_newline(self.path):
            line = b"\n" + line  # a kill truncated the last line; ours must not be appended to it
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if line:
            os.write(self._descriptor, line)
            os.fsync(self._descriptor)

    def metrics(self, step: int, values: dict[str, float], cpu_s: float = 0.0) -> None:
        """Append the values of one step."""
        numbers = {key: _number(value) for key, value in values.items()}
        self._append({"t": time.time(), "cpu_s": round(cpu_s, 2), "step": step, "metrics": numbers})

    def end(self, status: str, reason: str | None = None, **more: Any) -> None:
        """Append the end line, flush it to the disk and close."""
        if self._descriptor is None:
            return
        self._append({"t": time.time(), "event": "end", "status": status, "reason": reason, **more})
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self.fault = str(error)
        os.close(self._descriptor)
        self._descriptor = None

    def _append(self, event: Event) -> None:
        if self._descriptor is None:
            raise ValueError(
                f"{self.path.name}: the spool is closed, lines are taken between start and end only"
            )
        line = b"\n" * self._torn + _line(event)
        try:
            self._torn = os.write(self._descriptor, line) != len(line)  # a full disk writes only a part
            self.lost += self._torn
        except OSError as error:
            self.lost += 1
            self.fault = os.strerror(error.errno) if error.errno else str(error)


def _line(event: Event) -> bytes:
    return (json.dumps(event, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


def _number(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


@dataclass
class Story:
    """The content of a spool; see `tell`."""

    start: Event  # the first start line, which describes the run
    attempts: int
    status: str  # FINISHED, FAILED, KILLED, or RUNNING while there is no end line after the last start
    reason: str | None
    ended: float | None  # seconds since 1970
    heartbeat: float  # the file's modification time
    points: dict[tuple[str, int], tuple[float, float]] = field(
        default_factory=dict
    )  # (key, step): (t, value)
    strange: list[str] = field(default_factory=list)  # "loss is nan at step 12"
    spent: dict[str, float] = field(
        default_factory=dict
    )  # wall_s, cpu_s, device_s of the attempts that have ended or died
    size: int = 0  # bytes read, up to the last whole line


def tell(path: Path, upto: int | None = None) -> Story | None:
    """Read a spool (its first `upto` bytes); None if it does not exist or has no start line. Truncated lines are
    skipped.
    """
    try:
        with open(path, "rb") as file:
            heartbeat = os.fstat(file.fileno()).st_mtime
            content = file.read() if upto is None else file.read(upto)
    except OSError:
        return None
    content = content[: content.rfind(b"\n") + 1]
    story: Story | None = None
    begun = latest = cpu = 0.0
    strange: dict[tuple[str, int], str] = {}
    for line in content.splitlines():
        event = _event(line)
        if event is None:
            continue
        t = float(event["t"])
        kind = event.get("event")
        if kind == "start":
            if story is None:
                story = Story(event, 0, RUNNING, None, None, heartbeat, size=len(content))
            elif story.status == RUNNING:
                _spend(story, latest - begun, {"cpu_s": cpu})
            story.attempts += 1
            story.status, story.reason, story.ended = RUNNING, None, None
            begun, cpu = t, 0.0
        elif story is None:
            continue
        elif kind == "end":
            story.status, story.reason, story.ended = str(event.get("status")), event.get("reason"), t
            _spend(story, t - begun, event)
        else:
            cpu = event["cpu_s"] if isinstance(event.get("cpu_s"), (int, float)) else cpu
            for key, value in event["metrics"].items():
                place = (key, int(event["step"]))
                if isinstance(value, str):
                    strange[place] = f"{key} is {value} at step {place[1]}"
                    story.points.pop(place, None)
                else:
                    strange.pop(place, None)
                    story.points[place] = (t, float(value))
        latest = t
    if story is not None:
        story.strange = list(strange.values())
        if story.status == RUNNING:
            _spend(story, latest - begun, {"cpu_s": cpu})
    return story


def _spend(story: Story, wall: float, cost: Event) -> None:
    """Add the cost of an attempt. One that was killed without an end line counts until its last line."""
    wall = max(wall, 0.0)
    on_cuda = str(story.start.get("machine", {}).get("device", "")).startswith("cuda")
    device = cost.get("device_s") if "event" in cost else wall * on_cuda
    spent = {"wall_s": wall, "cpu_s": float(cost.get("cpu_s") or 0.0), "device_s": float(device or 0.0)}
    story.spent = {key: story.spent.get(key, 0.0) + value for key, value in spent.items()}


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
        numbers = "event" in event or (isinstance(event["metrics"], dict) and isinstance(event["step"], int))
        if numbers and isinstance(event["t"], (int, float)):
            return dict(event)
    except (ValueError, KeyError, TypeError):
        pass
    return None
