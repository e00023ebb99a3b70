"""The JSON of code versions: each run under its study and step, with what makes it another run."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relearn.cli import code, jobs
from relearn.cli.code import versions
from relearn.cli.jobs import Job
from relearn.studies.study import load

RECORD = "results/mini/runs/poisoning/filter/transfer/feature_collision/deep_knn/ResNet18/seed0/record.json"
RUN = Job(
    rule="filter",
    command="relearn filter",
    inputs=(),
    outputs=(RECORD,),
    logs=(),
    record=RECORD,
    study="poisoning",
    step="filter",
    labels={"victim": "ResNet18"},
    scale="mini",
    seed=0,
    settings={"k": 5},
    code="0123456789abcdef",
    named_inputs={},
)
DRAWN = replace(
    RUN, rule="render", step="render", study="", record=None, outputs=("results/mini/a.md",), code="c"
)
NAME = "transfer/feature_collision/deep_knn/ResNet18/seed0"


def test_each_run_stands_under_its_study_and_step() -> None:
    found = versions([RUN, DRAWN])
    names = {study: {step: list(runs) for step, runs in steps.items()} for study, steps in found.items()}
    # A step without runs is there, too: DVC's stages name it.
    assert names == {
        "poisoning": {step: [NAME] if step == "filter" else [] for step in load("poisoning").steps},
        "all": {"render": ["render"]},
    }
    assert found["poisoning"]["filter"][NAME].split()[0] == RUN.code
    assert found["all"]["render"]["render"].split()[0] == DRAWN.code


@pytest.mark.parametrize("job", [RUN, DRAWN])
@pytest.mark.parametrize("change", [{"code": "fedc"}, {"inputs": ("a", "b")}, {"inputs": ("a", "c", "b")}])
def test_other_code_or_other_inputs_change_its_value(job: Job, change: dict[str, Any]) -> None:
    before = replace(job, inputs=("a", "c"))
    assert versions([replace(before, **change)]) != versions([before])


@pytest.mark.parametrize("change", [{"settings": {"k": 6}}, {"labels": {"victim": "B"}}, {"seed": 1}])
def test_what_makes_another_run_changes_its_value(change: dict[str, Any]) -> None:
    assert versions([replace(RUN, **change)]) != versions([RUN])


def test_the_machine_and_the_order_of_inputs_do_not() -> None:
    other = replace(RUN, command="relearn filter --device cuda", inputs=("b", "a"), logs=("x",))
    assert versions([other]) == versions([replace(RUN, inputs=("a", "b"))])


def test_it_is_printed_or_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(jobs, "plan", lambda *words: asked.append(words) or [RUN])
    parser = argparse.ArgumentParser()
    code.add_arguments(parser)
    assert code.main(parser.parse_args([])) == 0
    assert json.loads(capsys.readouterr().out) == versions([RUN])
    out = tmp_path / "new" / "code.json"
    assert code.main(parser.parse_args(["poisoning", "--scale", "small", "--out", str(out)])) == 0
    assert json.loads(out.read_text()) == versions([RUN])
    assert asked == [([], {}), (["poisoning"], {"scale": "small"})]
