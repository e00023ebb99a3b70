"""relearn fetch-models: take weights and poisons that `relearn release-models` wrote, and skip their training.

    relearn fetch-models https://example.org/models/manifest.json
    relearn fetch-models release/manifest.json

Each part is fetched into the cache and checked against the size and the sha256 of the manifest, then `relearn adopt` takes the
runs that fit today's plan: same settings, same code, inputs with the same bytes. So run the steps that prepare data first;
runs that wait for them, or that fit no more, are counted. Both engines count what was taken as done.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from relearn.params.messages import format_value
from relearn.params.reading import SCALES
from relearn.runs.record_file import RecordError

Rule = tuple[Callable[[Any], object], str]
RULES: dict[str, Rule] = {
    "scale": (lambda value: value in SCALES, ", ".join(SCALES)),
    "commit": (lambda value: _matches("[0-9a-f]{40,64}", value), "the hexadecimal name of a commit"),
    "runs": (lambda value: isinstance(value, list), "a list"),
    "parts": (lambda value: isinstance(value, list) and value, "a list with at least one part"),
}
PART: dict[str, Rule] = {
    "name": (
        lambda value: _matches(r"[\w-][\w.-]*\.[0-9]+\.part", value),
        "plain file names that end in .<number>.part",
    ),
    "size": (lambda value: type(value) is int and value > 0, "a number of bytes, 1 or more"),
    "sha256": (lambda value: _matches("[0-9a-f]{64}", value), "64 hexadecimal digits"),
}
"""What a manifest and each of its parts hold: key → check and what it allows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "manifest", type=_address, help="address or path of a manifest.json; its parts are in the same folder"
    )
    add("--sha256", help="checksum of the manifest; any other manifest is refused")
    add("--keep", type=Path, help="folder for the parts; default: the cache")


def main(args: argparse.Namespace) -> int:
    """Fetch, check and adopt.

    Raises:
        ValueError: a manifest that is none or that has another checksum, or a damaged part beside a local one.
        DownloadError: the manifest or a part cannot be fetched.
    """
    import contextlib

    from relearn.cli import adopt

    text, base = read(args.manifest)
    manifest = parse_manifest(text, args.manifest, args.sha256)
    found = [part(one, base, args.keep, manifest["commit"]) for one in manifest["parts"]]
    print(f"{len(found)} files checked, {len(manifest['runs'])} runs of scale {manifest['scale']}")
    with contextlib.ExitStack() as stack:
        return adopt.take(adopt.open_records(found, stack), manifest["scale"], whole=False)


def _address(text: str) -> str | Path:
    return text if "://" in text else Path(text)


def read(address: str | Path) -> tuple[bytes, str | Path]:
    """The bytes of the manifest, and the address or the path of its folder."""
    if isinstance(address, Path):
        if address.is_dir():
            raise ValueError(f"{address}: found a folder, allowed: the address or path of a manifest.json")
        return address.read_bytes(), address.parent
    if not re.match("https?://", address, re.IGNORECASE):
        raise ValueError(f"{address}: found {address.partition(':')[0]}, allowed: http, https or a path")
    import requests

    from relearn.data.remote import DownloadError

    try:
        answer = requests.get(address, timeout=30)
        answer.raise_for_status()
    except requests.RequestException as error:
        raise DownloadError(f"{address}: {type(error).__name__} {' '.join(str(error).split())}") from None
    return answer.content, address.rpartition("/")[0]


def parse_manifest(text: bytes, name: str | Path, sha256: str | None) -> dict[str, Any]:
    """The manifest.

    Raises:
        ValueError: another checksum than asked, no JSON, a key that is missing or has a value that is not allowed, or parts that are
            not those of one release; one line with the name of the manifest and the key.
    """
    import hashlib

    from relearn.runs.node import parts

    found = hashlib.sha256(text).hexdigest()
    if sha256 and found != sha256.lower():
        raise RecordError(f"{name}: found sha256 {found}, allowed: {sha256}")
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{name}: found no manifest of models ({type(error).__name__}: {error})") from None
    if not isinstance(manifest, dict):
        raise RecordError(f"{name}: found no manifest of models, allowed: a mapping of {', '.join(RULES)}")
    _check(manifest, RULES, f"{name}: ")
    for index, one in enumerate(manifest["parts"]):
        if not isinstance(one, dict):
            allowed = f"a mapping of {', '.join(PART)}"
            raise RecordError(f"{name}: parts[{index}]: found {format_value(one)}, allowed: {allowed}")
        _check(one, PART, f"{name}: parts[{index}].")
    try:
        parts.in_order(Path(one["name"]) for one in manifest["parts"])
    except ValueError as error:
        raise RecordError(f"{name}: parts: {error}") from None
    return manifest


def _check(values: Mapping[str, Any], rules: Mapping[str, Rule], where: str) -> None:
    for key, (right, allowed) in rules.items():
        if not right(values.get(key)):
            raise RecordError(f"{where}{key}: found {format_value(values.get(key))}, allowed: {allowed}")


def _matches(pattern: str, value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None


def part(one: dict[str, Any], base: str | Path, keep: Path | None, commit: str) -> Path:
    """The checked file of a part: beside a local manifest, in the cache, or fetched now."""
    from relearn.data.cache import cache_folder
    from relearn.data.download import fetch
    from relearn.data.remote import Remote, fault_of

    remote = Remote(one["name"], (f"{base}/{one['name']}",), int(one["size"]), one["sha256"])
    if isinstance(base, str):
        return fetch(remote, folder=keep or cache_folder() / "models" / commit[:10])
    path = base / one["name"]
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file, but the manifest names it")
    if fault := fault_of(path, remote):
        raise RecordError(f"{path}: found {fault}")
    return path
