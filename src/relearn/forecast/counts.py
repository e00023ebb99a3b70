"""The table of counted networks: operations of one sample's forward pass, by the network's description.

The package includes the networks of the four scales as set in params.yaml. Networks added by a user are counted once, by
``relearn plan --calibrate``, and stored in the cache folder.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Mapping
from dataclasses import astuple
from functools import cache
from pathlib import Path

from relearn.runs.atomic_files import canonical, write
from relearn.studies.work import Counts, Net

SHIPPED = Path(__file__).with_name("counts.json.xz")


def key(net: Net) -> str:
    """12 hex digits that identify a network and the shape of its samples."""
    described = {"build": net.build, "arguments": dict(net.arguments), "shape": list(net.shape)}
    return hashlib.sha256(canonical(described).encode()).hexdigest()[:12]


def own_file() -> Path:
    """The file of this user's counts."""
    from relearn.data.cache import cache_folder

    return cache_folder() / "forecast" / "counts.json.xz"


@cache
def table() -> dict[str, Counts]:
    """Every counted network; the user's counts take precedence over the shipped ones."""
    return {**_read(SHIPPED), **_read(own_file())}


def counts_of(net: Net | Counts) -> Counts | None:
    """The counts of a network; None if it has not been counted yet."""
    return net if isinstance(net, Counts) else table().get(key(net))


def keep(found: Mapping[str, Counts], path: Path) -> None:
    """Add counts to a file, sorted by key."""
    rows = {name: [_short(value) for value in astuple(one)] for name, one in {**_read(path), **found}.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f' "{name}": {json.dumps(rows[name])}' for name in sorted(rows))
    write(path, lzma.compress(f"{{\n{lines}\n}}\n".encode(), preset=9 | lzma.PRESET_EXTREME))
    table.cache_clear()


def _read(path: Path) -> dict[str, Counts]:
    try:
        rows = json.loads(lzma.decompress(path.read_bytes()))
        return {name: Counts(*row) for name, row in rows.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, OSError, lzma.LZMAError) as error:
        if path != SHIPPED:  # a torn file of the cache: `relearn plan --calibrate` counts its networks again
            return {}
        raise ValueError(f"{path}: found {error}, allowed: the table of the package") from None


def _short(value: float) -> float | int:
    """The value rounded to four significant digits, more than a forecast needs."""
    return int(value) if value == int(value) and value < 1e6 else float(f"{value:.4g}")
