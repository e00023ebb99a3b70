"""A place where a verb could not write its folder or socket is refused before it works."""

import socket
import sys
from pathlib import Path

import pytest

from relearn import cli
from relearn.cli import docs, warm

linux_alone = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="warm starts need Linux")


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_is_no_folder_of_docs(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "material", lambda root: pytest.fail("it works already"))
    (tmp_path / "file").write_text("x")
    assert cli.main(["docs", "--out", str(tmp_path / out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"relearn docs: --out {tmp_path / out}: found a file")
    assert said.endswith("allowed: a folder\n") and said.count("\n") == 1


@linux_alone
@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        ("file", 2, "found a file, allowed: a new path, or a socket that no server listens at"),
        ("folder", 2, "found a folder, allowed: a new path, or a socket that no server listens at"),
        ("nowhere/socket", 3, "no folder {0}/nowhere"),
        ("file/socket", 3, "no folder {0}/file"),
    ],
)
def test_what_is_no_socket_is_refused_at_once(
    place: str,
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(warm, "load", lambda: pytest.fail("it imports"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    assert cli.main(["warm", "--socket", str(tmp_path / place)]) == code
    said = capsys.readouterr().err
    assert said == f"relearn warm: --socket {tmp_path / place}: {says.format(tmp_path)}\n"


@linux_alone
def test_a_dead_socket_and_a_new_path_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("dead")
    for place in ("dead", "new"):
        warm.check_socket(Path(place))
