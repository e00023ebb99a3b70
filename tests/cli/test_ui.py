"""`relearn ui`: it is local and careful by default, and survives a move of the folder."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import reproduce, ui
from relearn.runs import provenance, record


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org"])
def test_an_address_that_others_reach_needs_a_word(host: str) -> None:
    with pytest.raises(ValueError, match=rf"--host {host}: .*--expose"):
        ui.check_host(host, expose=False)
    ui.check_host(host, expose=True)
    ui.check_host("127.0.0.1", expose=False)


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ui.free_port("127.0.0.1", port) > port
        monkeypatch.setattr(ui, "TRIES", 1)
        with pytest.raises(ValueError, match=rf"--port {port}: taken"):
            ui.free_port("127.0.0.1", port)
    with pytest.raises(ValueError, match=r"^--host 192.0.2.1: .*; allowed: an address of this machine$"):
        ui.free_port("192.0.2.1", port)


@pytest.mark.parametrize("port", ["99999", "-1", "0", "65536", "x"])
def test_no_port_is_refused_at_once(
    port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ui, "main", lambda args: pytest.fail("it imports"))
    assert cli.main(["ui", "--port", port]) == 2
    said = capsys.readouterr().err
    assert f"--port: found '{port}', allowed: 1 to 65535" in said and said.count("\n") == 1


def test_the_last_port_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 65535))
        taken.listen()
        with pytest.raises(ValueError, match=r"--port 65535: taken"):
            ui.free_port("127.0.0.1", 65535)


def test_risky_defaults_are_off_unless_the_user_chose() -> None:
    assert ui.careful({"HOME": "/x"}) == {**ui.CAREFUL, "HOME": "/x"}
    assert (
        ui.careful({"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "true"})["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"]
        == "true"
    )
    assert ui.CAREFUL["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"


def test_requests_are_not_logged_line_by_line() -> None:
    command = ui.server_command("sqlite:///x", "a", "127.0.0.1", 5000)
    assert command[command.index("--uvicorn-opts") + 1] == "--log-level warning"


@pytest.mark.parametrize(
    "words,says",
    [
        ([], "relearn ui: no runs in results/ and no mlflow.db: start it in the root of the checkout"),
        (["--root", "results/foo"], "relearn ui: --root results/foo: no such folder"),
        (["--root", "."], "relearn ui: no runs in . and no mlflow.db: "),
    ],
)
def test_a_wrong_folder_is_named_and_no_database_made(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["ui", *words]) == 3
    said = capsys.readouterr().err
    assert said.startswith(says) and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with one imported run, moved after the import."""
    from relearn.tracking import connection
    from relearn.tracking import importer as tracking

    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ARTIFACTS_DESTINATION"):
        monkeypatch.delenv(name, raising=False)
    before, after = tmp_path / "before", tmp_path / "after a move"
    before.mkdir()
    monkeypatch.chdir(before)
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    what: dict[str, Any] = {"study": "s", "paper": "p", "step": "t", "labels": {}, "scale": "mini", "seed": 0}
    with record.Run("results/mini/runs/a", **what, settings={}) as run:
        run.finish({"a_frac": 0.5}, trials=(["target"], [[1]]))
    tracking.import_spool("results/mini")
    connection.release(tracking.store_uri())
    monkeypatch.chdir(tmp_path)
    shutil.move(before, after)
    monkeypatch.chdir(after)
    yield after


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return bytes(answer.read())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.slow
def test_a_moved_folder_still_lists_and_serves_its_artifacts(moved: Path) -> None:
    """MLflow's real server over the moved files, started by the command itself."""
    port = ui.free_port("127.0.0.1", 5600)
    program = f"import sys; from relearn.cli import main; sys.exit(main(['ui', '--port', '{port}']))"
    with open("server.log", "w") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=dict(os.environ),
        )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                ask(port, "health")
                break
            except OSError:
                assert time.monotonic() < deadline and server.poll() is None, Path("server.log").read_text()
                time.sleep(0.2)
        listed = json.loads(ask(port, "api/2.0/mlflow/experiments/search", {"max_results": 10}))
        (experiment,) = [one for one in listed["experiments"] if one["name"] == "s (mini), p"]
        found = json.loads(
            ask(port, "api/2.0/mlflow/runs/search", {"experiment_ids": [experiment["experiment_id"]]})
        )
        (run,) = [one["info"]["run_id"] for one in found["runs"]]
        files = json.loads(ask(port, f"api/2.0/mlflow/artifacts/list?run_id={run}"))["files"]
        assert sorted(one["path"] for one in files) == ["record.json", "trials.csv"]
        served = ask(port, f"get-artifact?run_id={run}&path=record.json")
        assert served == Path("results/mini/runs/a/record.json").read_bytes()
        assert "GET /" not in Path("server.log").read_text()
        with socket.socket() as probe, pytest.raises(OSError):
            probe.bind(("127.0.0.1", port))
        server.terminate()  # the command alone: it takes the server along
        assert server.wait(timeout=60) in (0, 143)
        with pytest.raises(OSError):
            ask(port, "health")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, 15)
        server.wait(timeout=60)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_moved_folder_is_resolved_from_where_it_lies(moved: Path) -> None:
    """Without a server: what the store says, below the folder that `relearn ui` would serve, is the file itself."""
    from relearn.tracking import connection
    from relearn.tracking.store import artifact_folder, store_uri

    client = connection.MlflowClient(store_uri())
    experiment = client.get_experiment_by_name("s (mini), p")
    (run,) = client.search_runs([experiment.experiment_id])
    folder = artifact_folder(store_uri())
    assert folder == moved / "mlartifacts"
    assert str(folder) in ui.server_command(store_uri(), str(folder), "127.0.0.1", 5000)
    place = folder / run.info.artifact_uri.removeprefix("mlflow-artifacts:/")
    assert (place / "record.json").read_bytes() == (moved / "results/mini/runs/a/record.json").read_bytes()
    connection.release(store_uri())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_runs_of_each_study_have_an_address(
    moved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """MLflow opens on its view for language models, where no run is; an experiment without runs gets no line."""
    served: list[list[str]] = []

    # it passes SIGTERM on to the server: tests/cli/test_by_name.py::test_an_interrupted_engine_is_waited_for
    monkeypatch.setattr(reproduce, "until_it_ends", lambda command, _: served.append(command) or 0)
    assert cli.main(["ui"]) == 0
    from relearn.tracking import connection
    from relearn.tracking.store import store_uri

    number = connection.MlflowClient(store_uri()).get_experiment_by_name("s (mini), p").experiment_id
    connection.release(store_uri())
    (command,) = served
    address = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith(f"relearn ui: {address} ") and '"Model training"' in said[1]
    assert said[2:] == [f"  s (mini), p: {address}/#/experiments/{number}/runs?workflowType=machine_learning"]
