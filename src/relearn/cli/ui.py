"""relearn ui: import the runs that are not imported yet, then serve MLflow's pages on 127.0.0.1.

Artifacts are served from the folder next to the database. From another machine: ``ssh -L 5000:127.0.0.1:5000 host``. The pages
have no password, so an address that other machines can reach needs --expose. MLflow switches set by the user are
kept; the others get safe defaults.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import socket
import sys
from pathlib import Path
from typing import Any

CAREFUL = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
}
TRIES = 50
LAST = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--port, --host, --expose, --uri, --root."""
    add = parser.add_argument
    add("--port", type=_port, default=5000, help="first port to try; the next free one is taken")
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--expose", action="store_true", help="allow an address that other machines can reach")
    add("--uri", help="MLflow tracking URI (default: MLFLOW_TRACKING_URI, else sqlite mlflow.db here)")
    add("--root", type=Path, action="append", help="as in relearn track")


def main(args: argparse.Namespace) -> int:
    """Import, then run the server until it is stopped.

    Raises:
        ValueError: an exposed address without --expose.
        FileNotFoundError: neither runs nor a database here, for example in a wrong folder.
        TrackingError: a store that is not an SQLite file.
    """
    check_host(args.host, args.expose)
    from relearn.cli import checkout, reproduce, track
    from relearn.tracking import connection
    from relearn.tracking import importer as tracking
    from relearn.tracking.store import TrackingError, artifact_folder, database, store_uri

    uri = store_uri(args.uri, checkout.started_in(args))
    file = database(uri)
    if file is None:
        raise TrackingError(
            f"{uri.split('://')[0]} store: it has its own server, open that one; only sqlite is allowed"
        )
    track.check(args.root)
    with contextlib.ExitStack() as stack:
        where = [track.open_root(one, stack) for one in args.root or track.roots()]
        if not track.anything(where) and not file.exists():
            named = ", ".join(map(str, args.root or where)) or "results/"
            raise FileNotFoundError(
                f"no runs in {named} and no {file.name}: start it in the root of the checkout, after the first run, or name --root"
            )
        if where:
            imported = tracking.import_spool(where, uri, used_by=track.used_by())
            for problem in imported.problems:
                print(f"relearn ui: {problem}", file=sys.stderr)
            print(f"relearn ui: {imported}", flush=True)
        else:
            connection.open_store(uri)
    port = free_port(args.host, args.port)
    address = f"http://{f'[{args.host}]' if ':' in args.host else args.host}:{port}"
    print("\n".join(addresses(address, connection.MlflowClient(uri))), flush=True)
    command = server_command(
        uri, str(artifact_folder(uri) or os.environ["MLFLOW_ARTIFACTS_DESTINATION"]), args.host, port
    )
    return reproduce.until_it_ends(command, careful(dict(os.environ)))


def addresses(address: str, client: Any) -> list[str]:
    """The address of the pages and of each experiment's runs: MLflow itself opens on a view without runs."""
    lines = [
        f'relearn ui: {address} (Ctrl-C ends it); choose "Model training" there, or open the runs of a study:'
    ]
    for one in sorted(client.search_experiments(), key=lambda one: one.name):
        if client.search_runs([one.experiment_id], max_results=1):
            runs = f"{address}/#/experiments/{one.experiment_id}/runs?workflowType=machine_learning"
            lines.append(f"  {one.name}: {runs}")
    return lines


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= LAST):
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed: 1 to {LAST}")
    return int(text)


def check_host(host: str, expose: bool) -> None:
    """Raise for an address that other machines can reach, unless ``expose`` is set."""
    if host not in ("127.0.0.1", "localhost", "::1") and not expose:
        raise ValueError(
            f"--host {host}: without a password only 127.0.0.1 is allowed; add --expose to do it anyway"
        )


def careful(environment: dict[str, str]) -> dict[str, str]:
    """The environment with MLflow's risky defaults switched off where the user has not set them."""
    return {**CAREFUL, **environment}


def server_command(uri: str, artifacts: str, host: str, port: int) -> list[str]:
    """The command of MLflow's own server, with an explicit artifacts folder, so that the project can be anywhere."""
    server = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", "1"]
    quiet = ["--uvicorn-opts", "--log-level warning"]  # a line per request would push the addresses away
    return [*server, *quiet, "--backend-store-uri", uri, "--artifacts-destination", artifacts]


def free_port(host: str, first: int) -> int:
    """The first free port from `first` on; ValueError if fifty in a row, or all up to the last, are taken, or for a foreign host."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = range(first, min(first + TRIES, LAST + 1))
    for port in ports:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    continue
                raise ValueError(f"--host {host}: {error}; allowed: an address of this machine") from None
            return port
    raise ValueError(f"--port {first}: taken, and the next {len(ports) - 1} too; choose another")
