"""Opens MLflow's client on a store that is valid and up to date; reports MLflow's errors in one line.

Only this module and the importer import MLflow.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relearn.tracking.store import TrackingError, database, prepare, upgrade

# Set before the import, unless the user has set them: no telemetry, and a lost server is noticed within seconds.
for _name, _value in {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402


def open_store(uri: str) -> Any:
    """A client of a store whose schema is up to date; a missing SQLite file is created, an old schema is upgraded.

    Call it while holding the importer's lock. Raises TrackingError with a one-line message.
    """
    for logger in ("mlflow", "alembic"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # errors are reported in our own line
    with one_line(uri):
        file = database(uri)
        if file is not None:
            release(uri)
            message = prepare(file, create_database)
            if message:
                print(f"relearn track: {message}", file=sys.stderr, flush=True)
        try:
            return _connected(uri)
        except MlflowException as error:
            if file is None or "out-of-date" not in str(error):
                raise
            release(uri)
            upgrade(file)
            return _connected(uri)


def _connected(uri: str) -> Any:
    client = MlflowClient(uri)
    client.search_experiments(max_results=1)
    return client


def create_database(file: Path) -> None:
    _connected(f"sqlite:///{file}")
    release(f"sqlite:///{file}")


def release(uri: str) -> None:
    """Close MLflow's pooled connections to a file that is about to be renamed."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    with contextlib.suppress(
        AttributeError
    ):  # there is no public API; if this fails, only a process that is using a rebuilt file is affected
        engine = SqlAlchemyStore._engine_map.get(uri)
        if engine is not None:
            engine.dispose()


@contextlib.contextmanager
def one_line(uri: str) -> Iterator[None]:
    """Convert errors of MLflow and SQLite to a one-line TrackingError, without the SQL statement that SQLAlchemy appends."""
    try:
        yield
    except MlflowException as error:
        file = database(uri)
        lines = [line for line in str(error).splitlines() if line.strip()] or ["no message"]
        text = next((line for line in lines if re.match(r"\(\w+\.\w*Error\)", line)), lines[0])
        raise TrackingError(f"{file.name if file else 'tracking server'}: {text}") from error
