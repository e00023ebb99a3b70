"""relearn fetch-models: take trained weights and crafted poisons that `relearn release-models` wrote, and skip their training.

    relearn fetch-models https://example.org/models/manifest.json
    relearn fetch-models release/manifest.json

Each part is fetched into the cache and checked against the size and the sha256 of the manifest, then `relearn adopt` takes the
runs that fit today's plan: same settings, same code, inputs with the same bytes. So run the steps that prepare data first;
runs that wait for them, or that fit no more, are counted. Both engines count what was taken as done.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


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
        OSError: the manifest or a part cannot be fetched.
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
        return address.read_bytes(), address.parent
    import requests

    try:
        answer = requests.get(address, timeout=30)
        answer.raise_for_status()
    except requests.RequestException as error:
        raise OSError(f"{address}: {type(error).__name__} {' '.join(str(error).split())}") from None
    return answer.content, address.rpartition("/")[0]


def parse_manifest(text: bytes, name: str | Path, sha256: str | None) -> dict[str, Any]:
    """The manifest.

    Raises:
        ValueError: another checksum than asked, no JSON, or a key or a part's name that is missing or not allowed.
    """
    import hashlib

    found = hashlib.sha256(text).hexdigest()
    if sha256 and found != sha256:
        raise ValueError(f"{name}: found sha256 {found}, allowed: {sha256}")
    try:
        manifest = json.loads(text)
        parts = [(one["name"], int(one["size"]), one["sha256"]) for one in manifest["parts"]]
        _ = manifest["scale"], manifest["commit"], manifest["runs"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{name}: found no manifest of models ({type(error).__name__}: {error})") from None
    if wrong := [one for one, _, _ in parts if Path(one).name != one or not one.endswith(".part")]:
        raise ValueError(
            f"{name}: found a part named {wrong[0]!r}, allowed: plain file names that end in .part"
        )
    return manifest


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
        raise ValueError(f"{path}: found {fault}")
    return path
