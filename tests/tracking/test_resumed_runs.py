"""Resumed, repeated and deleted runs: the last value wins."""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from relearn.runs import spool
from relearn.tracking import connection
from relearn.tracking import importer as tracking
from relearn.tracking.names import PREFIX
from relearn.tracking.store import store_uri

from .imported import EXPERIMENT, ROOT, curve, finished, killed, log, make, renew, state, stored

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.usefixtures("project"),
]


def test_a_resumed_run_that_says_the_same_stays_the_same_run() -> None:
    killed(0, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    (before,) = stored()
    with make(0) as run:
        log(run, {1: 0.25, 2: 0.125})
        result = tracking.import_spool(ROOT)
        run.finish({"test_accuracy_frac": 0.75})
    tracking.import_spool(ROOT)
    (after,) = stored()
    assert result.replaced == 0 and after.info.run_id == before.info.run_id
    assert curve(after) == [(0, 0.5), (1, 0.25), (2, 0.125)]
    assert after.data.tags["attempts"] == "2"


@pytest.mark.parametrize("later", [0.375, math.nan])
def test_a_resumed_run_that_says_otherwise_has_the_last_word(later: float) -> None:
    killed(0, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    with make(0) as run:
        log(run, {1: later, 2: 0.125})
        run.finish({})
    result = tracking.import_spool(ROOT)
    (one,) = stored()
    assert (result.created, result.replaced) == (0, 1)
    assert curve(one) == [
        (step, value) for step, value in [(0, 0.5), (1, later), (2, 0.125)] if not math.isnan(value)
    ]
    assert tracking.import_spool(ROOT).unchanged == 1


def test_points_that_a_dying_importer_wrote_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead after the points and before the tags that vouch for them; then the run takes one of them back."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    killed(0, {0: 0.5})
    tracking.import_spool(ROOT)
    killed(0, {1: 0.25})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SqlAlchemyStore, "_set_tags", die)
        tracking.import_spool(ROOT)
    assert curve(next(stored())) == [(0, 0.5), (1, 0.25)]
    killed(0, {1: 0.375})
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert curve(one) == [(0, 0.5), (1, 0.375)]


def test_a_new_execution_takes_the_place_of_the_old_one() -> None:
    finished(0, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    finished(0, {0: 0.75}, code_version="v2")
    result = tracking.import_spool(ROOT)
    (one,) = stored()
    assert result.replaced == 1 and curve(one) == [(0, 0.75)] and one.data.tags["code"] == "v2"


def test_an_older_record_does_not_displace_a_newer_run() -> None:
    run = finished(0, {0: 0.5})
    shutil.copytree(ROOT, "elsewhere/mini")
    finished(0, {0: 0.75}, code_version="v2")
    tracking.import_spool(ROOT)
    assert tracking.import_spool("elsewhere/mini").unchanged == 1
    (one,) = stored()
    assert one.data.tags["code"] == "v2" and run.id == one.data.tags[PREFIX + "run"]


@pytest.mark.parametrize("with_spool", [True, False])
def test_a_return_to_an_older_record_is_reported(with_spool: bool) -> None:
    """As by `git checkout` and `dvc checkout`, which do not bring the spool back."""
    run = finished(0, {0: 0.5})
    shutil.copytree(run.out, "before")
    finished(0, {0: 0.75}, code_version="v2")
    assert tracking.import_spool(ROOT).problems == []
    shutil.copytree("before", run.out, dirs_exist_ok=True)
    if not with_spool:
        run.spool.unlink()
    for _ in range(2):
        (problem,) = tracking.import_spool(ROOT).problems
        assert problem.startswith("1 records older than what was imported before, such as DPN92 ")


def test_a_run_that_a_person_deleted_stays_deleted() -> None:
    finished(0)
    tracking.import_spool(ROOT)
    (one,) = stored()
    connection.MlflowClient(store_uri()).delete_run(one.info.run_id)
    result = tracking.import_spool(ROOT)
    assert result.deleted_by_hand == 1 and not list(stored())


def test_a_new_run_takes_its_experiment_out_of_the_trash_but_none_of_the_older_runs() -> None:
    finished(0)
    tracking.import_spool(ROOT)
    client = connection.MlflowClient(store_uri())
    (experiment,) = (one for one in client.search_experiments() if one.name == EXPERIMENT)
    client.delete_experiment(experiment.experiment_id)
    finished(0, {0: 0.75})
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert curve(one) == [(0, 0.75)]


def test_what_a_person_wrote_in_the_note_stays() -> None:
    killed(0, {0: 0.5})
    tracking.import_spool(ROOT)
    (one,) = stored()
    connection.MlflowClient(store_uri()).set_tag(one.info.run_id, "mlflow.note.content", "mine")
    with make(0) as run:
        run.finish({})
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert one.data.tags["mlflow.note.content"] == "mine" and one.info.status == spool.FINISHED


def test_a_record_from_elsewhere_comes_without_spool_and_its_spool_may_follow() -> None:
    run = finished(0, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    whole = state()
    renew()
    run.spool.rename("later.jsonl")
    assert tracking.import_spool(ROOT).created == 1
    (one,) = stored()
    assert one.info.status == spool.FINISHED and one.data.metrics["test_accuracy_frac"] == 0.75
    Path("later.jsonl").rename(run.spool)
    assert tracking.import_spool(ROOT).replaced == 1
    assert state() == whole
