"""Canonical JSON, files in one rename under injected faults, and locks that die with their owner."""

import errno
import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.runs import atomic_files as durable

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(item, order)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@given(VALUES, st.randoms(use_true_random=False))
def test_canonical_json_says_the_value_and_nothing_of_its_order(value: Any, order: random.Random) -> None:
    text = durable.canonical(value)
    assert json.loads(text) == value
    assert durable.canonical(shuffled(value, order)) == text
    assert text.isascii()


def test_canonical_json_is_the_same_in_every_environment() -> None:
    value = {"ü": [1, 1.5, {"b": None, "a": True}], "z": "é", "a": {str(i): i for i in range(20)}}
    program = "import sys, json; from relearn.runs.atomic_files import canonical; print(canonical(json.loads(sys.argv[1])))"
    said = set()
    for seed, language, zone in (("0", "C", "UTC"), ("4711", "C.UTF-8", "Asia/Tokyo")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": language, "TZ": zone}
        command = [sys.executable, "-c", program, json.dumps(value)]
        said.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert said == {durable.canonical(value) + "\n"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_canonical_json_has_no_nan(value: Any) -> None:
    with pytest.raises(ValueError):
        durable.canonical(value)


def test_a_key_that_is_no_text_is_refused_with_its_place() -> None:
    assert json.loads(json.dumps({1: "a", "1": "b"})) == {"1": "b"}  # what JSON would silently do
    with pytest.raises(TypeError, match=r"a\.b: key 1 is int"):
        durable.canonical({"a": {"b": [{1: 2}]}})


def test_digest_is_sha256(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    assert durable.digest(tmp_path / "file") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_a_disk_that_refuses_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    file = tmp_path / "record.json"
    durable.write(file, b"old")

    def refuse(*words: Any, **more: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(OSError) as caught:
            durable.write(file, b"new")
    assert (file.read_bytes(), [path.name for path in tmp_path.iterdir()]) == (b"old", ["record.json"])
    assert caught.value.errno == number
    assert "free" in str(caught.value) and str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_a_write_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content[:7])))
    content = os.urandom(1000)
    durable.write(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == content


def test_sweep_takes_only_what_it_is_asked_for(tmp_path: Path) -> None:
    for name in (".a.1.tmp", ".b.2.tmp", "a", "a.tmp"):
        (tmp_path / name).touch()
    durable.sweep(tmp_path, "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.2.tmp", "a", "a.tmp"]


def test_a_lock_is_for_one_and_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    assert durable.lock_is_free(path)
    with durable.Lock(path):
        assert not durable.lock_is_free(path)
        with pytest.raises(durable.Busy, match=rf"run\.lock: held by process {os.getpid()}"):
            durable.Lock(path, wait_s=0.0).__enter__()
    assert durable.lock_is_free(path)
    with durable.Lock(path, wait_s=0.0) as again:
        assert not again.waited
        assert durable.holder(path) == durable.Holder(os.getpid())
        path.write_text("4711 node7\n")  # as another machine does
        with pytest.raises(durable.Busy, match=r"run\.lock: held by process 4711 on node7, not free"):
            durable.Lock(path, wait_s=0.0).__enter__()


def test_a_lock_dies_with_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    program = "import os, signal, sys; from pathlib import Path; from relearn.runs.atomic_files import Lock\n"
    program += (
        "Lock(Path(sys.argv[1])).__enter__(); print('held', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (-9, "held\n")
    assert durable.lock_is_free(path)


def test_a_file_system_without_locks_is_named_once_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """NFS without its lock service answers ENOLCK, Lustre without -o flock ENOSYS."""

    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(durable.fcntl, "flock", refuse)
    durable._no_locks.cache_clear()
    for name in ("a.lock", "b.lock"):
        with durable.Lock(tmp_path / name, wait_s=0.0) as lock:
            assert not lock.waited and durable._holder(lock.path.read_bytes()).pid == os.getpid()
    said = capsys.readouterr().err
    assert said.startswith("no file locks: ") and said.count("\n") == 1


def test_staged_files_take_their_places_together_and_only_when_all_is_well(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    for name in ("tables/a.csv", "kept.md"):
        (tmp_path / name).write_text("old")
    with pytest.raises(ValueError, match="half way"), durable.staged(tmp_path) as new:
        (new / "tables").mkdir()
        (new / "tables/a.csv").write_text("new")
        raise ValueError("half way")
    assert _files(tmp_path) == {"tables/a.csv": "old", "kept.md": "old"}
    with durable.staged(tmp_path) as new:
        (new / "tables").mkdir()
        (new / "tables/a.csv").write_text("new")
        (new / "b.html").write_text("new")
        assert (tmp_path / "tables/a.csv").read_text() == "old"
    assert _files(tmp_path) == {"tables/a.csv": "new", "b.html": "new", "kept.md": "old"}


def test_a_killed_writer_leaves_the_old_files_and_its_folder_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom relearn.runs import atomic_files as durable\n"
        "with durable.staged(Path(sys.argv[1])) as new:\n"
        "    (new / 'a').write_text('new')\n    print(flush=True)\n    sys.stdin.readline()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert killed.stdin and killed.stdout and killed.stdout.readline()
    with durable.staged(tmp_path) as new:
        assert sorted(path.name for path in tmp_path.glob(".staged-*")) == sorted(
            f".staged-{pid}" for pid in (os.getpid(), killed.pid)
        ), "a living writer's folder stays"
    killed.stdin.write("\n")
    killed.stdin.close()
    assert killed.wait() == -9
    killed.stdout.close()
    assert (tmp_path / "a").read_text() == "old" and (tmp_path / f".staged-{killed.pid}").is_dir()
    with durable.staged(tmp_path) as new:
        (new / "b").write_text("new")
    assert _files(tmp_path) == {"a": "old", "b": "new"}


def test_a_folder_left_before_it_was_locked_goes_once_it_is_old(tmp_path: Path) -> None:
    old, young = (tmp_path / f".staged-new-{name}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (0, 0))
    with durable.staged(tmp_path):
        assert young.is_dir() and not old.exists()


def _files(folder: Path) -> dict[str, str]:
    """Every file below a folder and its text."""
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()
    }
