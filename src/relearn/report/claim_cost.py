"""Cost of the runs behind a claim, including all runs whose outputs they read: in total and for one more unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from relearn.report.claims import Claim
from relearn.report.cost import total
from relearn.report.runs import Run

ROOT = "runs/"  # every run folder, relative to the results root, begins with this


class Ancestry:
    """The runs of one scale by folder, and the runs whose files each of them reads."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = {run.folder: run for run in runs}

    def with_ancestors(self, folders: Iterable[str]) -> list[Run]:
        """These runs and all runs they depend on, each once, sorted by folder; unknown folders are skipped."""
        found: dict[str, Run] = {}
        ahead = [folder for folder in folders if folder in self.runs]
        while ahead:
            folder = ahead.pop()
            if folder not in found:
                found[folder] = self.runs[folder]
                ahead += [one for one in found[folder].sources if one in self.runs]
        return [found[folder] for folder in sorted(found)]


def cost_of_claim(claim: Claim, ancestry: Ancestry) -> dict[str, float]:
    """CPU and device seconds, and the number of runs, behind a claim."""
    runs = ancestry.with_ancestors(claim.runs)
    return {"runs": len(runs), **{name: round(total(runs, name), 3) for name in ("cpu_s", "device_s")}}


def per_unit(unit: str, have: int, runs: Sequence[Run]) -> tuple[float, str]:
    """CPU seconds of one unit, and what the number covers.

    * seeds: all runs behind the claim, divided by its number of seeds;
    * targets: the runs whose trials name a target, divided by the number of targets; networks are not trained again;
    * samples: all runs once, because a new test set requires every run that reads it to be repeated, whatever its size.
    """
    if unit == "targets":
        attacked = [run for run in runs if _names_targets(run)]
        return total(attacked, "cpu_s") / max(have, 1), "per target: crafting, filters and fine-tuning"
    if unit == "samples":
        return total(runs, "cpu_s"), "all runs again, because they read the test set"
    return total(runs, "cpu_s") / max(have, 1), "per seed: its runs and their inputs"


def _names_targets(run: Run) -> bool:
    outputs: Mapping[str, object] = run.record.get("outputs") or {}
    return "trials.csv" in outputs and bool(run.trials) and "target" in run.trials[0]
