"""The schema of params.yaml, composed from the studies' sections, and a function that loads the file.

The models are strict: text is never converted to a number, nor a boolean to an integer; integers are accepted where floats are expected.
No key has a default, so every run states all its values. Pydantic is imported only inside functions, because a machine
that runs single steps does not need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.params import reading
from relearn.studies.study import all_studies

if TYPE_CHECKING:
    from relearn.params.forecast_memory import Need
    from relearn.params.types import Section


def load(
    path: str | Path = "params.yaml", scale: str | None = None, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Load the effective parameters, with every value explicit; see :func:`relearn.params.reading.load`."""
    return reading.load(path, scale, overrides, model=schema())


@cache
def schema() -> type[Section]:
    """The pydantic model of params.yaml: the scale, and one section per study."""
    from typing import Literal

    from pydantic import create_model

    from relearn.params.types import Section

    sections: dict[str, Any] = {study.name: (study.part("params").SECTION, ...) for study in all_studies()}
    scale: Any = Literal["mini", "small", "medium", "paper"]
    return create_model("Params", __base__=Section, scale=(scale, ...), **sections)


def json_schema() -> dict[str, Any]:
    """The type and range of each key as JSON Schema (draft 2020-12), for editors."""
    from relearn.params.messages import tree_of

    tree = tree_of(schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **tree, "title": "params.yaml"}


def needs(values: Mapping[str, Any]) -> Iterator[Need]:
    """Memory forecasts of the jobs that valid parameters define."""
    from relearn.params import conflicts

    yield from conflicts.needs(schema().model_validate(dict(values)))
