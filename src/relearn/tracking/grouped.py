"""Nests the runs of one step of a study under a common parent run in MLflow. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from relearn.runs import spool
from relearn.tracking.run_view import Tracked

WORST_FIRST = (spool.RUNNING, spool.FAILED, spool.KILLED, spool.FINISHED)
ABOUT = ("paper", "study", "step", "scale")


@dataclass
class Groups:
    """The runs seen by an importer, by experiment and group; `places` maps groups to the ids of their parent runs in MLflow."""

    places: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _runs: dict[tuple[str, str], dict[str, Tracked]] = field(default_factory=dict)

    @property
    def ids(self) -> set[str]:
        return {_id(group) for _, group in self._runs}

    def ids_of(self, group: Tracked) -> set[str]:
        """The ids of the runs in a group."""
        return set(self._runs[group.experiment, group.group])

    def add(self, runs: Iterable[Tracked]) -> list[Tracked]:
        """Add these runs; returns the parent run of each of their groups that has several runs."""
        touched: dict[tuple[str, str], None] = {}
        for run in runs:
            key = (run.experiment, run.group)
            # drop the curves and other large fields
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
        started="grid",  # constant, however often its runs are repeated
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
