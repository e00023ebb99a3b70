"""The recipes of the character models.

A group of several recipes is tuned in two stages: each recipe is trained with the first seed, then the one with the lowest
validation NLL is trained with every seed under the name ``<group>_chosen``. A group with one recipe needs no tuning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WARMUP, FIXED = "warmup", "fixed"


def recipes_of(own: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Group of recipes → name → settings, from the study's section of params.yaml. The name contains the values of the settings."""
    return {WARMUP: warmup_recipes(own["warmup"]), FIXED: fixed_recipes(own["fixed"])}


def trained_name(group: str, recipes: Mapping[str, Any]) -> str:
    """The name under which a group is trained with every seed: that of its only recipe, or ``<group>_chosen``."""
    return next(iter(recipes)) if len(recipes) == 1 else f"{group}_chosen"


def warmup_recipes(grid: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Recipes with warm-up, followed by a learning rate that decays with the inverse square root of the step."""
    return {
        f"{WARMUP}_g{gamma:g}_w{steps}_d{dropout:g}": {
            "schedule": "inverse_sqrt",
            "gamma": gamma,
            "warmup_steps": steps,
            "dropout": dropout,
        }
        for gamma in grid["gamma"]
        for steps in grid["warmup_steps"]
        for dropout in grid["dropout"]
    }


def fixed_recipes(grid: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Recipes with a constant learning rate and no warm-up."""
    return {
        f"{FIXED}_lr{lr:g}_d{dropout:g}": {
            "schedule": "constant",
            "lr": lr,
            "warmup_steps": 0,
            "dropout": dropout,
        }
        for lr in grid["lr"]
        for dropout in grid["dropout"]
    }
