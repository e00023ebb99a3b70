"""Runs of one step of a study, nested below one run that stands for all of them. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from relearn.runs import spool
from relearn.tracking.run_view import Tracked

WORST_FIRST = (spool.RUNNING, spool.FAILED, spool.KILLED, spool.FINISHED)
ABOUT = ("paper", "study", "step", "scale")


@dataclass
class Groups:
    """The runs that an importer has seen, by experiment and group; `places` are the groups' ids in MLflow."""

    places: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _runs: dict[tuple[str, str], dict[str, Tracked]] = field(default_factory=dict)

    @property
    def ids(self) -> set[str]:
        return {_id(group) for _, group in self._runs}

    def ids_of(self, group: Tracked) -> set[str]:
        """The run ids of a group."""
        return set(self._runs[group.experiment, group.group])

    def add(self, runs: Iterable[Tracked]) -> list[Tracked]:
        """Take these runs in; returns what stands for each group that they belong to, where it has several."""
        touched: dict[tuple[str, str], None] = {}
        for run in runs:
            key = (run.experiment, run.group)
            # what was read of its curves is not kept
            light = replace(run, story=None, finals={}, numbers={}, params={}, inputs=[])
            self._runs.setdefault(key, {})[run.id] = light
            touched[key] = None
        return [_parent(*key, list(self._runs[key].values())) for key in touched if len(self._runs[key]) > 1]


def _id(group: str) -> str:
    return f"grid {group}"


def _parent(experiment: str, group: str, runs: list[Tracked]) -> Tracked:
    statuses = {run.status for run in runs}
    status = next(one for one in WORST_FIRST if one in statuses)
    ends = [run.end_ms for run in runs if run.end_ms is not None]
    about = {key: runs[0].tags[key] for key in ABOUT}
    seeds = len({run.tags["seed"] for run in runs})
    return Tracked(
        id=_id(group),
        started="grid",  # one and the same, however often its runs are repeated
        experiment=experiment,
        name=f"{group}: {len(runs)} runs",
        status=status,
        start_ms=min(run.start_ms for run in runs),
        end_ms=max(ends, default=None) if status != spool.RUNNING else None,
        tags={**about, "kind": "grid", "runs": str(len(runs)), "seeds": str(seeds)},
        params={},
        inputs=[],
        lines=None,
        story=None,
        group=group,
    )
