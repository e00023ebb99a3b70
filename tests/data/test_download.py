"""Downloads against a server that fails on purpose: nothing unchecked is ever put in place."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from relearn.data import transfer
from relearn.data.download import fetch
from relearn.data.remote import DownloadError, Remote, fault_of


def remote(server, *urls: str, **changes: object) -> Remote:
    body = server.body
    given: dict = {
        "name": "file.bin",
        "urls": urls or (server.url,),
        "size": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "magic": b"MAGIC",
    }
    return Remote(**(given | changes))


def get(what: Remote, folder: Path, **changes: object) -> Path:
    given: dict = {"timeout_s": 5.0, "attempts": 3, "pause_s": 0.0, "deadline_s": 20.0, "loopback_http": True}
    return fetch(what, folder=folder, **(given | changes))


def left(folder: Path) -> set[str]:
    """What a reader of the cache sees; partial and lock files begin with a dot."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.delenv("RELEARN_OFFLINE", raising=False)
    monkeypatch.delenv("RELEARN_CACHE", raising=False)
    # No file of an earlier fallback on this machine may serve.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("temporary")))


def test_fetched_once_then_taken_from_the_cache(server, tmp_path: Path) -> None:
    path = get(remote(server), tmp_path)
    assert path == tmp_path / "file.bin" and path.read_bytes() == server.body
    assert get(remote(server), tmp_path) == path
    assert len(server.asked) == 1 and not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("plan", "requests"),
    [
        (["503"], 2),
        (["429", "500"], 3),
        (["html"], 2),
        (["wrong"], 2),
        (["short"], 2),
        (["long"], 2),
        (["416"], 2),
        (["cut"], 2),
        (["cut", "cut"], 3),
        (["cut", "ignore_range"], 2),
        (["cut", "wrong_range"], 3),
        (["cut", "html"], 3),
    ],
)
def test_a_passing_fault_is_got_over(server, tmp_path: Path, plan: list[str], requests: int) -> None:
    server.plan = list(plan)
    assert get(remote(server), tmp_path).read_bytes() == server.body
    assert len(server.asked) == requests


def test_the_rest_alone_is_asked_for_after_a_break(server, tmp_path: Path) -> None:
    server.plan = ["cut"]
    get(remote(server), tmp_path)
    half = len(server.body) // 2
    assert [asked for _, asked in server.asked] == ["", f"bytes={half}-"]
    assert server.sent == [half, len(server.body) - half]


def test_a_page_in_the_middle_does_not_cost_what_is_here(server, tmp_path: Path) -> None:
    server.plan = ["cut", "html"]
    get(remote(server), tmp_path)
    half = len(server.body) // 2
    assert [asked for _, asked in server.asked] == ["", f"bytes={half}-", f"bytes={half}-"]


def test_a_later_process_goes_on_where_a_killed_one_stopped(server, tmp_path: Path) -> None:
    server.plan = ["cut"]
    with pytest.raises(DownloadError):
        get(remote(server), tmp_path, attempts=1)
    assert get(remote(server), tmp_path).read_bytes() == server.body
    assert server.asked[1][1] == f"bytes={len(server.body) // 2}-"


@pytest.mark.parametrize("extra", [0, 7])
def test_a_whole_partial_file_is_used_and_one_too_long_dropped(server, tmp_path: Path, extra: int) -> None:
    (tmp_path / ".file.bin.part").write_bytes(server.body + bytes(extra))
    assert get(remote(server), tmp_path).read_bytes() == server.body
    assert len(server.asked) == (1 if extra else 0)


def test_a_foreign_beginning_is_found_out_and_dropped(server, tmp_path: Path) -> None:
    (tmp_path / ".file.bin.part").write_bytes(b"x" * 1000)
    assert get(remote(server), tmp_path).read_bytes() == server.body
    assert [asked for _, asked in server.asked] == ["bytes=1000-", ""]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("html", "an HTML page instead of the file"),
        ("wrong", "sha256 .*, expected "),
        ("cut", r"broke off after \d+ of 256005 bytes"),
        ("short", "128002 bytes announced, expected 256005"),
        ("long", "more than the expected 256005 bytes"),
        ("503", "HTTP 503"),
        ("wrong_range", "another range|expected"),
    ],
)
def test_a_lasting_fault_leaves_nothing_in_place(server, tmp_path: Path, fault: str, said: str) -> None:
    server.plan = [fault] * 20
    what = remote(server)
    if fault == "wrong_range":
        (tmp_path / ".file.bin.part").write_bytes(server.body[:9])
        server.plan = ["wrong_range", "503", "503"]
    if fault == "cut":
        what, server.plan = remote(server), ["cut", "503", "503"]
    with pytest.raises(DownloadError, match=said) as caught:
        get(what, tmp_path)
    message = str(caught.value)
    assert left(tmp_path) == set() and "\n" not in message
    for told in (server.url, str(what.size), what.sha256, str(tmp_path / "file.bin")):
        assert told in message


def test_too_much_is_not_even_kept(server, tmp_path: Path) -> None:
    server.plan = ["long"] * 9
    with pytest.raises(DownloadError, match="more than the expected"):
        get(remote(server), tmp_path)
    assert not list(tmp_path.glob(".*part"))


def test_another_kind_of_file_is_shown(server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"another kind of file, it begins with b'MAGIC"):
        get(remote(server, magic=b"\x1f\x8b"), tmp_path)


