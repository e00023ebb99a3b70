"""Count the parameters of the networks of zhu2022, tables 4.4 and 4.5.

The networks have their published width and depth.

Settings: networks (names of ``relearn.models.MODELS``; default: every published network). No inputs. Output: counts.csv, with
the columns of :data:`relearn.measures.parameter_counts.COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relearn.steps.csv_rows import write_rows

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Settings:
    networks: Sequence[str] | None = None


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module. Device and precision have no effect."""
    from functools import partial

    from relearn.measures.parameter_counts import COLUMNS, PUBLISHED, parameter_counts
    from relearn.models import create

    names = PUBLISHED if settings.networks is None else settings.networks
    rows = parameter_counts({name: partial(create, name) for name in names})
    write_rows(run.output("counts.csv"), COLUMNS, rows)
    run.finish(
        {
            "networks_count": len(rows),
            "published_count": sum(row["published_millions"] is not None for row in rows),
            "equal_count": sum(bool(row["equal"]) for row in rows),
            "equal_to_released_count": sum(bool(row["equal_to_released"]) for row in rows),
        },
        notes=["10 classes, RGB images, published width and depth"],
    )
