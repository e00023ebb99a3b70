"""dvc.yaml holds together with the rules: every file has its stage, every stage may run its rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from relearn.cli import jobs
from relearn.report import artefacts
from relearn.runs.atomic_files import digest

from .conftest import Scratch

LIST = """
import json
from dvc.repo import Repo
with Repo() as repo:
    print(json.dumps({
        stage.addressing: {
            "cmd": stage.cmd if isinstance(stage.cmd, str) else stage.cmd[-1],  # after its mkdir
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


# Steps that have no stage of their own, by study.
STAGE_OF = {
    "poisoning": {"subset": "prepare", "harden": "pretrain"},
    "gradinit": {"prepare": "data", "folder": "data", "corpus": "data", "translate": "learn"},
    "lipsformer": {"examine": "construct", "prepare": "classify"},
    "layer_scale": {"prepare": "classify"},
    "lrformer": {"examine": "construct", "prepare": "classify"},
    "long_short": {"sequences": "understand", "stream": "predict", "prepare": "classify"},
    "freelb": {"acquire": "finetune", "prepare": "contrast"},
}
TARGET_OF = {  # of the others: <stage>_all
    "data@gradinit": "gradinit_data",
    "construct@lipsformer": "examine_lipsformer_all",
    "construct@lrformer": "examine_lrformer_all",
    **{
        f"classify@{study}": f"classify_{study}_all"
        for study in ("lipsformer", "layer_scale", "lrformer", "long_short")
    },
    **{f"count@{study}": f"count_{study}_all" for study in ("lipsformer", "long_short", "freelb")},
    **{f"throughput@{study}": f"throughput_{study}_all" for study in ("lipsformer", "long_short")},
}


def holds(outs: list[str], path: str) -> bool:
    return any(path == out or path.startswith(f"{out}/") for out in outs)


def test_every_file_of_the_dag_is_an_output_of_the_stage_that_may_make_it(
    stages: dict[str, dict[str, Any]], plan: list[jobs.Job]
) -> None:
    for job in plan:
        for path in job.outputs:
            makers = [name for name, stage in stages.items() if holds(stage["outs"], path)]
            stage = STAGE_OF.get(job.study, {}).get(job.step, job.step)
            assert makers == [f"{stage}@{job.study or 'all'}"], path
            words = stages[makers[0]]["cmd"].split()
            assert job.rule in words[words.index("--allowed-rules") + 1 : words.index("--")]
            target = TARGET_OF.get(f"{stage}@{job.study}", f"{stage}_all")
            assert target in words[words.index("--") + 1 :]


def test_the_report_promises_every_table_and_figure(plan: list[jobs.Job]) -> None:
    (report,) = (job for job in plan if job.rule == "render")
    made = {Path(path).name for path in report.outputs if Path(path).parent.name in ("tables", "figures")}
    kinds = {"table": ("csv", "md", "tex"), "figure": ("csv", "png", "pdf")}
    known = artefacts.load("workflow/reported").values()
    assert made == {f"{one.id}.{kind}" for one in known for kind in kinds[one.kind]}
    read = {Path(path).name for path in report.inputs}
    assert {path.name for path in Path("workflow/reported").glob("*.yaml")} <= read


def test_the_report_is_stale_once_its_template_or_its_style_changes(plan: list[jobs.Job]) -> None:
    (report,) = (job for job in plan if job.rule == "render")
    for name in ("report.html.j2", "report.css"):
        assert digest(Path("src/relearn/report") / name) in report.code


def test_stages_are_few_and_named_after_step_and_study(stages: dict[str, dict[str, Any]]) -> None:
    steps = {
        "poisoning": ["prepare", "pretrain", "craft", "filter", "train", "evaluate"],
        "gradinit": ["data", "initialise", "learn", "probe"],
        "l2_attention": ["characters", "language", "ascend", "invert", "examine", "clock"],
        "lipsformer": ["construct", "count", "classify", "throughput", "retest"],
        "layer_scale": ["classify"],
        "lrformer": ["construct", "classify", "uncertainty"],
        "long_short": [
            *("understand", "predict", "adapt", "cost", "count", "classify", "similarity", "throughput"),
        ],
        "robustness": ["withstand"],
        "freelb": ["finetune", "provoke", "vote", "contrast", "count"],
    }
    of_studies = {f"{step}@{study}" for study, own in steps.items() for step in own}
    assert set(stages) == {"code", "render@all"} | of_studies
    assert len(stages) <= 41
    for stage in stages.values():
        assert stage["kept"]  # DVC must not delete what Snakemake finds done
        assert stage["cached"]  # git has none of it: the old side of a diff is in the cache


def test_each_target_of_a_stage_can_be_planned_alone(
    stages: dict[str, dict[str, Any]], plan: list[jobs.Job]
) -> None:
    everything = {path for job in plan for path in job.outputs}
    found: set[str] = set()
    for name, stage in stages.items():
        if name == "code":
            continue
        words = stage["cmd"].split()
        found |= {path for job in jobs.plan(words[words.index("--") + 1 :]) for path in job.outputs}
    assert found == everything


def test_each_stage_asks_for_every_record_that_it_may_make(
    stages: dict[str, dict[str, Any]], plan: list[jobs.Job]
) -> None:
    """Snakemake makes a lost record again only where a target asks for it."""
    with jobs.workflow() as built:
        asked = {rule.name: set(map(str, rule.input)) for rule in built.rules if not rule.output}
    for job in plan:
        (maker,) = (stage["cmd"].split() for stage in stages.values() if holds(stage["outs"], job.outputs[0]))
        files = set().union(*(asked[target] for target in maker[maker.index("--") + 1 :]))
        assert {job.record} <= files if job.record else set(job.outputs) <= files, job.outputs[0]


def test_nothing_is_sent_anywhere() -> None:
    root = Path(__file__).resolve().parents[2]
    config = (root / ".dvc" / "config").read_text()
    assert "analytics = false" in config
    assert "remote" not in config
    assert "check_update = false" in config
