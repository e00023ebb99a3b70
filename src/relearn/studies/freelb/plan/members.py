"""The fine-tunings that form an ensemble, and those that are merged into ARC-Merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from relearn.studies.family import Family

COMPARED_ENCODER = "roberta"
SECOND = "second_encoder"
"""Folder and end of the label ``task`` of runs on the encoder that ``finetune.second_encoder`` pretrains."""
ARC = ("arc_easy", "arc_challenge")
"""The two sets of questions that ARC-Merge joins."""
GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
SIZES = {"glue": "members", "csqa": "csqa_members"}
"""The key of ``ensemble`` that gives the size of a group's ensembles."""


class Members:
    """The ensemble members for a group of tasks (:func:`group_of`).

    The first members are the runs of the tables. If an ensemble has more members than there are seeds, additional runs are made.
    """

    def __init__(self, own: Mapping[str, Any], group: str) -> None:
        self.own, self.group = own, group

    def seeds(self, encoder: str, name: str) -> list[int]:
        """The seeds of the members; the run's own seeds if the paper has no such ensemble."""
        seeds = list(self.own["seeds"])
        if encoder != COMPARED_ENCODER or self.group not in SIZES:
            return seeds_of(self.own, encoder, name)
        count = self.own["ensemble"][SIZES[self.group]]
        more = range(max(seeds) + 1, max(seeds) + 1 + count - len(seeds))
        return [*seeds, *more][:count]

    def family(self, finetune: Family, recipes: Mapping[tuple[str, str], Mapping[str, Any]]) -> Family:
        """The additional runs, and the vanilla fine-tunings whose networks they start from; no runs if the seeds suffice.

        Their label ``task`` ends in ``_member``, so that they appear in no table of medians.
        """
        runs = list(recipes.values())
        cells: list[dict[str, str]] = []
        for method in self.own["ensemble"]["methods"]:
            for task, name in ensemble_runs(runs, COMPARED_ENCODER, method).items():
                by = method
                while name and group_of(task) == self.group:
                    cell = {"encoder": COMPARED_ENCODER, "task": name, "method": by}
                    cells += [] if cell in cells else [cell]
                    name, by = recipes[COMPARED_ENCODER, name]["init_from"], "vanilla"
        further = self.seeds(COMPARED_ENCODER, "")[len(self.own["seeds"]) :]

        def start(encoder: str, task: str, method: str, seed: str) -> str | list[str]:
            first = recipes[encoder, task]["init_from"]
            if not first:
                return []
            return family.path("network", encoder=encoder, task=first, method="vanilla", seed=seed)

        family = replace(
            finetune,
            folder=f"{{encoder}}/{self.group}_members/{{task}}/{{method}}",
            cells=cells if further else [],
            cell_seeds=None,
            seeds=further or [max(self.own["seeds"]) + 1],
            inputs={**finetune.inputs, "start": start},
            labels={"task": lambda encoder, task, method: f"{task}_member"},
        )
        return family


def seeds_of(own: Mapping[str, Any], encoder: str, task: str) -> list[int]:
    """The seeds of a fine-tuning: all if it decides claims, otherwise the first ``decisive.other_seeds`` (0: all)."""
    decisive = own["finetune"]["decisive"]
    most = None if decides(own, encoder, task) else decisive["other_seeds"] or None
    return list(own["seeds"][:most])


def decides(own: Mapping[str, Any], encoder: str, task: str) -> bool:
    """Whether a run is among those that decide the claims; see ``finetune.decisive`` of params.yaml."""
    return encoder == COMPARED_ENCODER and task in own["finetune"]["decisive"]["tasks"]


def group_of(task: str) -> str:
    """The group that determines a task's ensemble size: ``glue``, ``csqa``, or "" for a task without a published ensemble."""
    return "glue" if task.removesuffix("_pairs") in GLUE else "csqa" if task == "csqa" else ""


def merged_cells(runs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Grid cells of ARC-Merge: each encoder, name and method for which both ARC sets have a run.

    The name follows those of the runs, e.g. ``arc_joint``.
    """
    made = {(run["encoder"], run["name"], method) for run in runs for method in run["methods"]}
    return [
        {"encoder": encoder, "task": "arc" + name.removeprefix(ARC[0]), "method": method}
        for encoder, name, method in sorted(made)
        if name.startswith(ARC[0]) and (encoder, ARC[1] + name.removeprefix(ARC[0]), method) in made
    ]


def merged_names(task: str) -> list[str]:
    """The names of the runs that are merged under a name from :func:`merged_cells`."""
    return [name + task.removeprefix("arc") for name in ARC]


def ensemble_runs(recipes: Sequence[Mapping[str, Any]], encoder: str, method: str) -> dict[str, str]:
    """The fine-tuning that an ensemble uses for each task.

    If there are several, the ranking form is preferred to the form with pairs, and then a run that starts from another task's
    network to one that does not, as in the submission of the paper (section 3.5.1).
    """
    chosen: dict[str, Mapping[str, Any]] = {}
    for recipe in recipes:
        if recipe["encoder"] != encoder or method not in recipe["methods"]:
            continue
        own = recipe["task"].removesuffix("_pairs")
        if own not in chosen or _preferred(recipe) > _preferred(chosen[own]):
            chosen[own] = recipe
    return {recipe["task"]: recipe["name"] for recipe in chosen.values()}


def _preferred(recipe: Mapping[str, Any]) -> tuple[bool, bool]:
    return not recipe["task"].endswith("_pairs"), bool(recipe["init_from"]) and not recipe["joint_tasks"]
