"""Checkpoints of a run: tensors as safetensors, the rest as JSON; the previous one is kept, and checksums detect damage."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

from relearn.runs import atomic_files as durable

SLOTS = ("0", "1")


class Checkpoint:
    """`save` a dict and `load` the newest valid one; meant for ``run.work``, which survives a failed job.

    The dict may nest dicts and lists and holds tensors, numbers, strings, booleans and None (keys are strings or whole numbers).
    Saves alternate between two slots. A slot's tensors are written first and its JSON, which holds their sha256, last,
    each in one rename. A kill or a full disk at any moment therefore leaves the previous checkpoint intact. If the newest one is
    damaged, a warning is issued and the previous one is used. `identity` (for instance the run id)
    rejects checkpoints that belong to something else.
    """

    def __init__(self, folder: Path | str, identity: str = "") -> None:
        self.folder = Path(folder)
        self.identity = identity
        self._unusable: set[str] = set()

    def save(self, state: dict[str, Any]) -> None:
        """Write `state`. Raises TypeError for a value of another type, OSError (one line) when the disk refuses."""
        from safetensors.torch import save

        self.folder.mkdir(parents=True, exist_ok=True)
        durable.sweep(self.folder)
        number, slot = self._next()
        tensors: dict[str, Any] = {}
        tree = _lift(state, tensors, "")
        blob = save({key: value.detach().contiguous().cpu().clone() for key, value in tensors.items()})
        sha = hashlib.sha256(blob).hexdigest()
        durable.write(self.folder / f"{slot}.safetensors", blob)
        head = {"number": number, "identity": self.identity, "tensors": sha, "state": tree}
        head["sha256"] = hashlib.sha256(durable.canonical(head).encode()).hexdigest()
        self._unusable.discard(slot)
        durable.write(self.folder / f"{slot}.json", json.dumps(head, allow_nan=False).encode())

    def load(self) -> dict[str, Any] | None:
        """The newest valid checkpoint with its tensors on the CPU, or None; each damaged one causes a RuntimeWarning."""
        numbers = self._numbers()
        for slot in sorted(numbers, key=lambda one: (numbers[one] is None, numbers[one] or 0), reverse=True):
            try:
                return self._read(slot)
            except (OSError, ValueError, KeyError, TypeError) as error:
                self._unusable.add(slot)
                warnings.warn(
                    f"{self.folder.name}/{slot}.json: checkpoint unusable ({error}), trying the previous one",
                    RuntimeWarning,
                    stacklevel=2,
                )
        if numbers:
            text = f"{self.folder.name}: no sound checkpoint is left, starting again"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return None

    def _read(self, slot: str) -> dict[str, Any]:
        from safetensors.torch import load

        head = json.loads((self.folder / f"{slot}.json").read_bytes())
        claimed = head.pop("sha256")
        if hashlib.sha256(durable.canonical(head).encode()).hexdigest() != claimed:
            raise ValueError("its JSON does not match its sha256")
        if head["identity"] != self.identity:
            raise ValueError(f"it belongs to {head['identity']!r}, not to {self.identity!r}")
        blob = (self.folder / f"{slot}.safetensors").read_bytes()
        if hashlib.sha256(blob).hexdigest() != head["tensors"]:
            raise ValueError("its tensors do not match their sha256")
        state = _lower(head["state"], load(blob))
        assert isinstance(state, dict)
        return state

    def _numbers(self) -> dict[str, int | None]:
        """Slots that hold a JSON file, with their save number; None for a damaged file."""
        found: dict[str, int | None] = {}
        for slot in SLOTS:
            file = self.folder / f"{slot}.json"
            if file.exists():
                try:
                    found[slot] = int(json.loads(file.read_bytes())["number"])
                except (OSError, ValueError, KeyError, TypeError):
                    found[slot] = None
        return found

    def _next(self) -> tuple[int, str]:
        """Number and slot of the next save: never the slot of the newest valid checkpoint."""
        numbers = {slot: number for slot, number in self._numbers().items() if number is not None}
        sound = {slot: number for slot, number in numbers.items() if slot not in self._unusable}
        slot = SLOTS[1 - SLOTS.index(max(sound, key=lambda one: sound[one]))] if sound else SLOTS[0]
        return max(numbers.values(), default=-1) + 1, slot


def _lift(value: Any, tensors: dict[str, Any], where: str) -> Any:
    """The JSON tree of `value`; tensors are moved to `tensors` and replaced by {"tensor": key}."""
    if hasattr(value, "detach") and hasattr(value, "contiguous"):
        tensors[where] = value
        return {"tensor": where}
    if isinstance(value, dict):
        bad = next((key for key in value if not isinstance(key, (str, int))), None)
        if bad is not None:
            raise TypeError(
                f"checkpoint {where or 'state'}: key {bad!r}, only text and whole numbers are allowed"
            )
        # pairs, because JSON would convert the integer keys of an optimiser's state to strings
        return {"dict": [[key, _lift(item, tensors, f"{where}/{key}")] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_lift(item, tensors, f"{where}/{index}") for index, item in enumerate(value)]}
    if isinstance(value, float):
        return {"float": value.hex()}  # exact, including NaN and infinity
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"checkpoint {where}: {type(value).__name__}, only tensors and plain values are allowed")


def _lower(tree: Any, tensors: dict[str, Any]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, value),) = tree.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "float":
        return float.fromhex(value)
    if kind == "dict":
        return {key: _lower(item, tensors) for key, item in value}
    items = [_lower(item, tensors) for item in value]
    return items if kind == "list" else tuple(items)
