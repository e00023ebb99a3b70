"""What MLflow shows of imported runs."""

import json
import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from relearn.runs import record, spool
from relearn.tracking import connection
from relearn.tracking import importer as tracking
from relearn.tracking.names import PREFIX
from relearn.tracking.run_view import flat
from relearn.tracking.store import store_uri

from .imported import EXPERIMENT, LABELS, ROOT, Shown, curve, finished, make, of_kind, stored, texts

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.usefixtures("project"),
]


def test_a_person_finds_the_cell_of_a_table_at_once() -> None:
    finished(0)
    finished(1, labels={**LABELS, "attack": "feature_collision"})
    cell = {("zhu2022.table2.2", "deep_knn", "defence_success", "fraction"): (0.75, 0.5, 0.25)}
    shown = Shown(
        artefacts=("table 2.2", "figure 2.5"),
        cells=("table 2.2, Deep k-NN, DPN92", "figure 2.5, Convex polytope, DPN92"),
        claims=("knn_beats_baselines",),
        numbers=cell,
        rendered_ms=5,
    )
    tracking.import_spool(ROOT, used_by=shown)
    client = connection.MlflowClient(store_uri())
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment.tags["mlflow.note.content"] == "all about poisoning"
    for wanted in (
        "tags.cell LIKE '%table 2.2, Deep k-NN, DPN92;%'",
        "tags.artefact LIKE '%table 2.2;%' and tags.defence = 'deep_knn' and tags.victim = 'DPN92'",
        "tags.claim LIKE '%knn_beats_baselines;%' and tags.study = 'poisoning'",
    ):
        (run,) = client.search_runs([experiment.experiment_id], wanted)
    assert not client.search_runs([experiment.experiment_id], "tags.artefact LIKE '%table 2;%'")
    assert run.info.run_name == "DPN92 deep_knn convex_polytope seed0 train"
    assert run.data.tags["artefact"] == "table 2.2; figure 2.5;"
    assert run.data.params == {
        **{f"label.{key}": value for key, value in LABELS.items()},
        "seed": "0",
        "lr": "0.1",
        "training.milestones": "[30,45]",
        "training.schedule": "cosine",
    }
    read = record.read(make().out)
    name = "zhu2022.table2.2/deep_knn/defence_success_frac"
    assert run.data.metrics == {
        "loss": 0.25,
        "test_accuracy_frac": 0.75,
        **{
            f"{kind}/{name}": value
            for kind, value in [("measured", 0.75), ("published", 0.5), ("deviation", 0.25)]
        },
        **{f"system/{key}": read["cost"][key] for key in ("wall_s", "cpu_s")},
        "system/peak_memory_mb": read["cost"]["peak_memory_bytes"] * 1e-6,
    }
    for key in ("paper", "study", "step", "scale", "seed", "commit", "dirty", "settings", "device", "code"):
        assert run.data.tags[key]
    (data,) = run.inputs.dataset_inputs
    assert data.dataset.digest == record.digest("data.bin")[:16] and data.tags[0].value == "data"
    for part in (
        "relearn poisoning train \\\n  --settings '",
        "--input data data.bin",
        "--label victim=DPN92",
        "--out results/mini/runs",
    ):
        assert part in run.data.tags["mlflow.note.content"]


def test_only_what_a_page_hides_tells_how_far_an_import_has_come() -> None:
    finished(0)
    tracking.import_spool(ROOT)
    (run,) = stored()
    hidden = {key for key in run.data.tags if key.startswith("mlflow.")}
    assert {PREFIX + key for key in ("run", "started", "intent", "spooled", "record", "imported")} <= hidden
    assert not [key for key in run.data.tags if key.startswith("relearn")]


