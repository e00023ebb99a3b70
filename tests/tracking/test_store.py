"""The store itself: malformed, busy, newer, full, out of reach."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from relearn.runs import record, spool
from relearn.tracking import connection, store
from relearn.tracking import importer as tracking
from relearn.tracking.store import TrackingError, put_aside, store_uri

from .imported import EMPTY, ROOT, finished, points, state, stored

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.usefixtures("project"),
]


@pytest.mark.parametrize("harm", ["cut", "garbage", "page"])
def test_a_malformed_database_is_put_aside_and_rebuilt(
    harm: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "create_database", lambda file: shutil.copy(EMPTY[0], file))
    finished(0)
    tracking.import_spool(ROOT)
    before = state()
    connection.release(store_uri())
    content = Path("mlflow.db").read_bytes()
    broken = {
        "cut": content[: len(content) // 2],
        "garbage": b"not a database " * 1000,
        "page": content[:8192] + b"\xff" * 65536 + content[8192 + 65536 :],
    }[harm]
    Path("mlflow.db").write_bytes(broken)
    capsys.readouterr()
    result = tracking.import_spool(ROOT)
    said = capsys.readouterr().err
    assert result.created == 1 and state() == before
    assert said.startswith("relearn track: mlflow.db: ") and said.count("\n") == 1
    assert Path("mlflow.db.malformed-1").read_bytes() == broken


def test_what_is_put_aside_never_overwrites() -> None:
    for number in (1, 2):
        Path("some.db").write_text(f"{number}")
        Path("some.db-journal").write_text("j")
        put_aside(Path("some.db").absolute())
        assert Path(f"some.db.malformed-{number}").read_text() == f"{number}"
        assert Path(f"some.db.malformed-{number}-journal").exists()


def revision(change: str | None = None) -> str:
    with closing(sqlite3.connect("mlflow.db")) as connection:
        if change:
            connection.execute("UPDATE alembic_version SET version_num = ?", (change,))
            connection.commit()
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def test_a_database_that_others_keep_busy_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds the database for longer than SQLite waits by itself, once; for ever is one line."""
    finished(0)
    with closing(sqlite3.connect("mlflow.db", check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        timer = threading.Timer(7.0, other.rollback)
        timer.start()
        result = tracking.import_spool(ROOT)
        timer.join()
    assert (result.created, result.statuses) == (1, {"FINISHED": 1}) and points() == 2 + 4

    def locked(importer: object) -> None:
        raise TrackingError("mlflow.db: (sqlite3.OperationalError) database is locked")

    monkeypatch.setattr(tracking.Importer, "_pass", locked)
    with pytest.raises(TrackingError, match="database is locked"):
        tracking.import_spool(ROOT)


def test_a_newer_schema_is_refused_and_left_alone() -> None:
    finished(0)
    revision("ffffffffffff")
    before = Path("mlflow.db").read_bytes()
    with pytest.raises(TrackingError, match="made by a newer MLflow") as caught:
        tracking.import_spool(ROOT)
    assert "\n" not in str(caught.value) and Path("mlflow.db").read_bytes() == before
    assert not list(Path().glob("mlflow.db.new-*"))


def test_a_copy_for_an_upgrade_that_fails_is_one_line_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full:
        def __init__(self, file: Path) -> None:
            file.touch()

        def backup(self, copy: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        def close(self) -> None:
            pass

    before = Path("mlflow.db").read_bytes()
    monkeypatch.setattr(store.sqlite3, "connect", Full)
    with pytest.raises(TrackingError, match=r"mlflow\.db: older schema, .* \(database or disk is full\)"):
        store.upgrade(Path("mlflow.db"))
    assert Path("mlflow.db").read_bytes() == before and not list(Path().glob("mlflow.db.new-*"))


def test_an_older_schema_is_upgraded() -> None:
    from alembic import command
    from alembic.script import ScriptDirectory
    from mlflow.store.db import utils
    from mlflow.store.tracking.dbmodels.initial_models import Base

    finished(0)
    newest = revision()
    Path("mlflow.db").unlink()
    config = utils._get_alembic_config("")
    script = ScriptDirectory.from_config(config)
    older = script.get_revision(newest).down_revision
    engine = utils.create_sqlalchemy_engine_with_retry(store_uri())
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, older)
    engine.dispose()
    assert revision() == older != newest
    assert tracking.import_spool(ROOT).created == 1
    assert revision() == newest


def test_a_full_disk_under_the_database_is_one_line_and_costs_no_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finished(0)
    pages = len(Path("mlflow.db").read_bytes()) // 4096
    client = tracking.open_store(store_uri())
    engine = client._tracking_client.store.engine
    from sqlalchemy import event

    limit = [pages]
    event.listen(
        engine, "begin", lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={limit[0]}")
    )
    monkeypatch.setattr(tracking, "open_store", lambda uri: client)
    with pytest.raises(TrackingError, match="database or disk is full") as caught:
        for _ in range(50):
            tracking.import_spool(ROOT)
            finished(0, code_version=os.urandom(2000).hex())
    assert "\n" not in str(caught.value)
    assert record.read(run.out)
    limit[0] = 10**6
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert one.info.status == spool.FINISHED


def test_a_server_that_is_down_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    finished(0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match="tracking server: ") as caught:
        tracking.import_spool(ROOT, "http://127.0.0.1:9")
    assert "\n" not in str(caught.value)
    assert tracking.import_spool(ROOT).created == 1


def test_the_user_s_choice_of_a_store_is_kept(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    assert store_uri() == f"sqlite:///{project}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host:5000")
    assert store_uri() == "http://host:5000"
    assert store_uri("sqlite:///x.db") == "sqlite:///x.db"


def test_telemetry_is_off_and_what_the_user_chose_stands() -> None:
    program = (
        "import os; import relearn.tracking.importer; print(*map(os.environ.get, ['MLFLOW_DISABLE_TELEMETRY',"
    )
    program += " 'MLFLOW_HTTP_REQUEST_TIMEOUT']))"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW")}
    environment["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "77"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["true", "77"]
