"""The runs of the study: Long Range Arena, character models, a converted RoBERTa, image networks, costs and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.studies.family import Family
from relearn.studies.long_short import plan_images, plan_sequences, plan_text


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """Families of runs by step; a step with several protocols has one family per protocol."""
    return {
        **plan_sequences.families(params, scale),
        **plan_text.families(params, scale),
        **plan_images.families(params, scale),
    }
