"""What the parts of the schema share: ranges, lists, and sections whose keys are all known and all present."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from relearn.data.facts import CLASSES


def unique(items: list[Any]) -> list[Any]:
    if len(set(items)) != len(items):
        raise ValueError("values that differ from each other")
    return items


def ascending(items: list[Any]) -> list[Any]:
    if any(low >= high for low, high in pairwise(items)):
        raise ValueError("ascending values without repetition")
    return items


Count = Annotated[int, Field(ge=1)]
Class = Annotated[int, Field(ge=0, lt=CLASSES)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Multiple = Annotated[float, Field(gt=0, le=4)]
Unique = Field(min_length=1, json_schema_extra={"uniqueItems": True})
Unique0 = Field(json_schema_extra={"uniqueItems": True})
Ascending = Field(json_schema_extra={"uniqueItems": True})
Milestones = Annotated[list[Count], Ascending, AfterValidator(ascending)]
Seeds = Annotated[list[Annotated[int, Field(ge=0, lt=2**32)]], Unique, AfterValidator(unique)]


class Section(BaseModel):
    """A mapping whose keys are all known and all present."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