def test_md5_counts_where_it_is_given(server, tmp_path: Path) -> None:
    right = hashlib.md5(server.body).hexdigest()
    assert get(remote(server, md5=right), tmp_path).exists()
    with pytest.raises(DownloadError, match=f"md5 {right}, expected 0"):
        get(remote(server, md5="0" * 32), tmp_path / "other")


def test_the_next_address_is_tried_and_a_dead_one_only_once(server, tmp_path: Path) -> None:
    dead, alive = f"{server.url}?dead", f"{server.url}?alive"
    server.plan = ["404", "503", "good"]
    assert get(remote(server, dead, alive), tmp_path).exists()
    assert [path.partition("?")[2] for path, _ in server.asked] == ["dead", "alive", "alive"]


def test_a_silent_server_is_given_up(server, tmp_path: Path) -> None:
    server.plan = ["hang"] * 9
    with pytest.raises(DownloadError, match="TimeoutError"):
        get(remote(server), tmp_path, timeout_s=0.1, attempts=2)
    assert left(tmp_path) == set()


def test_a_dripping_server_is_given_up_at_the_deadline(server, tmp_path: Path) -> None:
    server.plan = ["drip"] * 9  # all of it would take hours, and no single wait is long
    with pytest.raises(DownloadError, match=r"too slow|the time allowed for it is over"):
        get(remote(server), tmp_path, deadline_s=1.0)
    assert len(server.asked) <= 1 and left(tmp_path) == set()


def test_a_dead_port_is_one_line(server, tmp_path: Path) -> None:
    server.close()
    with pytest.raises(DownloadError, match="ConnectionRefusedError") as caught:
        get(remote(server), tmp_path)
    assert "\n" not in str(caught.value)


def test_pauses_double_and_a_servers_wish_is_heard(server, tmp_path: Path, monkeypatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(transfer.time, "sleep", pauses.append)
    server.plan = ["503"] * 4
    get(remote(server), tmp_path, attempts=5, pause_s=0.5)
    assert pauses == [0.5, 1.0, 2.0, 4.0]
    assert transfer._seconds("7") == 7 and transfer._seconds("Wed, 21 Oct") == transfer._seconds(None) == 0


@pytest.mark.parametrize("target", ["file:///etc/hostname", "http://127.0.0.2:9/x", "ftp://127.0.0.1/x"])
def test_no_redirect_leads_elsewhere(server, tmp_path: Path, target: str) -> None:
    server.plan = [f"to:{target}"] * 9
    with pytest.raises(DownloadError, match=r"only https is allowed|is not allowed"):
        get(remote(server), tmp_path, attempts=1)
    assert left(tmp_path) == set()


def test_a_redirect_within_the_rules_is_followed(server, tmp_path: Path) -> None:
    server.plan = [f"to:{server.url}?there"]
    assert get(remote(server), tmp_path).exists()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_only_https_is_asked_at_all(server, tmp_path: Path, url: str) -> None:
    with pytest.raises(DownloadError, match="only https is allowed"):
        get(remote(server, url), tmp_path, loopback_http=False)


def test_offline_says_what_to_fetch_and_where_to_put_it(server, tmp_path: Path, monkeypatch) -> None:
    what = remote(server)
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    with pytest.raises(DownloadError, match="RELEARN_OFFLINE is set") as caught:
        get(what, tmp_path / "cache")
    for told in (server.url, str(what.size), what.sha256, str(tmp_path / "cache" / "file.bin")):
        assert told in str(caught.value)
    assert not server.asked and not (tmp_path / "cache").exists()
    (tmp_path / "cache").mkdir()
    place = tmp_path / "cache" / "file.bin"
    place.write_bytes(server.body[1:])
    with pytest.raises(DownloadError, match="256004 bytes, expected 256005"):
        get(what, tmp_path / "cache")
    place.write_bytes(server.body)
    assert get(what, tmp_path / "cache") == place


def test_a_spoilt_file_in_the_cache_is_replaced(server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(server.body[::-1])
    assert get(remote(server), tmp_path).read_bytes() == server.body


def test_a_cache_that_cannot_be_written_has_a_private_stand_in(server, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("in the way")
    path = get(remote(server), tmp_path / "file" / "cache")
    assert path.read_bytes() == server.body and path.parent.name.startswith("relearn-")
    assert path.parent.stat().st_mode & 0o077 == 0
    assert "serves instead (RELEARN_CACHE names another)" in capsys.readouterr().err
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


def test_who_waits_too_long_for_another_process_is_told(server, tmp_path: Path) -> None:
    from filelock import FileLock

    with FileLock(tmp_path / ".file.bin.lock"), pytest.raises(DownloadError, match="another process"):
        get(remote(server), tmp_path, deadline_s=0.1)


def test_names_that_a_shell_would_read_are_names(server, tmp_path: Path) -> None:
    folder = tmp_path / "- a $(touch x) ünï" / ("n" * 200)
    assert get(remote(server), folder).read_bytes() == server.body


def test_a_disk_that_refuses_is_not_tried_again(server, tmp_path: Path) -> None:
    (tmp_path / ".file.bin.part").mkdir()
    (tmp_path / ".file.bin.part" / "x").touch()
    with pytest.raises(DownloadError, match=r"\.file\.bin\.part: "):
        get(remote(server), tmp_path)
    assert len(server.asked) <= 1


def test_pooch_and_friends_are_not_imported() -> None:
    code = (
        "import sys; import relearn.data.download; print({'pooch', 'requests', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_fault_of_names_the_first_difference(server, tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(server.body)
    os.truncate(path, 10)
    assert fault_of(path, remote(server)) == "10 bytes, expected 256005"
    path.write_bytes(server.body)
    assert fault_of(path, remote(server)) == ""
