"""Imports spools and records into MLflow's store, exactly once and in order.

Jobs never open the store; only this importer does, one at a time, under a lock. Each write of an import is idempotent,
and the run's own tags say what has been imported. The next import therefore recovers from a kill between any two
writes. The final state depends on the files, on what was deleted by hand, and on the newest execution of each run that was ever
imported: after a return to an older record MLflow keeps the newer one, which is reported. MLflow's pages hide these tags:

========================  ================================================================================
tag                       meaning
========================  ================================================================================
mlflow.relearn.run        the run id (settings, labels, scale, seed): runs are found by it, never by name
mlflow.relearn.started    the execution; a newer one replaces an older one (which moves to the trash)
mlflow.relearn.checkout   hash of the machine and folder that created the run
mlflow.relearn.intent     bytes of the spool whose points may be in the store: written before the points
mlflow.relearn.spooled    bytes of the spool whose points are in the store: written after them
mlflow.relearn.record     sha256 of the record whose numbers are in the store
mlflow.relearn.numbers    hash of the table-cell numbers that are in the store
mlflow.relearn.imported   fingerprint of everything imported: if equal, there is nothing to do
mlflow.relearn.replaced   this run has been replaced and will be moved to the trash
========================  ================================================================================

A resumed run logs some steps a second time. Points with equal values (as in strict mode) are skipped. If a value differs
from a point that is already in the store, a new MLflow run with the later values replaces the old one, because
MLflow cannot delete a point. A run that was deleted by hand in the UI stays deleted.

Runs of one step are nested under a parent run, and each scale has one run with the rendered results: see
:mod:`relearn.tracking.grouped` and :mod:`relearn.tracking.rendered`.

Artifacts are copied to ``mlartifacts/`` next to the database, from where ``mlflow server`` serves them as
``mlflow-artifacts:/``: no absolute path is stored, so the folder can be moved. Stores other than SQLite get them
through MLflow's client.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag, ViewType
from mlflow.entities import Run as Stored

from relearn.runs import interrupt, spool
from relearn.runs.atomic_files import Busy, Lock, digest, sweep, write
from relearn.tracking import grouped, rendered
from relearn.tracking.connection import one_line, open_store
from relearn.tracking.names import PREFIX
from relearn.tracking.note import NOTE
from relearn.tracking.points import KEPT, batches, contradicts, gone_back
from relearn.tracking.run_view import STALE_S, Source, Summary, Tracked, UsedBy, in_all, sources, tracked
from relearn.tracking.store import TrackingError, artifact_folder, database, store_uri

# MLflow accepts 1000 entities per call, at most 100 of them parameters or tags
METRICS_A_CALL, PARAMS_A_CALL, RUNS_A_PAGE = 800, 100, 1000
BULK = 30  # more runs than this are looked up in one query
Roots = Path | str | Sequence[Path | str] | Callable[[], Sequence[Path]]
PARENT = "mlflow.parentRunId"


def import_spool(
    root: Roots,
    uri: str | None = None,
    *,
    used_by: UsedBy | None = None,
    stale_s: float = STALE_S,
    wait_s: float = 120.0,
) -> Summary:
    """Import all runs in `root` (``results/<scale>``, or several) that are not yet, or not completely, in the store.

    Args:
        root: a function is asked at every pass.
        uri: MLflow's tracking URI; default from `store_uri`.
        used_by: gives the uses of each run: tables, cells, claims.
        stale_s: a run without an end line counts as KILLED after this many silent seconds, if its lock is free.
        wait_s: how long to wait for another importer; then raises Busy with its pid.

    Raises TrackingError (one line) if the store cannot be used; a malformed SQLite file is moved aside and
    rebuilt.
    """
    return Importer(root, uri, used_by, stale_s, wait_s).run()


def follow(
    root: Roots,
    uri: str | None = None,
    *,
    stop: Callable[[], bool],
    used_by: UsedBy | None = None,
    interval_s: float = 5.0,
) -> Summary:
    """Import repeatedly until `stop()` is true, then once more; after an error, print one line and start with a new importer."""
    importer: Importer | None = None
    done = Summary()
    while not stop():
        try:
            importer = importer or Importer(root, uri, used_by)
            done = in_all(done, importer.run())
        except (TrackingError, Busy, OSError) as error:
            print(f"relearn track: {error}; trying again", file=sys.stderr, flush=True)
            importer = None
        deadline = time.monotonic() + interval_s
        while time.monotonic() < deadline and not stop():
            interrupt.check()
            time.sleep(min(0.2, interval_s))
    if importer is not None:
        with contextlib.suppress(TrackingError, Busy, OSError):
            done = in_all(done, importer.run())
            return in_all(done, importer.run())  # updates runs that the last pass has put into a group
    return in_all(done, import_spool(root, uri, used_by=used_by))


class Importer:
    """Repeated imports into one store; remembers the files it has seen, so a pass over unchanged files is cheap."""

    def __init__(
        self,
        root: Roots,
        uri: str | None = None,
        used_by: UsedBy | None = None,
        stale_s: float = STALE_S,
        wait_s: float = 120.0,
    ) -> None:
        fixed = [root] if isinstance(root, (str, Path)) else [] if callable(root) else root
        self._find = root if callable(root) else lambda: ()
        self.roots = [Path(one) for one in (*fixed, *self._find())]
        self._opened: set[Path] = set()
        # the live runs of another checkout that shares the store have no files here
        made_in = f"{platform.node()} {self.roots[0].absolute().parent}"
        self._checkout = hashlib.sha256(made_in.encode()).hexdigest()[:16]
        self.uri, self.used_by, self.stale_s = store_uri(uri), used_by, stale_s
        file = database(self.uri)
        place = file.with_name(file.name + ".lock") if file else self.roots[0] / "spool" / ".track.lock"
        self._lock = Lock(place, wait_s)
        self._client: Any = None
        self._seen: dict[tuple[Path, str], tuple[Any, str]] = {}  # run → signature of its files, status
        self._experiments: dict[str, str] = {}
        self._groups = grouped.Groups()

    def run(self, tries: int = 3) -> Summary:
        """One pass; the store is not opened if no file has changed. Retries if the database is locked by others."""
        for left in reversed(range(tries)):
            try:
                return self._pass()
            except TrackingError as error:
                if "locked" not in str(error) or not left:
                    raise
        raise AssertionError("unreachable")

    def _pass(self) -> Summary:
        summary, now = Summary(), time.time()
        changed: list[tuple[Source, Any]] = []
        self.roots = [*dict.fromkeys([*self.roots, *self._find()])]
        for root in self.roots:
            found, problems = sources(root)
            summary.problems += problems
            shown = self.used_by.signature(root) if self.used_by else None
            for source in found:
                signature = (source.signature(), shown)
                if self._seen_before(source, signature, now):
                    summary.unchanged += 1
                else:
                    changed.append((source, signature))
        if not changed:
            return summary
        with self._lock, one_line(self.uri):
            fresh = [one for one in self.roots if one not in self._opened]
            self._client = self._client or open_store(self.uri)
            self._retire(fresh)
            self._import(changed, summary, now)
            self._close_orphans(fresh)
            self._opened.update(fresh)
        return summary

    def _seen_before(self, source: Source, signature: Any, now: float) -> bool:
        before, status = self._seen.get((source.root, source.id), (None, ""))
        silent = now - max((time_ns for time_ns, _ in signature[0]), default=0) / 1e9
        return before == signature and (status != spool.RUNNING or silent <= self.stale_s)

    def _import(self, changed: list[tuple[Source, Any]], summary: Summary, now: float) -> None:
        read: list[tuple[Source, Any, Tracked]] = []
        for source, signature in changed:
            interrupt.check()
            try:
                read.append((source, signature, tracked(source, self.used_by, self.stale_s, now)))
            except Exception as error:  # a line or a record can hold any JSON; the other runs are imported
                kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
                summary.problems.append(f"{source.id}: {kind}{error}")
        runs = [run for _, _, run in read]
        parents = self._groups.add(runs)
        whole: list[Tracked] = []
        for root in {source.root: 0 for source, _ in changed}:
            try:
                if run := rendered.report(root):
                    whole.append(run)
            except ValueError as error:  # the runs are imported without the rendering
                summary.problems.append(str(error))
        ids: dict[str, list[str]] = {}
        for run in [*whole, *parents, *runs]:
            ids.setdefault(run.experiment, []).append(run.id)
        stored = {name: self._stored(name, many) for name, many in ids.items()}
        nobody = Summary()  # discarded: groups and reports are not counted as runs
        for run in whole:
            self._one(run, stored[run.experiment].get(run.id, []), nobody)
        for run in parents:
            place = self._one(run, stored[run.experiment].get(run.id, []), nobody)
            if self._groups.places.get((run.experiment, run.group)) != place:
                self._look_again(self._groups.ids_of(run))
            self._groups.places[run.experiment, run.group] = place
        older: list[str] = []
        for source, signature, run in read:
            interrupt.check()
            there = stored[run.experiment].get(run.id, [])
            older += [run.name] * gone_back(source, run, there, self._checkout)
            if parent := self._groups.places.get((run.experiment, run.group)):
                run.tags[PARENT] = parent
            self._one(run, there, summary)
            summary.statuses[run.status] = summary.statuses.get(run.status, 0) + 1
            self._seen[source.root, source.id] = (signature, run.status)
        if older:
            summary.problems.append(KEPT.format(len(older), older[0]))

    def _look_again(self, ids: set[str]) -> None:
        """Make the next pass read these runs again, because they now belong to a group."""
        for key, (_, status) in list(self._seen.items()):
            if key[1] in ids:
                self._seen[key] = (None, status)

    def _one(self, run: Tracked, stored: list[Stored], summary: Summary) -> str | None:
        """Find or create the MLflow run of this execution, fill it, and move the runs it replaces to the trash.

        Returns its id in MLflow; None if there must be no such run (deleted by hand, or a newer execution is stored).
        """
        live = [one for one in stored if one.info.lifecycle_stage == "active"]
        if any(one.data.tags[PREFIX + "started"] > run.started for one in live):
            summary.unchanged += 1  # the store has a newer execution, imported from elsewhere
            return None
        same = [one for one in stored if one.data.tags[PREFIX + "started"] == run.started]
        same = [one for one in same if PREFIX + "replaced" not in one.data.tags]
        current = next((one for one in same if one in live), None)
        if current is None and same:
            summary.deleted_by_hand += 1
            return None
        if current is not None and contradicts(current.data.tags, run):
            self._client.set_tag(current.info.run_id, PREFIX + "replaced", "yes")
            current = None
        old = [one for one in live if one is not current]
        if (
            current is not None
            and not old
            and current.data.tags.get(PREFIX + "imported") == run.fingerprint()
        ):
            summary.unchanged += 1
            return str(current.info.run_id)
        if current is None:
            current = self._create(run)
            summary.created += not old
        else:
            summary.updated += not old
        summary.replaced += bool(old)
        self._fill(current, run)
        for one in old:
            self._client.delete_run(one.info.run_id)
        return str(current.info.run_id)

    def _create(self, run: Tracked) -> Stored:
        # a single transaction: the run never exists without the tags that identify it
        tags = {
            PREFIX + "run": run.id,
            PREFIX + "started": run.started,
            PREFIX + "intent": str(run.size),
            PREFIX + "checkout": self._checkout,
            **run.tags,
        }
        experiment = self._experiment(run)
        return self._client.create_run(experiment, start_time=run.start_ms, tags=tags, run_name=run.name)

    def _fill(self, current: Stored, run: Tracked) -> None:
        """Fill the run. A kill may interrupt it after any write; the next import repeats what the tags do not confirm."""
        client, key, tags = self._client, current.info.run_id, current.data.tags
        for name in ("reason", "strange", "artefact", "cell", "claim", PARENT):
            if name in tags and name not in run.tags:
                client.delete_tag(key, name)
        if current.info.run_name != run.name:
            client.update_run(key, name=run.name)
        fresh = {name: value for name, value in run.tags.items() if tags.get(name) != value}
        if NOTE in tags:
            fresh.pop(NOTE, None)  # may have been edited by a user
        params = [Param(*one) for one in run.params.items() if one[0] not in current.data.params]
        for batch in batches(tags, run):
            for one in batch.before.items():
                client.set_tag(key, *one)
            metrics = [Metric(*point) for point in batch.points]
            while len(metrics) > METRICS_A_CALL or len(params) > PARAMS_A_CALL:
                client.log_batch(key, metrics=metrics[:METRICS_A_CALL], params=params[:PARAMS_A_CALL])
                metrics, params = metrics[METRICS_A_CALL:], params[PARAMS_A_CALL:]
            # within one call, MLflow commits the metrics before the tags that confirm them
            vouching = [RunTag(*one) for one in {**fresh, **batch.after}.items()]
            while len(vouching) > PARAMS_A_CALL:
                client.log_batch(key, tags=vouching[:PARAMS_A_CALL])
                vouching = vouching[PARAMS_A_CALL:]
            client.log_batch(key, metrics=metrics, params=params, tags=vouching)
            params = []
        if run.inputs and not (current.inputs and current.inputs.dataset_inputs):
            client.log_inputs(key, [_dataset(*one) for one in run.inputs])
        self._artifacts(current, run.files)
        if run.status != spool.RUNNING:
            client.set_terminated(key, run.status, run.end_ms)
        elif current.info.status != spool.RUNNING:
            client.update_run(key, status=spool.RUNNING)
        client.set_tag(key, PREFIX + "imported", run.fingerprint())

    def _artifacts(self, current: Stored, files: list[tuple[Path, str]]) -> None:
        served, folder = "mlflow-artifacts:/", artifact_folder(self.uri)
        location = current.info.artifact_uri
        for file, below in files:
            if not location.startswith(served) or folder is None:
                self._client.log_artifact(current.info.run_id, str(file), below or None)
                continue
            target = folder / location.removeprefix(served).lstrip("/") / below / file.name
            sweep(target.parent)  # remove files left by a killed importer
            if not target.exists() or digest(target) != digest(file):
                target.parent.mkdir(parents=True, exist_ok=True)
                write(target, file.read_bytes())

    def _experiment(self, run: Tracked) -> str:
        name = run.experiment
        if name not in self._experiments:
            found = self._client.get_experiment_by_name(name)
            if found is None:
                about: dict[str, str] = {
                    key: run.tags[key] for key in ("paper", "study", "scale") if key in run.tags
                }
                location = "mlflow-artifacts:/" + "-".join(about.values()) if database(self.uri) else None
                description = (
                    self.used_by.about(run.tags["study"]) if self.used_by and "study" in run.tags else ""
                )
                about |= {NOTE: description} if description else {}
                self._experiments[name] = self._client.create_experiment(name, location, about)
            else:
                if found.lifecycle_stage == "deleted":
                    self._client.restore_experiment(found.experiment_id)
                    for one in [*self._search(found.experiment_id, "", ViewType.ACTIVE_ONLY)]:
                        self._client.delete_run(one.info.run_id)  # MLflow restores them, too
                self._experiments[name] = found.experiment_id
        return self._experiments[name]

    def _stored(self, experiment: str, ids: list[str]) -> dict[str, list[Stored]]:
        """MLflow's runs with these run ids, including those in the trash."""
        found = self._client.get_experiment_by_name(experiment)
        conditions = [f"tags.`{PREFIX}run` = '{one}'" for one in ids]
        if len(ids) > BULK:
            conditions = [f"tags.`{PREFIX}run` != ''"]
        stored: dict[str, list[Stored]] = {}
        for condition in conditions if found is not None else ():
            for run in self._search(found.experiment_id, condition, ViewType.ALL):
                stored.setdefault(run.data.tags[PREFIX + "run"], []).append(run)
        return stored

    def _search(self, experiment: str, condition: str, view: int) -> Iterator[Stored]:
        token: str | None = None
        while True:
            page = self._client.search_runs([experiment], condition, view, RUNS_A_PAGE, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _close_orphans(self, roots: Sequence[Path]) -> None:
        """Mark as KILLED this checkout's runs that are RUNNING in the store although their files no longer exist."""
        ids = {run for _, run in self._seen} | self._groups.ids
        for root in roots:
            here = f"tags.scale = '{root.name}'"
            for experiment in self._client.search_experiments(filter_string=here):
                running = "attributes.status = 'RUNNING'"
                for run in self._search(experiment.experiment_id, running, ViewType.ACTIVE_ONLY):
                    tags = run.data.tags
                    ours = tags.get(PREFIX + "checkout", self._checkout) == self._checkout
                    if ours and tags.get(PREFIX + "run", "") not in ids | {""}:
                        self._client.set_tag(run.info.run_id, "reason", "its files are gone")
                        self._client.set_terminated(run.info.run_id, spool.KILLED)

    def _retire(self, roots: Sequence[Path]) -> None:
        """Move experiments of an earlier version, with other names and tags, to MLflow's trash; their runs are imported again."""
        for root in roots:
            older = f"tags.`relearn.scale` = '{root.name}'"
            for experiment in self._client.search_experiments(filter_string=older):
                self._client.delete_experiment(experiment.experiment_id)


def _dataset(name: str, path: str, sha256: str) -> DatasetInput:
    source = json.dumps({"uri": path})
    made = path.rpartition("/runs/")[2]  # the distinctive part of the path; MLflow truncates the end
    return DatasetInput(Dataset(made, sha256[:16], "local", source), [InputTag("mlflow.data.context", name)])
