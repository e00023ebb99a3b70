"""Types shared by all parts of the schema: ranges, lists, and sections that forbid unknown and missing keys.

Every number has an upper bound, at least four times the largest value that params.yaml and its overlays
use. It rejects typing errors and leaves room for experiments. The combined memory need of several keys is
checked in ``relearn.params.forecast_memory``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
)
from pydantic_core import core_schema

from relearn.data.facts import CLASSES


def unique(items: list[Any]) -> list[Any]:
    if len(set(items)) != len(items):
        raise ValueError("values that differ from each other")
    return items


def ascending(items: list[Any]) -> list[Any]:
    if any(low >= high for low, high in pairwise(items)):
        raise ValueError("ascending values without repetition")
    return items


Count = Annotated[int, Field(ge=1, le=10_000)]
"""Things that are repeated or listed: ten times the most that is used, 1,000 pairs of points."""
Gpus = Annotated[int, Field(ge=1, le=64)]
"""GPUs of one training. They are no setting of a run, because they change only its time."""
Several = Annotated[int, Field(ge=0, le=10_000)]
"""The same, or none."""
Draws = Annotated[int, Field(ge=1, le=1_000_000)]
"""Random draws of one statistic: ten times the most that is used, 100,000."""
EpochCount = Annotated[int, Field(ge=1, le=10_000)]
"""Epochs: over thirty times the longest published training, 300."""
Steps = Annotated[int, Field(ge=1, le=10_000_000)]
"""Steps of an optimiser: over twenty times the longest published phase, 430,000."""
StepsOrNone = Annotated[int, Field(ge=0, le=10_000_000)]
"""The same, or none."""
BatchSize = Annotated[int, Field(ge=1, le=65_536)]
"""Examples of a batch: 32 times the largest published batch, 2,048."""
Batch = Annotated[BatchSize, Field(ge=2)]
"""The same where a batch of one has no variance."""
SampleCount = Annotated[int, Field(ge=1, le=10_000_000)]
"""Examples of a data set: nearly eight times ImageNet, the largest set of examples that is used, 1.3 million."""
SamplesOrAll = Annotated[int, Field(ge=0, le=10_000_000)]
"""The same; 0 is all."""
CharactersOrAll = Annotated[int, Field(ge=0, le=1_000_000_000)]
"""Characters of a text, 0 for all: ten times enwik8, the longest text that is used, 100 million."""
Length = Annotated[int, Field(ge=1, le=131_072)]
"""Positions of a sequence, and what is counted in them: four times the longest published context, 32,768."""
LengthOrNone = Annotated[int, Field(ge=0, le=131_072)]
"""The same; 0 is none."""
Width = Annotated[int, Field(ge=1, le=65_536)]
"""Channels of a layer: four times the widest published layer, 16,384 (ALBERT-xxlarge's feed-forward)."""
Heads = Annotated[int, Field(ge=1, le=1_024)]
"""Heads of an attention: 16 times the most that are published, 64 (ALBERT-xxlarge)."""
Layers = Annotated[int, Field(ge=1, le=1_024)]
"""Layers of a network: 28 times the deepest published one whose depth is a parameter, 36."""
Vocabulary = Annotated[int, Field(ge=1, le=262_144)]
"""Units of a vocabulary: over five times the largest published one, 50,265 (RoBERTa)."""
Side = Annotated[int, Field(ge=1, le=1_024)]
"""Pixels of a side: over four times ImageNet's 224."""
SideOrNone = Annotated[int, Field(ge=0, le=1_024)]
"""The same; 0 is none."""
Padding = Annotated[int, Field(ge=0, le=16)]
"""Pixels around an image before it is cropped: half a side of CIFAR-10, four times what is published."""
Class = Annotated[int, Field(ge=0, lt=CLASSES)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
"""Rates, norms and factors: a thousand times the largest that is used, 1,000; squares stay far inside single precision."""
NotNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
"""The same, or 0."""
Multiple = Annotated[float, Field(gt=0, le=4)]
"""Multiples of published channels, blocks and rates."""

LONGEST_LIST = 200
"""Values of a list: five times the longest that is used, 38 runs."""
Unique = Field(min_length=1, max_length=LONGEST_LIST, json_schema_extra={"uniqueItems": True})
Unique0 = Field(max_length=LONGEST_LIST, json_schema_extra={"uniqueItems": True})
T = TypeVar("T")
Distinct = Annotated[list[T], Unique, AfterValidator(unique)]
"""A list without repetition, in any order; ``Distinct0`` may be empty."""
Distinct0 = Annotated[list[T], Unique0, AfterValidator(unique)]
Rising = Annotated[list[T], Unique, AfterValidator(ascending)]
"""A list in ascending order; ``Rising0`` may be empty."""
Rising0 = Annotated[list[T], Unique0, AfterValidator(ascending)]
Milestones = Rising0[EpochCount]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Seeds = Distinct[Seed]
OwnSeeds = Distinct0[Seed]
"""Seeds of one part of a study; an empty list means those of the study."""


@dataclass(frozen=True)
class OneOf:
    """``Annotated[str, OneOf(registry)]``: one of the registry's names, as ``Literal`` with the same names."""

    names: Iterable[str]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.literal_schema(list(self.names))


class Unsettled(AttributeError):
    """Raised when a check reads a key that is missing or whose value is already rejected."""


class Section(BaseModel):
    """A mapping in which all keys are known and present; its checks are described in :mod:`relearn.params.conflicts`."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def __getattr__(self, name: str) -> Any:
        if name in type(self).model_fields:
            raise Unsettled(name)
        return super().__getattr__(name)  # type: ignore[misc]


S = TypeVar("S", bound=Section)


class _WithPlugins(BaseModel):
    @model_serializer(mode="wrap")
    def _given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in self.model_fields_set}


def also(names: Iterable[str], kind: Any) -> Callable[[type[S]], type[S]]:
    """Class decorator: the section may also have these keys, the names of plug-ins, with values of this type.

    A key that params.yaml does not have stays absent from the values in force, so that an installed plug-in changes no run.
    """
    fields: dict[str, Any] = dict.fromkeys(names, (kind, None))

    def add(model: type[S]) -> type[S]:
        if not fields:
            return model
        return cast(type[S], create_model(model.__name__, __base__=(_WithPlugins, model), **fields))

    return add
