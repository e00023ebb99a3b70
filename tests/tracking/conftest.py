"""A project folder with an empty MLflow store for each test that imports."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from relearn.runs import provenance

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow's own imports
    from relearn.tracking import connection
    from relearn.tracking import importer as tracking
    from relearn.tracking.store import store_uri


from .imported import EMPTY


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its schema and nothing in it: made once, copied for each test."""
    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    tracking.open_store(f"sqlite:///{file}")
    EMPTY[:] = [file]
    return file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Path) -> Iterator[Path]:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ARTIFACTS_DESTINATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    shutil.copy(empty_store, "mlflow.db")
    Path("data.bin").write_bytes(b"pixels")
    yield tmp_path
    connection.release(store_uri())
