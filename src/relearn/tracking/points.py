"""Which points of a run are already in the store, according to the run's tags, and which are still to be written.

Standard library only. Everything here depends on files and tags only, so an interrupted import is continued where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from relearn.runs import spool
from relearn.tracking.names import PREFIX
from relearn.tracking.run_view import Place, Source, Tracked, read_story

KEPT = "{} records older than what was imported before, such as {}: MLflow keeps the newer executions"


def _stored_points(tags: Mapping[str, str], run: Tracked) -> tuple[dict[Place, Any], dict[Place, Any]]:
    """Points that are certainly in the store, and points that may be: the spool read up to the positions in the tags."""
    sure, perhaps = int(tags.get(PREFIX + "spooled", 0)), int(tags[PREFIX + "intent"])
    both = [read_story(run.lines, upto) if run.lines and upto else None for upto in (sure, perhaps)]
    first, then = (dict(one.points) if one else {} for one in both)
    return first, {place: point for place, point in then.items() if place not in first}


def contradicts(tags: Mapping[str, str], run: Tracked) -> bool:
    """Whether the store may contain a metric value that a resumed run has since overwritten (same metric and step)."""
    if run.story is None or (run.status == spool.FINISHED and not run.record_sha):
        return False  # without its record, a finished run keeps the numbers that are stored
    record = tags.get(PREFIX + "record", "")
    if record and (record != run.record_sha or (tags.get(PREFIX + "spooled") == "0" and run.story.points)):
        return True  # its numbers were stored without these curves, or belong to another record
    sure, perhaps = _stored_points(tags, run)
    now = run.story.points
    return any(place not in now or now[place][1] != point[1] for place, point in {**sure, **perhaps}.items())


def gone_back(source: Source, run: Tracked, stored: Iterable[Any], checkout: str) -> bool:
    """Whether a newer execution of the run was here before its record, as after `git checkout` and `dvc checkout`.

    Its spool tells so, or the run that was imported from this folder (``checkout``); a newer run from elsewhere tells nothing.
    """
    live = [one.data.tags for one in stored if one.info.lifecycle_stage == "active"]
    ours = [tags for tags in live if tags.get(PREFIX + "checkout") == checkout]
    before = run.tags["kind"] == "superseded" or any(tags[PREFIX + "started"] > run.started for tags in ours)
    return source.record is not None and before


@dataclass
class Batch:
    """One write: tags set before it, its points (metric, value, milliseconds, step), and tags that confirm it afterwards."""

    before: dict[str, str]
    points: list[tuple[str, float, int, int]]
    after: dict[str, str]


def batches(tags: Mapping[str, str], run: Tracked) -> list[Batch]:
    """The writes that are still missing; the last batch includes the record's own numbers.

    MLflow stores an identical point only once, but not the same value with another time. Therefore points that an importer
    announced but did not confirm before it died are written again exactly as announced, before any newer ones.
    """
    done: list[Batch] = []
    intent, size = int(tags[PREFIX + "intent"]), str(run.size)
    if intent < run.size:
        vouched = {PREFIX + "spooled": str(intent)}
        if tags.get(PREFIX + "spooled") != str(intent):
            done.append(Batch({}, _announced(tags, run), vouched))
        announced = {PREFIX + "intent": size}
        done.append(
            Batch(announced, _announced({**tags, **vouched, **announced}, run), {PREFIX + "spooled": size})
        )
    else:
        done.append(Batch({}, _announced(tags, run), {PREFIX + "spooled": size}))
    if run.record_sha and tags.get(PREFIX + "record") != run.record_sha:
        done[-1].points += _finals(run)
        done[-1].after[PREFIX + "record"] = run.record_sha
    if run.numbers and tags.get(PREFIX + "numbers") != run.numbers_sha:
        # cell numbers change with each rendering: of two values at one step, the later one counts
        done[-1].points += [(key, value, run.numbers_ms, 0) for key, value in run.numbers.items()]
        done[-1].after[PREFIX + "numbers"] = run.numbers_sha
    return done


def _announced(tags: Mapping[str, str], run: Tracked) -> list[tuple[str, float, int, int]]:
    perhaps = _stored_points(tags, run)[1]
    found = [(key, value, int(t * 1000), step) for (key, step), (t, value) in perhaps.items()]
    return sorted(found, key=lambda point: (point[2], point[3], point[0]))


def _finals(run: Tracked) -> list[tuple[str, float, int, int]]:
    """The record's numbers, at the last step of their curve; a value equal to the curve's last one is not repeated.

    Of two values at one step, MLflow shows the one with the later time, so the record's time is set after the last point.
    """
    now = run.story.points if run.story else {}
    found = []
    for key, value in run.finals.items():
        last = max((step for name, step in now if name == key), default=0)
        if (key, last) not in now or now[key, last][1] != value:
            after = int(now[key, last][0] * 1000) + 1 if (key, last) in now else 0
            found.append((key, value, max(run.end_ms or run.start_ms, after), last))
    return found
