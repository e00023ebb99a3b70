"""Weights and poisons travel as checksummed files: released, fetched over HTTP, checked, handed to `relearn adopt`."""

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import adopt
from relearn.runs import provenance, record

from .test_adopt import CRAFT, PRETRAIN, make


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of one clean commit, weights and poisons, and one without either."""
    code = {"version": "", "commit": "a" * 40, "dirty": False, "packages": {}}
    monkeypatch.setattr(provenance, "code", lambda version: code)
    for job in (PRETRAIN, CRAFT):
        make(job, tmp_path / "there")
    return tmp_path / "there/results/mini"


@pytest.fixture
def release(results: Path, tmp_path: Path) -> Path:
    words = ("release-models", "--scale", "mini", "--from", str(results), "--out", str(tmp_path / "release"))
    assert cli.main([*words]) == 0
    return tmp_path / "release"


@pytest.fixture
def address(release: Path) -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=release)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, bytes]]:
    """What `relearn adopt` is given, by the path below its folder."""
    found: list[dict[str, bytes]] = []

    def take(folder: Path, scale: str, whole: bool) -> int:
        assert scale == "mini" and not whole
        files = (path for path in folder.rglob("*") if path.is_file())
        found.append({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
        return 0

    monkeypatch.setattr(adopt, "take", take)
    return found


def test_what_is_released_comes_back_byte_for_byte(
    results: Path, release: Path, address: str, taken: list[dict[str, bytes]], tmp_path: Path
) -> None:
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["scale"] == "mini" and manifest["commit"] == "a" * 40
    assert {one["step"] for one in manifest["runs"]} == {"pretrain", "craft"}
    keep = tmp_path / "kept"
    assert cli.main(["fetch-models", f"{address}/manifest.json", "--keep", str(keep)]) == 0
    assert cli.main(["fetch-models", str(release / "manifest.json")]) == 0
    over_http, from_disk = taken
    assert over_http == from_disk
    files = {name: (results.parents[1] / name).read_bytes() for name in over_http}
    assert over_http == files and any(name.endswith("poisons.safetensors") for name in files)
    records, problems = record.read_all(results / "runs")
    assert len(files) == sum(1 + len(one["outputs"]) for one in records) and not problems


def test_a_changed_part_or_manifest_is_refused(
    release: Path, address: str, taken: list[dict[str, bytes]], tmp_path: Path, capsys: Any
) -> None:
    (part,) = release.glob("*.part")
    whole = part.read_bytes()
    part.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    assert cli.main(["fetch-models", str(release / "manifest.json")]) != 0
    assert f"{part}: found sha256" in capsys.readouterr().err
    assert cli.main(["fetch-models", f"{address}/manifest.json", "--keep", str(tmp_path / "kept")]) != 0
    assert part.name in capsys.readouterr().err
    words = ("fetch-models", str(release / "manifest.json"), "--sha256", "0" * 64)
    assert cli.main([*words]) == 2 and f"allowed: {'0' * 64}" in capsys.readouterr().err
    escape = json.loads((release / "manifest.json").read_text())
    escape["parts"][0]["name"] = "../outside.part"
    (release / "manifest.json").write_text(json.dumps(escape))
    assert cli.main(["fetch-models", str(release / "manifest.json")]) == 2
    assert "'../outside.part', allowed: plain file names" in capsys.readouterr().err
    assert taken == []


def test_only_one_clean_commit_into_an_empty_folder(
    results: Path, release: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    words = ["release-models", "--scale", "mini", "--from", str(results), "--out"]
    assert cli.main([*words, str(release)]) == 2
    assert "found a folder with files, allowed: an empty or new one" in capsys.readouterr().err
    assert cli.main([*words, str(tmp_path / "new"), "--study", "lrformer"]) == 2
    assert "found no run to release" in capsys.readouterr().err
    code = {"version": "", "commit": "b" * 40, "dirty": False, "packages": {}}
    monkeypatch.setattr(provenance, "code", lambda version: code)
    make(PRETRAIN, tmp_path / "other")
    for path in (tmp_path / "other").rglob("*"):
        if path.is_file():
            path.replace(results.parents[1] / path.relative_to(tmp_path / "other"))
    assert cli.main([*words, str(tmp_path / "new")]) == 2
    assert "found runs of 2 commits or with changes, allowed: one clean commit" in capsys.readouterr().err
