"""`relearn plan` in this checkout: what it shows, what it costs, what it does not load."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from relearn import cli
from relearn.forecast import planned
from relearn.studies import STUDIES, parameters
from relearn.studies.study import load
from relearn.studies.work import Job, formulas


@pytest.fixture(scope="module")
def mini() -> dict[str, Job]:
    return planned.jobs_of(parameters.load("params.yaml", scale="mini"))


def test_a_study_without_formulas_has_those_of_the_steps_that_studies_share() -> None:
    assert set(formulas("layer_scale")) == {"train_vision"}
    assert formulas("long_short")["train_vision"] is formulas("layer_scale")["train_vision"]


def test_every_study_states_the_work_of_steps_that_it_has() -> None:
    for study in STUDIES:
        assert formulas(study) and set(formulas(study)) <= set(load(study).steps), study


def test_a_target_brings_what_it_reads(mini: dict[str, Job]) -> None:
    found = planned.with_ancestors(mini, ["robustness"])
    assert {job.study for job in found} == {"robustness", "long_short"}
    assert {job.step for job in found if job.study == "long_short"} == {"prepare_images", "train_vision"}
    (one,) = planned.with_ancestors(mini, ["lrformer/prepare_images"])
    assert planned.with_ancestors(mini, [f"{one.folder}/record.json"]) == [one]
    with pytest.raises(ValueError, match="target: found nothing, allowed: all, a study"):
        planned.with_ancestors(mini, ["nothing"])


def test_the_page_needs_no_costly_library(mini: dict[str, Job]) -> None:
    program = (
        "import sys; from relearn import cli; status = cli.main(['plan', '--scale', 'mini']); "
        "loaded = [name for name in ('torch', 'snakemake', 'pandas', 'numpy') if name in sys.modules]; "
        "print(status, loaded)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *page, last = done.stdout.splitlines()
    assert last == "0 []"
    (total,) = [line for line in page if line.startswith("all ")]
    assert total.split()[1] == str(len(mini))  # whatever of it is done here


def test_json_has_the_sums_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--scale", "small", "--study", "lrformer", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["studies"]) == {"lrformer"}
    steps = found["studies"]["lrformer"]["steps"]
    assert sum(step["seconds"]["forecast"] for step in steps.values()) == pytest.approx(
        found["seconds"]["forecast"], abs=0.1
    )
    assert found["seconds"]["low"] < found["seconds"]["forecast"] < found["seconds"]["high"]
    assert found["chain_s"]["forecast"] <= found["wall_s"]["forecast"] * 1.001


def test_bf16_gets_the_forecast_of_fp32_and_the_page_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "--scale", "small", "long_short/benchmark_attention"]
    pages = []
    for precision in ("fp32", "bf16"):
        assert cli.main([*asked, "--precision", precision]) == 0
        pages.append(capsys.readouterr())
    assert pages[0].out == pages[1].out and not pages[0].err
    assert pages[1].err == "--precision bf16: not measured; the forecast is for fp32\n"


def test_a_wrong_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--device", "abacus"]) == 2
    assert "--device: found abacus, allowed: cpu" in capsys.readouterr().err
    assert cli.main(["plan", "--cores", "0"]) == 2
