"""The file of prepared data: arrays as safetensors, and a header. Equal data give equal bytes. torch is imported only to read tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HEADER = "relearn"  # one key with one JSON text, because safetensors keeps several keys in no fixed order


def write(path: Path, arrays: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write NumPy arrays and the header.

    Raises:
        OSError: the file cannot be written.
    """
    import numpy as np
    from safetensors.numpy import save_file

    path.touch()
    mode = path.stat().st_mode  # set by the umask; safetensors makes files readable by the owner only
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(whole, path, {HEADER: json.dumps(dict(header), sort_keys=True)})
    path.chmod(mode)


def read(
    path: Path | str,
    what: str,
    step: str,
    *,
    fields: Sequence[str],
    arrays: Sequence[str],
    framework: str = "np",
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a file.

    Args:
        what: what the file should hold, as in "not a prepared corpus".
        step: the step that writes such a file, as in "gradinit prepare_translation".
        fields, arrays: the names that must be in the header and among the arrays.
        framework: np for NumPy's arrays, pt for torch's tensors.

    Raises:
        SafetensorError: the file is damaged, or it is no safetensors file; one line.
        ValueError: it holds something else; one line.
        OSError: it cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework=framework) as file:
            header = json.loads((file.metadata() or {}).get(HEADER, "{}"))
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, json.JSONDecodeError) as fault:
        told = " ".join(str(fault).split())
        raise SafetensorError(
            f"{path}: not a safetensors file ({told}); `relearn {step}` writes one"
        ) from None
    missing = [name for name in fields if name not in header] + [name for name in arrays if name not in found]
    if missing:
        raise ValueError(
            f"{path}: not a prepared {what}, {', '.join(missing)} missing; `relearn {step}` writes one"
        )
    return header, found
