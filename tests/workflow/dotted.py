"""Values of params.yaml by their dotted keys."""

from collections.abc import Mapping
from typing import Any


def lay(values: Mapping[str, Any], params: dict[str, Any]) -> None:
    """Set values by dotted key in what params.yaml says."""
    for key, value in values.items():
        *above, last = key.split(".")
        inside = params
        for part in above:
            inside = inside[part]
        inside[last] = value