def test_a_run_with_earlier_settings_keeps_its_numbers_and_is_in_no_table() -> None:
    shown = Shown(cells=("table 2.2, Deep k-NN, DPN92",), claims=("knn_beats_baselines",))
    finished(0)
    tracking.import_spool(ROOT, used_by=shown)
    finished(0, settings={"lr": 0.2})  # in the same folder
    for _ in range(2):
        tracking.import_spool(ROOT, used_by=shown)
        (now,), (before,) = stored(), of_kind("superseded")
        assert (now.data.params["lr"], before.data.params["lr"]) == ("0.2", "0.1")
        assert now.data.metrics["test_accuracy_frac"] == before.data.metrics["test_accuracy_frac"] == 0.75
        assert curve(before) == [(0, 0.5), (1, 0.25)]
        assert "cell" in now.data.tags and not {"cell", "claim"} & set(before.data.tags)


def test_another_rendering_adds_its_numbers_and_the_latest_counts() -> None:
    finished(0)
    name = ("zhu2022.table2.2", "deep_knn", "defence_success", "fraction")
    for measured, at in ((0.75, 1000), (0.5, 2000), (0.5, 2000)):
        shown = Shown(
            numbers={name: (measured, 0.25, measured - 0.25)}, claims=(f"claim{at}",), rendered_ms=at
        )
        result = tracking.import_spool(ROOT, used_by=shown)
    assert result.unchanged == 1
    (run,) = stored()
    key = "zhu2022.table2.2/deep_knn/defence_success_frac"
    assert run.data.metrics[f"measured/{key}"] == 0.5 and run.data.metrics[f"deviation/{key}"] == 0.25
    assert run.data.tags["claim"] == "claim2000;"
    tracking.import_spool(ROOT, used_by=Shown(rendered_ms=3000))
    (run,) = stored()
    assert "claim" not in run.data.tags


def test_the_runs_of_a_step_stand_below_one_that_says_how_they_are() -> None:
    importer = tracking.Importer(ROOT)
    finished(0)
    importer.run()
    assert not list(of_kind("grid"))  # one run needs no group
    failed = make(1)
    with pytest.raises(ZeroDivisionError), failed:
        raise ZeroDivisionError
    result = importer.run()
    (group,) = of_kind("grid")
    assert (group.info.run_name, group.info.status) == ("train: 2 runs", spool.FAILED) and result.created == 1
    importer.run()  # the first run has a group only now
    assert [one.data.tags[tracking.PARENT] for one in stored()] == [group.info.run_id] * 2
    assert importer.run().unchanged == 2
    assert tracking.import_spool(ROOT).created == 0
    assert [one.data.tags[tracking.PARENT] for one in stored()] == [group.info.run_id] * 2
    finished(1)
    finished(2)
    tracking.import_spool(ROOT)
    (group,) = of_kind("grid")
    assert (group.info.run_name, group.info.status) == ("train: 3 runs", spool.FINISHED)


def test_what_was_rendered_is_one_run_with_verdicts_cells_and_figures() -> None:
    finished(0)
    write_rendering(effect=0.25)
    tracking.import_spool(ROOT)
    (before,) = of_kind("report")
    assert before.data.tags["claim/poisoning/cp_beats_fc"] == "reproduced (provisional)"
    assert before.data.tags["verdicts"] == "1 reproduced"
    cell = "zhu2022.table2.2/deep_knn/defence_success_frac"
    assert before.data.metrics == {
        "verdicts/reproduced_count": 1.0,
        "effect/poisoning/cp_beats_fc_frac": 0.25,
        "low/poisoning/cp_beats_fc_frac": 0.125,
        "coverage/cells_measured_count": 3.0,
        "coverage/cells_defined_count": 4.0,
        **{
            f"{kind}/{cell}": value
            for kind, value in [("measured", 0.75), ("published", 1.0), ("deviation", -0.25)]
        },
    }
    place = Path("mlartifacts") / before.info.artifact_uri.removeprefix("mlflow-artifacts:/")
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    tables = {f"tables/zhu2022.table2.2.{kind}" for kind in ("csv", "md")}
    assert files == {"claims.json", "coverage.csv", "report.html", "figures/zhu2022.fig2.5.png", *tables}
    assert tracking.import_spool(ROOT).unchanged == 1 and [one.info.run_id for one in of_kind("report")] == [
        before.info.run_id
    ]
    write_rendering(effect=0.5)
    os.utime(ROOT / "claims.json", (2.0e9, 2.0e9))
    tracking.import_spool(ROOT)
    (after,) = of_kind("report")
    assert after.data.metrics["effect/poisoning/cp_beats_fc_frac"] == 0.5


