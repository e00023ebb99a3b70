"""Runs that decide claims, repeated on a RoBERTa pretrained with another seed, with a wider search and with controls that search, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relearn.studies.family import Family
from relearn.studies.freelb.plan.members import COMPARED_ENCODER, SECOND
from relearn.studies.freelb.plan.settings import (
    finetune_settings,
    increase_settings,
    strategy_of,
    tuning_settings,
)

CHOSEN_BY = {"pgd_as_freelb": "freelb", "freelb_as_pgd": "pgd"}
"""Controls, and the method whose rate and radius they have."""
RIVALS = ("pgd", *CHOSEN_BY)
"""Comparisons of FreeLB's and PGD's networks: each at its own rate and radius, and one of them at those of the other."""


def repeated(
    own: Mapping[str, Any], pretrain: Family, tune: Family, finetune: Family, increase: Family
) -> dict[str, Family]:
    """The families of ``finetune.second_encoder``, made from those of the first encoder; without tasks they have no runs.

    Their labels ``task`` differ from the task's name, so that they enter no table.
    """
    second, decisive = own["finetune"]["second_encoder"], own["finetune"]["decisive"]
    recipes = {run["name"]: run for run in own["finetune"]["runs"] if run["encoder"] == COMPARED_ENCODER}
    seeds = own["seeds"][: second["seeds"]]
    cells = [
        {"encoder": COMPARED_ENCODER, "task": task, "method": method}
        for task in second["tasks"]
        for method in second["methods"]
    ]

    def encoder_file(encoder: str, **_: str) -> str:
        return pretrain.path("encoder", encoder=encoder, seed=second["pretrain_seed"])

    tuned = replace(
        tune,
        folder=f"{SECOND}/{tune.folder}",
        cells=[
            {**cell, "rate": f"{rate:g}", "radius": f"{radius:g}"}
            for cell in cells
            if cell["method"] not in CHOSEN_BY
            for rate in second["rates"]
            for radius in (
                decisive["radii"][:1] if cell["method"].startswith("vanilla") else decisive["radii"]
            )
        ],
        inputs={"encoder": encoder_file},
        settings=lambda encoder, task, method, rate, radius: tuning_settings(
            own, recipes[task], method, float(rate), float(radius)
        ),
    )

    def tried(encoder: str, task: str, method: str, seed: str) -> list[str]:
        return tuned.paths(encoder=encoder, task=task, method=CHOSEN_BY.get(method, method))

    trained = replace(
        finetune,
        folder=f"{SECOND}/{finetune.folder}",
        cells=cells,
        seeds=seeds,
        cell_seeds=None,
        inputs={"encoder": encoder_file, "tried": tried},
        settings=lambda encoder, task, method: finetune_settings(own, recipes[task], method),
        labels={"task": lambda task, **_: f"{task}_{SECOND}"},
    )

    def network(method: str) -> Any:
        def path(encoder: str, task: str, rival: str, seed: str) -> str:
            used = rival if method == strategy_of(rival) else method
            return trained.path("network", encoder=encoder, task=task, method=used, seed=seed)

        return path

    probed = [task for task in second["tasks"] if task in own["max_loss_increase"]["tasks"]]
    compared = replace(
        increase,
        folder=f"{SECOND}/{{encoder}}/{{task}}/{{rival}}",
        cells=[
            {"encoder": COMPARED_ENCODER, "task": task, "rival": rival}
            for task in probed
            for rival in RIVALS
            if {*increase.inputs} - {strategy_of(rival)} | {rival} <= {*second["methods"]}
        ],
        seeds=seeds,
        cell_seeds=None,
        inputs={method: network(method) for method in increase.inputs},
        settings=lambda encoder, task, rival: increase_settings(own, recipes[task]),
        labels=dict(trained.labels),
    )
    return {f"tune_{SECOND}": tuned, f"finetune_{SECOND}": trained, f"max_loss_increase_{SECOND}": compared}
