"""The reader of ``claims.json``, as :func:`relearn.report.claims_formats.as_json` writes it; it checks what other modules rely on."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from relearn.report.verdict_words import MEANINGS
from relearn.runs.record_file import RecordError

TEXT, NUMBER, MAPPING = (str,), (int, float, type(None)), (dict,)
WORDS: dict[tuple[type, ...], str] = {
    TEXT: "text",
    NUMBER: "a number or null",
    MAPPING: "a mapping",
    (list,): "a list",
    (int,): "a whole number",
    (bool,): "true or false",
    (dict, type(None)): "a mapping or null",
}
REQUIRED = ("section", "id", "verdict")
KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys((*REQUIRED, "unit", "method"), TEXT),
    **dict.fromkeys(("effect", "low", "high"), NUMBER),
    "n": MAPPING,
    "cost": (dict, type(None)),
    "provisional": (bool,),
    "runs": (list,),
}


def read(path: Path, remedy: str = "allowed: as `relearn render` writes it") -> dict[str, Any]:
    """Scale and claims, each with the sorted list of its runs.

    Args:
        remedy: ends the line of an error.

    Raises:
        RecordError: the file is damaged; one line with the path, the claim and the key.
        OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_bytes())
        fault = _fault(content)
    except ValueError as error:
        fault = str(error)
    except RecursionError:
        fault = "nested too deeply"
    if fault:
        raise RecordError(f"{path}: {fault}; {remedy}") from None
    for claim in content["claims"]:
        if "runs" in claim:
            claim["runs"] = unfolded(claim["runs"])
    return dict(content)


def unfolded(runs: Iterable[str]) -> list[str]:
    """The folders of runs that are written like ``a/{x,y}/seed{0,1}``, sorted; the inverse of `claims_formats.folded`."""
    found = []
    for run in runs:
        pieces = re.split(r"\{([^{}]*)\}", run)  # every second one stood in braces
        choices = [piece.split(",") if at % 2 else [piece] for at, piece in enumerate(pieces)]
        found += ["".join(chosen) for chosen in itertools.product(*choices)]
    return sorted(found)


def _fault(content: Any) -> str:
    if not isinstance(content, dict):
        return f"found {_shown(content)}, allowed: a mapping with scale and claims"
    if fault := _wrong(content, "scale", TEXT) or _wrong(content, "claims", (list,)):
        return fault
    found = enumerate(content["claims"], 1)
    return next((f"claim {_name(one, at)}: {fault}" for at, one in found if (fault := _of_claim(one))), "")


def _name(one: Any, at: int) -> str:
    names = [one.get(key) for key in ("section", "id")] if isinstance(one, dict) else [None]
    return "/".join(map(str, names)) if all(isinstance(name, str) for name in names) else str(at)


def _of_claim(one: Any) -> str:
    if not isinstance(one, dict):
        return f"found {_shown(one)}, allowed: a mapping"
    for key, kind in KINDS.items():
        if (key in one or key in REQUIRED) and (fault := _wrong(one, key, kind)):
            return fault
    if odd := [run for run in one.get("runs", ()) if not isinstance(run, str)]:
        return f"runs has {_shown(odd[0])}, allowed: text"
    if one["verdict"] not in MEANINGS:
        return f"verdict is {_shown(one['verdict'])}, allowed: {', '.join(MEANINGS)}"
    cost, count, effect = one.get("cost") or {}, one.get("n", {}), one.get("effect")
    for key in count:
        if fault := _wrong(count, key, (int,)):
            return f"n.{fault}"
    if "targets" in count and "victims" not in count:
        return "n has targets and no victims"
    if "cases" in count and effect is not None and not 0 <= effect <= 1:
        return f"effect is {effect}, allowed: 0 to 1, a share of the cases"
    return f"cost.{fault}" if "cpu_s" in cost and (fault := _wrong(cost, "cpu_s", NUMBER)) else ""


def _wrong(values: dict[str, Any], key: str, kind: tuple[type, ...]) -> str:
    """What is wrong with one value; "" if nothing is."""
    if key not in values:
        return f"the key {key} is missing"
    value = values[key]
    if isinstance(value, kind) and (not isinstance(value, bool) or kind == (bool,)):
        return ""
    return f"{key} is {_shown(value)}, allowed: {WORDS[kind]}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:60]