def write_rendering(effect: float) -> None:
    """What `relearn render` leaves, as far as the importer reads it."""
    claim = {
        "section": "poisoning",
        "id": "cp_beats_fc",
        "kind": "trained",
        "verdict": "reproduced",
        "runs": [],
    }
    claim |= {"provisional": True, "effect": effect, "low": 0.125, "high": None, "unit": "fraction"}
    for folder in ("figures", "tables"):
        (ROOT / folder).mkdir(exist_ok=True)
    (ROOT / "claims.json").write_text(json.dumps({"scale": "mini", "claims": [claim]}))
    (ROOT / "report.html").write_text("<p>all</p>")
    (ROOT / "figures/zhu2022.fig2.5.png").write_bytes(b"png")
    (ROOT / "figures/zhu2022.fig2.5.pdf").write_bytes(b"pdf")
    (ROOT / "coverage.csv").write_text("artefact,cells_measured,cells_defined,addition\na,3,4,0\nb,9,9,1\n")
    (ROOT / "tables/zhu2022.table2.2.md").write_text("| a |")
    (ROOT / "tables/zhu2022.table2.2.seeds.csv").write_text("artefact,row,column,unit,member,mean\n")
    (ROOT / "tables/zhu2022.table2.2.csv").write_text(
        "artefact,row,column,unit,mean,paper,published_code,deviation\n"
        "zhu2022.table2.2,deep_knn,defence_success,fraction,0.75,,1.0,-0.25\n"
        "zhu2022.table2.2,none,defence_success,fraction,0.75,,\n"
    )


def test_experiments_of_an_earlier_version_make_room() -> None:
    finished(0)
    client = connection.MlflowClient(store_uri())
    older = client.create_experiment("zhu2022 poisoning (mini)", tags={"relearn.scale": "mini"})
    mine = client.create_experiment("mine", tags={"relearn.scale": "small"})
    tracking.import_spool(ROOT)
    assert client.get_experiment(older).lifecycle_stage == "deleted"
    assert client.get_experiment(mine).lifecycle_stage == "active"


def test_settings_are_flat() -> None:
    assert dict(flat({"a": {"b": 1.0e-3, "c": {}}, "d$": [1, {"e": None}], "f": True})) == {
        "a.b": "0.001",
        "a.c": "{}",
        "d_": '[1,{"e":null}]',
        "f": "true",
    }


def test_nothing_infinite_and_nothing_absolute_is_in_the_store(project: Path) -> None:
    with make() as run:
        for step, value in enumerate([0.5, math.inf, -math.inf, math.nan, 0.25]):
            run.log(step, loss=value)
        run.finish(
            {"a_frac": math.nan, "b_frac": 0.5}, outcome="diverged", outcome_step=1, outcome_reason="loss"
        )
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert curve(one) == [(0, 0.5), (4, 0.25)] and "a_frac" not in one.data.metrics
    assert one.data.tags["strange"] == "loss is inf at step 1; loss is -inf at step 2; loss is nan at step 3"
    assert (one.info.status, one.data.tags["outcome"]) == (spool.FINISHED, "diverged")
    with closing(sqlite3.connect("mlflow.db")) as connection:
        assert not connection.execute("SELECT * FROM metrics WHERE is_nan OR abs(value) > 1e300").fetchall()
    assert str(project) not in texts() and str(Path.home()) + "/" not in texts()
