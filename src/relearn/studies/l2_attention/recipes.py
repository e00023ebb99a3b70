"""The recipes of the character models. A name states the rates, so that a table can show the best of several as one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WARMUP, FIXED = "warmup", "fixed"


def warmup_recipes(grid: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Learning rate by the inverse square root of the step, after a warm-up."""
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
    """A constant learning rate without warm-up."""
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
