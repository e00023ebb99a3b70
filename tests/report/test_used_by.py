"""Which tables, cells and claims a run is for: against what the tables themselves say of their runs."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from relearn.report.artefacts import Artefact, load
from relearn.report.published_set import csv_files
from relearn.report.used_by import Use, UsedBy, short_name
from relearn.runs.run_store import Store
from relearn.studies.study import all_studies

PUBLISHED = Path(__file__).resolve().parents[2] / "results/published/mini"
DEFENDED = {"setting": "transfer", "attack": "convex_polytope", "defence": "deep_knn", "victim": "DPN92"}


@pytest.fixture(scope="module")
def artefacts() -> dict[str, Artefact]:
    return load({study.name: study.reported for study in all_studies()})


@pytest.fixture(scope="module")
def used_by(artefacts: dict[str, Artefact]) -> UsedBy:
    return UsedBy(artefacts)


def train(labels: dict[str, str] = DEFENDED, step: str = "train") -> dict[str, Any]:
    return {"study": "poisoning", "step": step, "labels": labels}


def test_a_run_is_found_by_the_name_of_its_cell(used_by: UsedBy, tmp_path: Path) -> None:
    use = used_by.of(tmp_path, train(), "runs/x")
    assert "table 2.2, Deep k-NN, DPN92" in use.cells and "table 2.2" in use.artefacts
    assert not [cell for cell in use.cells if cell.startswith("table 2.1,")]
    assert (use.claims, use.numbers) == ((), {})  # nothing is rendered
    assert used_by.of(tmp_path, train(step="pretrain"), "runs/x").cells == ()


def test_every_run_of_a_published_cell_is_found_by_that_cell(
    used_by: UsedBy, artefacts: dict[str, Artefact]
) -> None:
    """The tables' files name the runs behind each cell; they were made from trials, not from labels alone."""
    titles = {(one.id, row.id): row.title for one in artefacts.values() for row in one.rows}
    uses: dict[str, Use] = {}
    checked = 0
    store = Store(PUBLISHED)
    records = {Path(one["path"]).relative_to(PUBLISHED).as_posix(): one for one in store.read_all()[0]}
    files = csv_files(PUBLISHED, "tables")
    for name in filter(re.compile(r"zhu2022\.table[24]\.").match, files):
        for line in csv.DictReader(io.StringIO(files[name].decode())):
            for run in line["runs"].split() if "member" not in line else ():
                if run not in uses:
                    uses[run] = used_by.of(PUBLISHED, records[run], run)
                begin = f"{short_name(line['artefact'])}, {titles[line['artefact'], line['row']]}, "
                assert [cell for cell in uses[run].cells if cell.startswith(begin)], (begin, run)
                checked += 1
    assert checked > 300


def test_claims_and_numbers_come_from_the_last_rendering(used_by: UsedBy, tmp_path: Path) -> None:
    folder = "runs/poisoning/train/x"
    (tmp_path / "tables").mkdir()
    table = tmp_path / "tables/a.csv"

    def render(claim: str, mean: str) -> Use:
        judged = {"section": "poisoning", "verdict": "reproduced"}
        both = [judged | {"id": claim, "runs": [folder]}, judged | {"id": "other", "runs": ["runs/y"]}]
        text = json.dumps({"scale": "mini", "claims": both})
        (tmp_path / "claims.json").write_text(text)
        head = "artefact,row,column,unit,mean,paper,published_code,deviation"
        cell = "zhu2022.table2.2,deep_knn,defence_success,fraction"
        table.write_text(f"{head}\n{cell},{mean},,0.9,\n")
        return used_by.of(tmp_path, train(), folder)

    first = render("one", "0.5")
    name = ("zhu2022.table2.2", "deep_knn", "defence_success", "fraction")
    assert (first.claims, first.numbers) == (("one",), {name: (0.5, 0.9, None)})
    assert first.rendered_ms == (tmp_path / "claims.json").stat().st_mtime_ns // 1_000_000
    again = render("another_name", "0.25")
    assert (again.claims, again.numbers) == (("another_name",), {name: (0.25, 0.9, None)})
    (tmp_path / "claims.json").write_text('{"claims": [')
    assert used_by.of(tmp_path, train(), folder).claims == ()


def test_a_member_has_its_own_numbers(used_by: UsedBy, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "claims.json").write_text('{"scale": "mini", "claims": []}')
    cell = "zhu2022.table2.2,deep_knn,defence_success,fraction"
    (tmp_path / "tables/a.csv").write_text(
        f"artefact,row,column,unit,mean,paper,published_code,deviation\n{cell},0.5,0.9,,-0.4\n"
    )
    (tmp_path / "tables/a.victims.csv").write_text(
        f"artefact,row,column,unit,member,mean,published_code\n{cell},DPN92,0.25,0.75\n{cell},ResNet18,1,\n"
    )
    name = ("zhu2022.table2.2", "deep_knn", "defence_success", "fraction")
    assert used_by.of(tmp_path, train(), "runs/x").numbers == {name: (0.25, 0.75, -0.5)}
    other = train({**DEFENDED, "victim": "ResNet18"})
    assert used_by.of(tmp_path, other, "runs/x").numbers == {
        name: (0.5, 0.9, -0.4)
    }  # of it alone nothing is printed


def test_artefacts_are_called_as_people_call_them() -> None:
    names = ("zhu2022.fig2.11", "table3.1", "addition.controls")
    assert [short_name(name) for name in names] == ["figure 2.11", "table 3.1", "addition.controls"]


def test_every_study_has_cells_for_some_step(used_by: UsedBy) -> None:
    assert {study for study, _ in used_by._places} == {study.name for study in all_studies()}
