"""Every job of every scale has settings that its step reads: no key missing, none unknown, each of its type."""

from importlib import import_module
from pathlib import Path

import pytest

from relearn.runs.settings import read
from relearn.studies import parameters
from relearn.studies.study import all_studies

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("study", all_studies(), ids=lambda one: one.name)
@pytest.mark.parametrize("scale", ["mini", "small", "medium", "paper"])
def test_the_settings_of_every_job_are_those_of_its_step(study, scale):
    params = parameters.load(ROOT / "params.yaml", scale)
    wrong = {}
    for family in study.part("plan").plan(params, scale).values():
        kind = import_module(study.steps[family.step]).Settings
        seen = set()
        for run in family.runs:
            settings = family.settings_of(**{key: value for key, value in run.items() if key != "seed"})
            if repr(settings) in seen:
                continue
            seen.add(repr(settings))
            try:
                read(kind, settings)
            except ValueError as error:
                wrong[family.step] = str(error)
    assert not wrong
