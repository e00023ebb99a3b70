"""How many jobs of SLURM's queue a scale takes with the grouped profile: counted from the plans, without SLURM or Snakemake."""

import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from relearn.studies import STUDIES, parameters
from relearn.studies.study import load

ROOT = Path(__file__).resolve().parents[2]
GROUPED = ROOT / "workflow/profiles/slurm-grouped/config.yaml"
MOST = 60  # jobs of the queue for scale mini


class Run(NamedTuple):
    rule: str
    before: list[str]
    mem_mb: int = 0


@cache
def runs_of(scale: str) -> dict[str, Run]:
    """Every run by its folder: its rule, and the folders of the runs that it reads."""
    params = parameters.load(ROOT / "params.yaml", scale=scale)
    found: dict[str, Run] = {}
    for study in STUDIES:
        for name, family in load(study).part("plan").plan(params, scale).items():
            for run in family.runs:
                files = [file for files in family.inputs_of(**run).values() for file in files]
                folder = posixpath.dirname(family.path(**run))
                found[folder] = Run(
                    f"{study}_{name}", [posixpath.dirname(file) for file in files], family.needs.mem_mb
                )
    return found


def pairs(entries: Iterable[str]) -> dict[str, str]:
    """The profile's list of `name=value`."""
    found = dict(entry.split("=") for entry in entries)
    assert len(found) == len(list(entries))
    return found


@pytest.fixture(scope="module")
def profile() -> dict[str, Any]:
    return yaml.safe_load(GROUPED.read_text(encoding="utf-8"))


def queue_jobs(runs: dict[str, Run], groups: dict[str, str], together: dict[str, str]) -> Counter[str]:
    """Jobs of the queue by group: connected runs of a group are one component, `together` components one job."""
    leader = {folder: folder for folder in runs}

    def find(folder: str) -> str:
        while leader[folder] != folder:
            folder = leader[folder]
        return folder

    for folder, run in runs.items():
        for other in run.before:
            if other in runs and groups.get(run.rule, folder) == groups.get(runs[other].rule):
                leader[find(folder)] = find(other)
    components = Counter(groups.get(runs[folder].rule, folder) for folder in runs if find(folder) == folder)
    return Counter({name: -(-count // int(together.get(name, 1))) for name, count in components.items()})


def test_components_are_counted_as_snakemake_does() -> None:
    """Five runs: a and b read each other's files, c and d do not; e has no group. Two components share a job."""
    runs = {
        "a": Run("r", []),
        "b": Run("s", ["a"]),
        "c": Run("r", []),
        "d": Run("r", []),
        "e": Run("t", ["d"]),
    }
    found = queue_jobs(runs, {"r": "g", "s": "g"}, {"g": "2"})
    assert found == {"g": 2, "e": 1}


def test_mini_takes_at_most_sixty_jobs_of_the_queue(profile: dict[str, Any]) -> None:
    runs = runs_of("mini")
    found = queue_jobs(runs, pairs(profile["groups"]), pairs(profile["group-components"]))
    assert len(runs) > 600
    assert len(found) <= found.total() <= MOST, found


def test_every_rule_has_a_group_and_every_group_a_size(profile: dict[str, Any]) -> None:
    """A rule of the ImageNet runs, whose jobs take hours, may stay alone."""
    groups = pairs(profile["groups"])
    planned = {
        f"{study}_{name}"
        for study in STUDIES
        for name in load(study).part("plan").plan(parameters.load(ROOT / "params.yaml", scale="mini"), "mini")
    }
    assert set(groups) <= planned
    assert {run.rule for scale in ("mini", "small") for run in runs_of(scale).values()} <= set(groups)
    assert set(groups.values()) == set(pairs(profile["group-components"]))


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_no_group_waits_for_itself(profile: dict[str, Any], scale: str) -> None:
    """Snakemake refuses a group that a path of jobs leaves and enters again, whichever components it puts together."""
    groups, runs = pairs(profile["groups"]), runs_of(scale)
    before: defaultdict[str, set[str]] = defaultdict(set)
    for run in runs.values():
        for other in run.before:
            if other in runs and groups[run.rule] != groups[runs[other].rule]:
                before[groups[run.rule]].add(groups[runs[other].rule])
    TopologicalSorter(before).prepare()  # CycleError names the groups
    assert before["poisoning_train"] >= {"poisoning_craft", "poisoning_filter"}


def test_a_group_that_fails_keeps_what_it_has_finished(profile: dict[str, Any]) -> None:
    """When it retries, Snakemake rebuilds a whole group; when a group fails, it deletes its files, unless configured otherwise."""
    assert profile["keep-incomplete"] is True and profile["retries"] == 0


def test_a_group_asks_for_no_more_memory_than_one_run(profile: dict[str, Any]) -> None:
    """Runs side by side add up their memory; the queue refuses a group that asks for more than a node has."""
    limit = int(pairs(profile["resources"])["mem_mb"])
    assert pairs(profile["set-resource-scopes"])["mem_mb"] == "local"
    needs = [run.mem_mb for scale in ("mini", "small") for run in runs_of(scale).values()]
    assert max(needs) <= limit < 2 * max(needs)  # every run fits; without the limit, two could ask for more
