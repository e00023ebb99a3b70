"""Downloads from a server that fails on purpose: no unchecked or partial file is ever taken for the real one."""

import errno
import hashlib
import threading
from pathlib import Path

import pytest

from relearn.data.download import fetch
from relearn.data.remote import DownloadError, Remote, fault_of


def remote(server, *urls: str, **changes: object) -> Remote:
    body = server.body
    given: dict = {
        "name": "file.bin",
        "urls": urls or (server.url,),
        "size": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return Remote(**(given | changes))


def get(what: Remote, folder: Path, **changes: object) -> Path:
    given: dict = {"timeout_s": 5.0, "retries": 2}
    return fetch(what, folder=folder, **(given | changes))


def visible(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")]


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.delenv("RELEARN_OFFLINE", raising=False)
    monkeypatch.delenv("RELEARN_CACHE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)
    # A file of an earlier private folder on this machine must not be found.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("temporary")))


def test_fetched_once_then_taken_from_the_cache(server, tmp_path: Path) -> None:
    path = get(remote(server), tmp_path)
    assert path == tmp_path / "file.bin" and path.read_bytes() == server.body
    assert path.stat().st_mode & 0o777 == 0o644
    assert get(remote(server), tmp_path) == path
    assert len(server.asked) == 1 and visible(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("plan", [["503"], ["429", "500"], ["html"], ["wrong"], ["cut"], ["cut", "html"]])
def test_a_passing_fault_is_got_over(server, tmp_path: Path, plan: list[str]) -> None:
    server.plan = list(plan)
    assert get(remote(server), tmp_path).read_bytes() == server.body
    assert len(server.asked) == len(plan) + 1


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("html", "SHA256 hash of downloaded file"),
        ("wrong", "SHA256 hash of downloaded file"),
        ("cut", "IncompleteRead"),
        ("503", "HTTPError 503"),
        ("404", "HTTPError 404"),
    ],
)
def test_a_lasting_fault_leaves_nothing_in_place(server, tmp_path: Path, fault: str, message: str) -> None:
    server.plan = [fault] * 3
    what = remote(server)
    with pytest.raises(DownloadError, match=message) as caught:
        get(what, tmp_path)
    line = str(caught.value)
    assert visible(tmp_path) == [] and "\n" not in line and len(server.asked) == 3
    for part in (server.url, f"{what.size} bytes", f"sha256 {what.sha256}", str(tmp_path / "file.bin")):
        assert part in line


def test_a_silent_server_is_given_up(server, tmp_path: Path) -> None:
    server.plan = ["hang"] * 2
    with pytest.raises(DownloadError, match="timed out"):
        get(remote(server), tmp_path, timeout_s=0.1, retries=1)
    assert visible(tmp_path) == [] and len(server.asked) == 2


def test_the_next_address_is_tried(server, tmp_path: Path) -> None:
    dead, alive = f"{server.url}?dead", f"{server.url}?alive"
    server.plan = ["404"] * 3
    assert get(remote(server, dead, alive), tmp_path).read_bytes() == server.body
    assert [path.partition("?")[2] for path in server.asked] == ["dead"] * 3 + ["alive"]


def test_a_dead_port_is_one_line(server, tmp_path: Path) -> None:
    server.close()
    with pytest.raises(DownloadError, match=r"Connection ?refused") as caught:
        get(remote(server), tmp_path)
    assert "\n" not in str(caught.value)


def test_the_md5_is_checked_if_no_sha256_is_known(server, tmp_path: Path) -> None:
    right = hashlib.md5(server.body).hexdigest()
    assert get(remote(server, sha256="", md5=right), tmp_path).exists()
    with pytest.raises(DownloadError, match="MD5 hash of downloaded file"):
        get(remote(server, sha256="", md5="0" * 32), tmp_path / "other")


def test_offline_says_what_to_fetch_and_where_to_put_it(server, tmp_path: Path, monkeypatch) -> None:
    what = remote(server)
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    path = tmp_path / "cache" / "file.bin"
    with pytest.raises(DownloadError, match="RELEARN_OFFLINE is set") as caught:
        get(what, path.parent)
    for part in (server.url, str(what.size), what.sha256, str(path)):
        assert part in str(caught.value)
    assert not server.asked and not path.parent.exists()
    path.parent.mkdir()
    path.write_bytes(server.body[1:])
    with pytest.raises(DownloadError, match="256004 bytes, expected 256005"):
        get(what, path.parent)
    path.write_bytes(server.body)
    assert get(what, path.parent) == path


def test_a_damaged_file_in_the_cache_is_replaced(server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(server.body[::-1])
    assert get(remote(server), tmp_path).read_bytes() == server.body


def test_a_cache_that_cannot_be_written_has_a_private_stand_in(server, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("in the way")
    path = get(remote(server), tmp_path / "file" / "cache")
    assert path.read_bytes() == server.body and path.parent.name.startswith("relearn-")
    assert path.parent.stat().st_mode & 0o077 == 0
    assert "RELEARN_CACHE" in capsys.readouterr().err
    assert get(remote(server), tmp_path / "file" / "cache") == path
    assert len(server.asked) == 1


def test_two_at_once_fetch_it_once(server, tmp_path: Path) -> None:
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(get(remote(server), tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [tmp_path / "file.bin"] * 4 and len(server.asked) == 1


def test_waiting_too_long_for_another_process_is_an_error(server, tmp_path: Path) -> None:
    from filelock import FileLock

    with FileLock(tmp_path / ".file.bin.lock"), pytest.raises(DownloadError, match="another process"):
        get(remote(server), tmp_path, lock_timeout_s=0.1)


def test_names_that_a_shell_would_read_are_names(server, tmp_path: Path) -> None:
    folder = tmp_path / "- a $(touch x) ünï" / ("n" * 200)
    assert get(remote(server), folder).read_bytes() == server.body


def test_a_full_disk_is_named_and_not_tried_again(server, tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pooch.core.shutil.move", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        get(remote(server), tmp_path)
    assert not isinstance(caught.value, DownloadError) and caught.value.filename == str(tmp_path / "file.bin")
    assert visible(tmp_path) == [] and len(server.asked) == 1


def test_fault_of_names_the_first_difference(server, tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(server.body[:10])
    assert fault_of(path, remote(server)) == "10 bytes, expected 256005"
    path.write_bytes(server.body[::-1])
    assert fault_of(path, remote(server)).startswith("sha256 ")
    path.write_bytes(server.body)
    assert fault_of(path, remote(server)) == ""
