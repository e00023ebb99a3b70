"""`relearn plan` in this checkout: what it shows, what it costs, what it does not load."""

import json
import re
import subprocess
import sys
from unittest.mock import MagicMock

import pytest

from relearn import cli
from relearn.cli import targets
from relearn.forecast import machine, planned, summary
from relearn.forecast.amount import Amount
from relearn.forecast.correction import Forecast
from relearn.forecast.footprint import Footprint
from relearn.forecast.state import TO_DO, State
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
    counts = re.findall(r"\d+(?=  |$)", total)  # a number with a unit has one space behind it
    assert sum(map(int, counts)) == len(mini)  # whatever of it is done here


def test_names_of_list_stand_for_their_runs_and_what_these_read(
    mini: dict[str, Job], capsys: pytest.CaptureFixture[str]
) -> None:
    values = parameters.load("params.yaml", scale="mini")
    plans = targets.plans(values)
    for names in (["claim:mask_reuse", "claim:yopo_not_better"], ["table2.2"], ["kim2020"], ["mask_reuse"]):
        made_of = [path for name in names for path in targets.records(targets.find(name), plans)[0]]
        found = planned.with_ancestors(mini, targets.selection(names, values))
        assert {f"{job.folder}/record.json" for job in found} == set(targets.needed(made_of, plans)), names
    one, two, both = (
        {job.folder for job in planned.with_ancestors(mini, targets.selection(names, values))}
        for names in (["kim2020.fig4"], ["claim:mask_reuse"], ["kim2020.fig4", "claim:mask_reuse"])
    )
    assert one | two == both and one and two and not one & two
    assert targets.selection(["all", "poisoning", "freelb/finetune"], values) == [
        *("all", "poisoning", "freelb/finetune")
    ]
    assert cli.main(["plan", "--scale", "mini", "--json", "claim:mask_reuse", "claim:yopo_not_better"]) == 0
    found = planned.with_ancestors(mini, targets.selection(["mask_reuse", "yopo_not_better"], values))
    assert sum(json.loads(capsys.readouterr().out)["jobs"].values()) == len(found)


def test_a_name_loads_neither_torch_nor_pandas() -> None:
    program = (
        "import sys; from relearn import cli; status = cli.main(['plan', '--scale', 'mini', 'claim:mask_reuse']); "
        "loaded = [name for name in ('torch', 'snakemake', 'pandas', 'scipy.stats') if name in sys.modules]; "
        "print(status, loaded)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("claim:mask_reus", "did you mean claim:mask_reuse"),
        ("xyzzy", "`relearn list` names all; allowed as well: all, study/step, a file or folder of a run"),
        ("fig4", "allowed: one of kim2020.fig4, qi2023.fig4"),
        ("freelb/nothing", "allowed: all, a study (poisoning, "),
        ("qi2023.table8", "no run of it is planned at scale mini; allowed: another --scale"),
    ],
)
def test_a_name_without_runs_is_refused_in_one_line(
    name: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plan", "--scale", "mini", name]) == 2
    said = capsys.readouterr()
    assert said.out == "" and says in said.err and said.err.count("\n") == 1


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


def test_a_wrong_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--device", "abacus"]) == 2
    assert "--device: found abacus, allowed: cpu" in capsys.readouterr().err
    assert cli.main(["plan", "--cores", "0"]) == 2
    assert cli.main(["plan", "--jobs-per-device", "0"]) == 2


def test_without_a_home_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = RuntimeError("Could not determine home directory.")  # as pathlib says it
    monkeypatch.setattr(summary, "forecast", MagicMock(side_effect=fault))
    assert cli.main(["plan", "--scale", "mini"]) == 4
    assert "set HOME, or RELEARN_CACHE to a folder for the cache" in capsys.readouterr().err


def test_jobs_that_share_a_gpu_end_no_sooner_than_its_work(capsys: pytest.CaptureFixture[str]) -> None:
    def wall(jobs: int) -> tuple[float, float, float]:
        words = ["plan", "--scale", "small", "--study", "poisoning", "--device", "h100", "--json"]
        assert cli.main([*words, "--jobs-per-device", str(jobs)]) == 0
        found = json.loads(capsys.readouterr().out)
        return tuple(found[name]["forecast"] for name in ("seconds", "chain_s", "wall_s"))

    alone, many = wall(1), wall(1000)
    assert alone[:2] == many[:2] and many[2] < alone[2] / 2
    assert alone[2] > alone[0] and many[2] >= many[1] * 0.999


def test_the_work_of_a_gpu_is_a_lower_limit(mini: dict[str, Job]) -> None:
    on = machine.device("h100")
    heavy = Amount(convolutions=on.convolutions * 50, products=0.0, moved=on.bandwidth * 10, calls=0.0)
    light = Amount(convolutions=0.0, products=0.0, moved=0.0, calls=on.calls * 50)
    assert on.device_share(heavy) > 0.8 > 0.2 > on.device_share(light) == 0
    assert machine.device("cpu").device_share(heavy) == 0
    cost = Forecast(60.0, 0.1, 0.1, "model")
    for busy, expected in ((0.0, 60.0), (60.0, 120.0)):
        two = [
            summary.Planned(job, State(TO_DO), cost, None, Footprint(1, 1), busy)
            for job in [one for one in mini.values() if not one.before][:2]
        ]
        assert summary.Part("all", two, cores=2, gpus=1).schedule.wall_s == expected
