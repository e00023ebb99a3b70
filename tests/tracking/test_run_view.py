"""Which points an importer writes, against a model store that takes what MLflow takes: no MLflow, every
interleaving.
"""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.runs import spool
from relearn.tracking import points, rendered
from relearn.tracking import run_view as tracked
from relearn.tracking.names import PREFIX

START: dict[str, Any] = {
    "paper": "p",
    "study": "s",
    "step": "t",
    "scale": "mini",
    "seed": 0,
    "labels": {},
    "settings": {},
    "inputs": {},
    "started": "2026-01-01T00:00:00.000000+00:00",
    "code": {"version": "v", "commit": None, "dirty": None, "packages": {}},
    "machine": {"device": "cpu", "precision": "fp32", "threads": 1},
}
VALUES = st.sampled_from([0.5, 0.25, float("nan")])
WHOLE = 6  # writes of an import, at most
DEEDS = st.one_of(
    st.tuples(st.just("log"), st.integers(0, 2), VALUES),
    st.tuples(st.just("resume")),
    st.tuples(st.just("import"), st.integers(0, WHOLE)),
)


class Store:
    """As MLflow: the very same point twice is one, anything else is one more; tags are written after the
    points.
    """

    def __init__(self) -> None:
        self.tags: dict[str, str] | None = None
        self.points: set[tuple[str, float, int, int]] = set()

    def take(self, run: tracked.Tracked, writes: int) -> None:
        """An import that dies after so many writes; a batch is announced, written and vouched for by one each."""
        if self.tags is not None and points.contradicts(self.tags, run):
            self.tags, self.points = None, set()
        if self.tags is None:
            self.tags = {PREFIX + "intent": str(run.size)}
        for batch in points.batches(dict(self.tags), run):
            for write in (batch.before, batch.points, batch.after):
                if writes == 0:
                    return
                writes -= 1
                if isinstance(write, dict):
                    self.tags.update(write)
                else:
                    self.points |= set(write)


def seen(path: Path) -> tracked.Tracked:
    source = tracked.Source(path.parent.parent, path.stem, spool=path)
    return tracked.tracked(source, None, stale_s=1.0e12, now=0.0)


def test_two_curves_of_one_run_keep_two_names(tmp_path: Path) -> None:
    path = tmp_path / "spool" / "run.jsonl"
    writer = spool.Spool(path)
    writer.begin(START, fresh=True)
    writer.metrics(0, {"acc_frac": 0.5, "test_accuracy_frac": 0.25})
    writer.metrics(1, {"nll_nats": 2.0})
    story = tracked.read_story(path)
    assert story is not None and {name: value for (name, _), (_, value) in story.points.items()} == {
        "acc_frac": 0.5,
        "test_accuracy_frac": 0.25,
        "test_loss_nats": 2.0,
    }


@settings(max_examples=300)
@given(st.lists(DEEDS, max_size=14), st.sampled_from([0.5, 0.25]))
def test_however_imports_and_attempts_interleave_each_step_is_there_once_with_its_last_value(
    deeds: list[tuple[Any, ...]], final: float
) -> None:
    clock = iter(range(1, 10**6))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spool" / "run.jsonl"
        real, spool.time.time = spool.time.time, lambda: float(next(clock))  # no two lines at one time
        try:
            store, writer = Store(), spool.Spool(path)
            writer.begin(START, fresh=True)
            for deed, *how in deeds:
                if deed == "log":
                    writer.metrics(how[0], {"loss": how[1]})
                elif deed == "resume":
                    writer = spool.Spool(path)
                    writer.begin(START, fresh=False)
                else:
                    store.take(seen(path), how[0])
        finally:
            spool.time.time = real
        whole = seen(path)
        store.take(whole, WHOLE)
        assert whole.story is not None
        told = {place: value for place, (_, value) in whole.story.points.items()}
        assert len(store.points) == len(told)
        assert {(key, step): value for key, value, _, step in store.points} == told
        # the record's own numbers come after the curves, and twice is once
        done = dataclasses.replace(
            whole, finals={"loss": final, "acc_frac": 1.0}, record_sha="a" * 64, end_ms=10**9
        )
        for writes in (2, WHOLE, WHOLE):
            store.take(done, writes)
        last = max((step for _, step in told), default=-1)
        added = {("acc_frac", 0): 1.0}
        if last < 0 or told["loss", last] != final:
            added["loss", max(last, 0)] = final  # the step is a real one
        latest = {
            (key, step): value
            for key, value, _, step in sorted(store.points, key=lambda one: one[2])  # as MLflow takes it
        }
        assert latest == {**told, **added}
        assert len(store.points) == len(told) + len(added)


def test_a_fingerprint_changes_with_all_that_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "spool" / "run.jsonl"
    spool.Spool(path).begin(START, fresh=True)
    run = seen(path)
    assert seen(path).fingerprint() == run.fingerprint()
    changes: list[dict[str, Any]] = [
        {"status": "KILLED"},
        {"record_sha": "b"},
        {"tags": {}},
        {"name": "x"},
        {"numbers": {"a": 1.0}},
    ]
    changes.append({"started": "2027"})
    prints = {dataclasses.replace(run, **change).fingerprint() for change in changes}
    assert len(prints | {run.fingerprint()}) == len(changes) + 1
    writer = spool.Spool(path)
    writer.begin(START, fresh=False)
    assert seen(path).fingerprint() not in prints | {run.fingerprint()}


def test_a_number_of_the_record_is_later_than_the_point_that_it_replaces(tmp_path: Path) -> None:
    """Of two values at one step MLflow shows the later one; the clock of the record may be behind that of the curve."""
    path = tmp_path / "spool" / "run.jsonl"
    writer = spool.Spool(path)
    writer.begin(START, fresh=True)
    writer.metrics(2, {"loss": 1.0})
    writer.metrics(3, {"loss": 0.5})
    run = seen(path)
    assert run.story
    last = int(run.story.points["loss", 3][0] * 1000)

    def written(value: float, end_ms: int) -> list[tuple[str, float, int, int]]:
        done = dataclasses.replace(run, finals={"loss": value}, record_sha="a", end_ms=end_ms)
        found = points.batches({PREFIX + "intent": "0"}, done)
        return [point for batch in found for point in batch.points][2:]  # behind the curve's two

    assert written(0.25, last - 1000) == [("loss", 0.25, last + 1, 3)]
    assert written(0.25, last + 1000) == [("loss", 0.25, last + 1000, 3)]
    assert written(0.5, last + 1000) == []  # the curve ends with it


def test_several_passes_are_counted_together():
    first = tracked.Summary(created=3, updated=1, problems=["gone since"], statuses={"RUNNING": 3})
    last = tracked.Summary(updated=2, unchanged=3, statuses={"FINISHED": 3})
    found = tracked.in_all(first, last)
    assert (found.created, found.updated, found.unchanged, found.problems) == (3, 3, 3, [])
    assert found.statuses == {"FINISHED": 3}


def test_of_the_tables_only_the_files_of_members_are_left_out(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name in ("a.csv", "a.md", "a.accuracy.csv", "a.accuracy.md", "a.victims.csv"):
        (folder / name).write_text("")
    found = [path.name for path, place in rendered._files(tmp_path) if place == "tables"]
    assert sorted(found) == ["a.accuracy.csv", "a.accuracy.md", "a.csv", "a.md"]
