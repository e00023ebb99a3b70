"""Weights and poisons travel as checksummed files: released, fetched over HTTP, checked, adopted. The page of the model zoo."""

import functools
import http.server
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import adopt, zoo
from relearn.models.timm_names import NAMES
from relearn.runs import provenance, record
from relearn.runs.node import parts

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
    assert cli.main([*words]) == 3 and f"allowed: {'0' * 64}" in capsys.readouterr().err
    escape = json.loads((release / "manifest.json").read_text())
    escape["parts"][0]["name"] = "../outside.part"
    (release / "manifest.json").write_text(json.dumps(escape))
    assert cli.main(["fetch-models", str(release / "manifest.json")]) == 3
    assert "'../outside.part' (text), allowed: plain file names" in capsys.readouterr().err
    assert taken == []


def test_only_one_clean_commit_into_an_empty_folder(
    results: Path, release: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    words = ["release-models", "--scale", "mini", "--from", str(results), "--out"]
    assert cli.main([*words, str(release)]) == 2
    assert "found a folder with files, allowed: an empty or new one" in capsys.readouterr().err
    assert cli.main([*words, str(tmp_path / "new"), "--study", "lrformer"]) == 2
    assert "found no run to release" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    code = {"version": "", "commit": "b" * 40, "dirty": False, "packages": {}}
    monkeypatch.setattr(provenance, "code", lambda version: code)
    make(PRETRAIN, tmp_path / "other")
    for path in (tmp_path / "other").rglob("*"):
        if path.is_file():
            path.replace(results.parents[1] / path.relative_to(tmp_path / "other"))
    assert cli.main([*words, str(tmp_path / "new")]) == 2
    assert "found runs of 2 commits or with changes, allowed: one clean commit" in capsys.readouterr().err


def set_at(value: Any, *keys: Any) -> Callable[[dict[str, Any]], None]:
    def change(manifest: Any) -> None:
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = value

    return change


WHOLE = {"name": "relearn-mini.0.part", "size": 3, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (set_at([], "parts"), "parts: found [], allowed: a list with at least one part"),
        (set_at({"name": "a"}, "parts"), "parts: found a mapping, allowed: a list with at least one part"),
        (set_at(3, "runs"), "runs: found 3, allowed: a list"),
        (set_at("huge", "scale"), "scale: found 'huge' (text), allowed: mini, small, medium, paper"),
        (set_at(["mini"], "scale"), "scale: found ['mini'], allowed: mini, small, medium, paper"),
        (set_at("../../outside", "commit"), "commit: found '../../outside' (text), allowed: "),
        (lambda manifest: manifest.pop("commit"), "commit: found nothing, allowed: "),
        (set_at(7, "parts", 0, "name"), "parts[0].name: found 7, allowed: plain file names"),
        (set_at("a.part", "parts", 0, "name"), "parts[0].name: found 'a.part' (text), allowed: plain"),
        (set_at("a\0.0.part", "parts", 0, "name"), "parts[0].name: found "),
        (set_at("12", "parts", 0, "size"), "parts[0].size: found '12' (text), allowed: a number of bytes"),
        (set_at(True, "parts", 0, "size"), "parts[0].size: found true, allowed: a number of bytes"),
        (set_at(None, "parts", 0, "sha256"), "parts[0].sha256: found nothing, allowed: 64 hexadecimal"),
        (set_at(["x"], "parts"), "parts[0]: found 'x' (text), allowed: a mapping of name, size, sha256"),
        (set_at([WHOLE, WHOLE], "parts"), "parts: relearn-mini.0.part: found a second part 0 beside"),
        (set_at([WHOLE | {"name": "relearn-mini.1.part"}], "parts"), "parts: relearn-mini.0.part: missing"),
        (set_at(f"a.{10**12}.part", "parts", 0, "name"), "parts: a.0.part: missing"),
    ],
)
def test_a_manifest_is_checked_whole_before_a_part_is_fetched(
    change: Callable[[dict[str, Any]], None],
    says: str,
    release: Path,
    taken: list[dict[str, bytes]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = release / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest))
    capsys.readouterr()
    assert cli.main(["fetch-models", str(file)]) == 3
    out, error = capsys.readouterr()
    assert f"{file}: {says}" in error and error.count("\n") == 1 and not out, error
    assert taken == []


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '"\xe9"'])
def test_what_is_no_manifest_is_named(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "manifest.json"
    file.write_bytes(text.encode("latin-1"))
    assert cli.main(["fetch-models", str(file)]) == 3
    error = capsys.readouterr().err
    assert f"{file}: found no manifest of models" in error and error.count("\n") == 1


def test_a_folder_is_no_manifest(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["fetch-models", str(release)]) == 2
    error = capsys.readouterr().err
    assert f"{release}: found a folder, allowed: " in error and error.count("\n") == 1
    assert cli.main(["fetch-models", str(release / "none.json")]) == 3
    assert cli.main(["fetch-models", "http://127.0.0.1:9/manifest.json"]) == 3
    assert cli.main(["fetch-models", "ftp://127.0.0.1/manifest.json"]) == 2
    assert "found ftp, allowed: http, https or a path" in capsys.readouterr().err


@pytest.fixture
def refused(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Releases into new/out; checks the status, that one line is printed and that nothing is left; gives the line."""

    def call(*words: str, status: int = 2, scale: str = "mini") -> str:
        out = tmp_path / "new/out"
        capsys.readouterr()
        said = ["release-models", "--scale", scale, "--from", str(results), "--out", str(out), *words]
        assert cli.main(said) == status
        told, error = capsys.readouterr()
        assert not told and error.count("\n") == 1, error
        assert not out.parent.exists()
        return error

    return call


@pytest.mark.parametrize("mib", ["0", "-1"])
def test_a_part_has_a_size(mib: str, refused: Callable[..., str]) -> None:
    assert f"--part-mib: found {mib}, allowed: 1 or more" in refused("--part-mib", mib)


def test_an_unknown_study_or_scale_is_told_the_known_ones(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert "--study: found nosuch, allowed: poisoning, freelb, " in refused("--study", "nosuch")
    assert "--scale: found bogus, allowed: mini, small, medium, paper" in refused(scale="bogus")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["release-models"]) == 2
    error = capsys.readouterr().err
    assert "params.yaml: scale: found nothing, allowed: mini, small, medium, paper" in error
    assert error.count("\n") == 1 and not (tmp_path / "release").exists()


def test_files_that_stayed_elsewhere_are_named_before_anything_is_written(
    results: Path, refused: Callable[..., str]
) -> None:
    (weights,) = results.rglob("weights.safetensors")
    left = {weights.name: record.digest(weights)}
    weights.unlink()
    error = refused(status=3)
    assert f"{weights}: missing" in error
    (weights.parent / "left_behind.json").write_text(json.dumps(left))
    error = refused(status=3)
    assert f"{weights.parent}: found files of 1 run" in error and "on another machine" in error


def test_an_edited_file_is_named_before_anything_is_written(
    results: Path, refused: Callable[..., str]
) -> None:
    (weights,) = results.rglob("weights.safetensors")
    weights.write_bytes(b"other")
    assert f"{weights}: torn or edited" in refused(status=3)


def test_an_interrupted_release_leaves_nothing(
    results: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    add, count = parts.Writer.add, iter(range(9))

    def some(self: parts.Writer, *what: Any) -> bool:
        if next(count) == 3:
            raise KeyboardInterrupt
        return add(self, *what)

    monkeypatch.setattr(parts.Writer, "add", some)
    assert "interrupted" in refused(status=130)
    monkeypatch.undo()
    out = tmp_path / "out"
    out.mkdir()
    (out / ".staged-1").mkdir()  # of a killed call
    (out / ".staged-1/old.0.part").touch()
    words = ("release-models", "--scale", "mini", "--from", str(results), "--out", str(out))
    assert cli.main([*words]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "relearn-mini.0.part"]


def test_a_terminated_release_leaves_nothing(
    results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    add = parts.Writer.add

    def stopped(self: parts.Writer, *what: Any) -> bool:
        signal.raise_signal(signal.SIGTERM)
        return add(self, *what)

    monkeypatch.setattr(parts.Writer, "add", stopped)
    out = tmp_path / "new/out"
    with pytest.raises(SystemExit) as ended:
        cli.main(["release-models", "--scale", "mini", "--from", str(results), "--out", str(out)])
    assert ended.value.code == 143 and not out.parent.exists()


def test_a_file_is_no_place_for_a_release(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = ("release-models", "--scale", "mini", "--from", str(results), "--out", str(tmp_path / "file"))
    assert cli.main([*words]) == 2
    assert "found a file, allowed: an empty or new folder" in capsys.readouterr().err


# the page of the model zoo ------------------------------------------------------------------------------------------


PAGE = (Path(__file__).parents[2] / "docs/model-zoo.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page() -> str:
    return zoo.page()


def test_the_page_is_what_the_code_gives(page: str) -> None:
    assert page == PAGE, "python -m relearn.cli.zoo > docs/model-zoo.md"


def test_every_network_has_one_row(page: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert sorted(rows) == sorted(NAMES)


def test_numbers_by_hand(page: str) -> None:
    lines = {name: line for line in page.splitlines() for name in re.findall(r"^\| `(\w+)` \|", line)}
    assert "| LipsFormer-Swin-T | 30,908,578 | 31 | 4.98 | 5.0 |" in lines["lipsformer_swin_tiny"]
    # 12 blocks of 384: 12·384² + 13·384 each, patches, positions, token, norm, head
    blocks = 12 * (12 * 384**2 + 13 * 384)
    rest = (16 * 16 * 3 + 1) * 384 + 197 * 384 + 384 + 2 * 384 + 385 * 1000
    small = f"{blocks + rest:,}"
    assert lines["residual_deit_small"].count(small) == 2, "ours and timm's"


def test_every_example_of_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "model-zoo.md", "exec"), {})
