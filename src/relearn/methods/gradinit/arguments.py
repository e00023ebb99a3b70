"""Validation of GradInit's settings."""

from __future__ import annotations

import math

RULES = {"sgd": "sgd", "adam": "adam", "adamw": "adam", "radam": "sgd"}
"""The rule of eq. 4.1 that is an optimiser's first step. RAdam's is η g, because it does not divide by the second moment until
ρ_t = ρ_∞ - 2tβ₂ᵗ/(1 - β₂ᵗ) exceeds 5 (Liu et al. 2020), and ρ_1 = 1 for every β₂."""
FORMS = ("constraint", "penalty")


def check(
    *,
    optimizer: str,
    eta: float,
    gamma: float,
    tau: float,
    overlap: float,
    max_scale: float | None,
    normalised: bool,
    form: str,
    penalty: float,
    clip: float | None,
    precision: str,
) -> None:
    """Raise a one-line ValueError if a setting of gradinit is out of range."""
    if optimizer not in RULES:
        raise ValueError(f"optimizer: found {optimizer!r}, allowed are {', '.join(RULES)}")
    if form not in FORMS:
        raise ValueError(f"form: found {form!r}, allowed are {', '.join(FORMS)}")
    if normalised and optimizer != "sgd":
        raise ValueError(f"normalised: found True with optimizer {optimizer!r}, allowed only with 'sgd'")
    if not gamma > 0:
        raise ValueError(f"gamma: found {gamma}, allowed: above 0, or infinity for no constraint")
    for name, value in (("eta", eta), ("tau", tau)):
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name}: found {value}, allowed: above 0")
    if not (penalty >= 0 and math.isfinite(penalty)):
        raise ValueError(f"penalty: found {penalty}, allowed: at least 0")
    if not 0 <= overlap <= 1:
        raise ValueError(f"overlap: found {overlap}, allowed: 0 to 1")
    if max_scale is not None and not max_scale >= 1:
        raise ValueError(f"max_scale: found {max_scale}, allowed: at least 1, where the factors start")
    if clip is not None and not clip > 0:
        raise ValueError(f"clip: found {clip}, allowed: above 0, or None")
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision: found {precision!r}, allowed are fp32, bf16")
