"""dvc.yaml agrees with the rules: every file has the stage of its study, and every stage asks for all its records."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc_render import VegaRenderer

from relearn.cli import dvc, jobs
from relearn.report import artefacts, published_set
from relearn.runs.atomic_files import digest
from relearn.studies.study import all_studies

from .conftest import CHECKOUT, Scratch

LIST = """
import json
from dvc.repo import Repo
with Repo() as repo:
    print(json.dumps({
        stage.addressing: {
            "cmd": stage.cmd if isinstance(stage.cmd, str) else stage.cmd[-1],  # after its mkdir
            "deps": [dep.def_path for dep in stage.deps],
            "outs": [out.def_path for out in stage.outs],
            "kept": all(out.persist for out in stage.outs),
            "cached": all(out.use_cache for out in stage.outs),
        }
        for stage in repo.index.stages
    }))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """One for all tests here: they only ask."""
    return Scratch(tmp_path_factory.mktemp("dvc") / "checkout")


@pytest.fixture(autouse=True)
def _inside(checkout: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout.root)


@pytest.fixture(scope="module")
def stages(checkout: Scratch) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(checkout.run(sys.executable, "-c", LIST).stdout)
    return found


@pytest.fixture(scope="module")
def plan(checkout: Scratch) -> list[jobs.Job]:
    """Every job there is: seconds of Snakemake, so it is asked once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(checkout.root)
        return jobs.plan()


def holds(outs: list[str], path: str) -> bool:
    return any(path == out or path.startswith(f"{out}/") for out in outs)


def target(stage: dict[str, Any]) -> str:
    """The Snakemake target behind a stage."""
    (name,) = stage["cmd"].partition(" -- ")[2].split()
    return str(name)


def of_snakemake(stages: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """All stages but `code`, whose commands are verbs."""
    return {name: stage for name, stage in stages.items() if name != "code"}


def test_the_tracked_file_is_what_the_verb_prints() -> None:
    assert (CHECKOUT / "dvc.yaml").read_text() == dvc.text(CHECKOUT / "params.yaml")


def test_every_file_of_the_dag_is_an_output_of_the_stage_of_its_study(
    stages: dict[str, dict[str, Any]], plan: list[jobs.Job]
) -> None:
    for job in plan:
        for path in job.outputs:
            makers = [name for name, stage in stages.items() if holds(stage["outs"], path)]
            assert makers == [job.study or "render"], path


def test_a_stage_depends_on_every_study_whose_runs_it_reads(
    stages: dict[str, dict[str, Any]], plan: list[jobs.Job]
) -> None:
    across = set()
    for job in plan:
        own = job.study or "render"
        for path in job.inputs:
            made_here = holds(stages[own]["outs"], path)
            assert made_here or holds(stages[own]["deps"], path), f"{own} reads {path}"
            if not made_here and "/runs/" in path:
                across.add((own, path.partition("/runs/")[2].partition("/")[0]))
    assert {("render", study.name) for study in all_studies()} < across


def test_the_report_promises_every_table_and_figure(plan: list[jobs.Job]) -> None:
    (report,) = (job for job in plan if job.rule == "render")
    made = {Path(path).name for path in report.outputs if Path(path).parent.name in ("tables", "figures")}
    kinds = {"table": ("csv", "md", "tex"), "figure": ("csv", "png", "pdf")}
    known = artefacts.load({study.name: study.reported for study in all_studies()}).values()
    forest = {f"claims_forest.{kind}" for kind in kinds["figure"]}
    assert made == {f"{one.id}.{kind}" for one in known for kind in kinds[one.kind]} | forest
    read = {Path(path) for path in report.inputs}
    assert set(Path("src/relearn/studies").glob("*/reported/*.yaml")) <= read
    assert Path("params/paper.yaml") in read  # the published settings, for the deviations


def test_the_report_is_stale_once_its_template_or_its_style_changes(plan: list[jobs.Job]) -> None:
    (report,) = (job for job in plan if job.rule == "render")
    for name in ("report.html.j2", "parts.html.j2", "palette.css", "report.css", "report.js"):
        assert digest(Path("src/relearn/report") / name) in report.code


def test_there_is_one_stage_for_each_study(stages: dict[str, dict[str, Any]]) -> None:
    assert set(stages) == {"code", "render", *(study.name for study in all_studies())}
    assert len(stages) <= 14
    for stage in stages.values():
        assert stage["kept"]  # DVC must not delete what Snakemake finds done
        assert stage["cached"]  # git has none of it: the old side of a diff is in the cache


def test_each_target_of_a_stage_can_be_planned_alone(
    stages: dict[str, dict[str, Any]], plan: list[jobs.Job]
) -> None:
    for name, stage in of_snakemake(stages).items():
        alone = {path for job in jobs.plan([target(stage)]) for path in job.outputs}
        assert {path for job in plan if (job.study or "render") == name for path in job.outputs} <= alone


def test_each_stage_asks_for_every_record_that_it_may_make(
    stages: dict[str, dict[str, Any]], plan: list[jobs.Job]
) -> None:
    """Snakemake makes a lost record again only where a target asks for it."""
    with jobs.workflow() as built:
        asked = {rule.name: set(map(str, rule.input)) for rule in built.rules if not rule.output}
    for job in plan:
        files = asked[target(stages[job.study or "render"])]
        assert {job.record} <= files if job.record else set(job.outputs) <= files, job.outputs[0]


DRAWN = [one for entry in dvc.plots() if isinstance(entry, dict) for one in entry.values()]


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: Path(*plot["y"]).stem)
def test_a_plot_names_columns_of_its_file(plot: dict[str, Any]) -> None:
    """In the published points, which the renderers of today's columns wrote."""
    points = published_set.csv_files(CHECKOUT / "results/published/mini", "figures")
    for file, column in plot["y"].items():
        lines = csv.DictReader(points[Path(file).name].decode().splitlines())
        rows = [{**row, "rev": "workspace"} for row in lines]
        assert {plot["x"], column} <= set(rows[0])
        template = str(CHECKOUT / plot["template"])
        filled = VegaRenderer(rows, "it", x=plot["x"], y=column, template=template).get_filled_template()
        assert len(filled["data"]["values"]) == len(rows)
        assert filled["spec"]["encoding"]["y"]["field"] == column


def test_every_figure_is_shown_and_those_of_points_have_a_title() -> None:
    known = artefacts.load({study.name: study.reported for study in all_studies()})
    figures = {one.id for one in known.values() if one.kind == "figure"}
    assert {Path(one).stem for one in dvc.plots() if isinstance(one, str)} == {"claims_forest", *figures}
    titles = [title for one in dvc.plots() if isinstance(one, dict) for title in one]
    assert len(titles) == len(set(titles)) == len(DRAWN) > 20
    assert "zhu2022 figure 2.11: " in " ".join(titles)


def test_a_comparison_of_parameters_lists_no_hash() -> None:
    """What DVC calls parameters is params.yaml alone; code versions are files that a stage depends on."""
    tree = yaml.safe_load((CHECKOUT / "dvc.yaml").read_text())
    assert tree["params"] == ["params.yaml"]
    for name, stage in tree["stages"].items():
        assert all(isinstance(one, str) for one in stage.get("params", ())), name
        if name != "code":
            assert f"results/code/{name}.json" in stage["deps"]


def test_nothing_is_sent_anywhere() -> None:
    root = Path(__file__).resolve().parents[2]
    config = (root / ".dvc" / "config").read_text()
    assert "analytics = false" in config
    assert "remote" not in config
    assert "check_update = false" in config
