"""Check whether a safetensors file is complete, without reading its tensors. Standard library only.

A safetensors file consists of eight bytes (the length n of its header, little-endian), n bytes of JSON that give each tensor's
byte range, and the tensors' bytes. The safetensors library reports what is wrong but not in which file.
"""

from __future__ import annotations

import json
from pathlib import Path

LONGEST_HEADER = 100_000_000  # bytes, the format's own limit


def fault_of(path: Path) -> str | None:
    """Why a file is not a complete safetensors file, in a few words; None if it is one.

    Raises OSError if it cannot be read.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(LONGEST_HEADER, size - 8):
            return "not a safetensors file, or truncated"
        try:
            header = json.loads(file.read(length))
            ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return "not a safetensors file, its header cannot be read"
    expected = 8 + length + max(ends, default=0)
    return None if size == expected else f"{size} bytes, its header says {expected}"
