"""Settings with which runs behind a claim were made and that are planned otherwise now, e.g. by a newer design."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from relearn.report.changed_settings import flat
from relearn.report.runs import Run
from relearn.report.views.names import plural

Planned = Callable[[str], Mapping[str, Any] | None]
"""Maps the folder of a run, relative to the results root, to its planned settings; None if it is not planned."""
MOST, LONGEST = 3, 40  # settings that one line names, and characters of a value


def lines(runs: Iterable[Run], planned: Planned) -> list[str]:
    """One line for each step whose runs have other settings than planned: how many, of how many, and which settings.

    Runs that are no longer planned, and settings that only one side has, do not count: code that has a new setting need not
    have changed what the runs measured.
    """
    changed: dict[str, Counter[str]] = defaultdict(Counter)
    many: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for run in runs:
        now = planned(run.folder)
        if now is None:
            continue
        many[run.step] += 1
        differing = _differing(run.settings, now)
        other[run.step] += bool(differing)
        changed[run.step].update(differing)
    found = []
    for step, count in other.items():
        if count:
            settings = [line for line, _ in sorted(changed[step].items(), key=lambda one: (-one[1], one[0]))]
            shown = "; ".join(settings[:MOST])
            more = f" and {len(settings) - MOST} more" if len(settings) > MOST else ""
            which = f"{count} of {plural(many[step], 'run')} of {step}"
            were = "was" if count == 1 else "were"
            found.append(f"{which} {were} made with other settings than planned now: {shown}{more}")
    return found


def _differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    before, after = dict(flat(was)), dict(flat(now))
    return [
        f"{key} {_shown(before[key])}, now {_shown(after[key])}"
        for key in sorted(before.keys() & after.keys())
        if before[key] != after[key]
    ]


def _shown(value: str) -> str:
    return value if len(value) <= LONGEST else "others"
