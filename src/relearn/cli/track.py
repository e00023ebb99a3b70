"""relearn track: import the runs below results/ into MLflow, once or repeatedly while a workflow runs.

With --follow it ends after a last import when the stop file appears or the process that started it is gone. When the
engine that started it is killed, it ends without that import, within 10 seconds; the next import adds what is missing.
If the stop file exists from the start, this is a single import. MLflow is loaded only when needed: a follower waits for the
first spool before it imports the library.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relearn.cli import checkout
from relearn.runs.record_file import files
from relearn.studies.study import all_studies

if TYPE_CHECKING:
    from relearn.report.used_by import UsedBy

FILTERS = """\
Find runs by what they are for, for example

    tags.cell LIKE '%table 2.2, Deep k-NN, DenseNet121;%'
    tags.artefact LIKE '%table 4.1;%' and tags.initialisation = 'gradinit'
    tags.claim LIKE '%cp_beats_fc;%'

The runs of each step are below it; docs/tracking.md has more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--root, --uri, --follow, --stop-file, --interval."""
    add = parser.add_argument
    add(
        "--root",
        type=Path,
        action="append",
        help="a scale's folder (default: every results/<scale> with runs)",
    )
    add("--uri", help="MLflow tracking URI (default: MLFLOW_TRACKING_URI, else sqlite mlflow.db here)")
    add("--follow", action="store_true", help="keep importing until the stop file appears")
    add("--stop-file", type=Path, help="file whose appearance ends --follow")
    add("--interval", type=float, default=5.0, help="seconds between two imports of --follow")


def main(args: argparse.Namespace) -> int:
    """Import the runs; print a line of counts and one per invalid file.

    Raises:
        ValueError: an --interval that is not above 0.
        FileNotFoundError: a --root that does not exist, except with --follow, which waits for it.
        TrackingError, Busy: the store cannot be used.
    """
    from relearn.runs import interrupt
    from relearn.tracking import store

    if not args.interval > 0:
        raise ValueError(f"--interval: found {args.interval:g}, allowed: above 0 seconds")
    interrupt.install_signal_handlers()
    args.uri = store.store_uri(args.uri, checkout.started_in(args))
    store.database(args.uri)  # refuse a wrong one before the work
    stop = _stop(args.stop_file)
    if args.follow:
        while not stop() and not anything(args.root or roots()):
            interrupt.check()
            time.sleep(0.2)
    else:
        check(args.root)
    with contextlib.ExitStack() as stack:
        return bring(args, [open_root(root, stack) for root in args.root or roots()], stop)


def open_root(root: Path, stack: contextlib.ExitStack) -> Path:
    """The folder, or a temporary one with the runs and the rendering of a published set."""
    from relearn.runs.run_store import is_store

    if not is_store(root):
        return root
    from relearn.report import published_set

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relearn-"))) / root.name
    published_set.unpack(root, folder)
    return folder


def bring(args: argparse.Namespace, where: Sequence[Path], stop: Callable[[], bool]) -> int:
    """Import these folders."""
    if not anything(where):
        print("relearn track: nothing to import yet")
        return 0
    from relearn.tracking import importer as tracking

    known = used_by()
    if args.follow:
        imported = tracking.follow(
            where if args.root else roots, args.uri, stop=stop, used_by=known, interval_s=args.interval
        )
    else:
        imported = tracking.import_spool(where, args.uri, used_by=known)
    for problem in imported.problems:
        print(f"relearn track: {problem}", file=sys.stderr)
    print(f"relearn track: {imported}")
    return 0


def roots() -> list[Path]:
    """Every results/<scale> that holds a spool or runs; results/published is left out."""
    found = [
        path
        for path in sorted(Path("results").glob("*"))
        if (path / "spool").is_dir() or (path / "runs").is_dir()
    ]
    return [path for path in found if path.name != "published"]


def used_by() -> UsedBy:
    """Maps each run to the tables, cells and claims that use it, and each study to its description."""
    from relearn.report import artefacts, used_by

    studies = all_studies()
    about = {one.name: f"{one.title} ({one.source}).\n\n{FILTERS}" for one in studies}
    return used_by.UsedBy(artefacts.load({one.name: one.reported for one in studies}), about)


def check(named: Sequence[Path] | None) -> None:
    """Raise if a folder of --root does not exist."""
    for root in named or ():
        if not root.is_dir():
            raise FileNotFoundError(f"--root {root}: no such folder, allowed: a folder with runs/ or spool/")


def anything(where: Sequence[Path]) -> bool:
    """Whether one of the folders holds a run."""
    for root in where:
        if next((root / "spool").glob("*.jsonl"), None) or files(root / "runs"):
            return True
    return False


def _stop(stop_file: Path | None) -> Callable[[], bool]:
    parent = os.getppid()
    return lambda: (stop_file is not None and stop_file.exists()) or os.getppid() != parent
