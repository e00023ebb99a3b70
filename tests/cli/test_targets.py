"""What a person may ask for by name, and that the runs which are chosen are those that the published results were made of."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from relearn.cli import targets
from relearn.cli.planned_runs import planned_settings
from relearn.report import claims_file
from relearn.report.published_set import csv_files
from relearn.report.runs import load as load_runs
from relearn.studies import STUDIES, parameters

REPOSITORY = Path(__file__).parents[2]
PUBLISHED = REPOSITORY / "results/published/mini"


@pytest.fixture(scope="module")
def plans() -> targets.Plans:
    return targets.plans(parameters.load(REPOSITORY / "params.yaml", "mini"))


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The published CSV files of mini, by name."""
    return {**csv_files(PUBLISHED, "tables"), **csv_files(PUBLISHED, "figures")}


def published_runs(target: targets.Target, files: dict[str, bytes]) -> set[str]:
    """The runs that the published files of mini name for it."""
    if target.kind == "claims":
        claims = claims_file.read(PUBLISHED / "claims.json")["claims"]
        (claim,) = (c for c in claims if (c["section"], c["id"]) == (*target.studies, target.id))
        found = set(claim["runs"])
    else:
        text = io.StringIO(files.get(f"{target.id}.csv", b"").decode(), newline="")
        rows: list[dict[str, Any]] = list(csv.DictReader(text))
        found = {run for row in rows for run in (row.get("runs") or "").split()}
    return {f"results/mini/{run}/record.json" for run in found}


@pytest.mark.parametrize("study", STUDIES)
def test_a_target_needs_every_run_that_its_published_result_was_made_of(
    study: str, plans: targets.Plans, files: dict[str, bytes]
) -> None:
    planned = {
        family.files["record"].format(**run) for family in plans[study].values() for run in family.runs
    }
    compared = 0
    for target in targets.targets().values():
        if target.id and target.studies == (study,):
            chosen = set(targets.needed(targets.records(target, plans)[0], plans))
            made_of = published_runs(target, files) & planned
            assert made_of <= chosen, target.name
            compared += bool(made_of)
    assert compared >= 2


def test_one_table_needs_a_small_part_of_all_runs(plans: targets.Plans) -> None:
    every = sum(len(family.runs) for families in plans.values() for family in families.values())
    for name in ("table2.2", "fig4.4", "claim:best_k_is_1_to_2_class_sizes", "kim2020.fig2"):
        found, exact = targets.records(targets.find(name), plans)
        assert exact and 0 < len(targets.needed(found, plans)) < every / 6, name


def test_what_leads_to_a_run_is_needed_and_counted_once(plans: targets.Plans) -> None:
    found, _ = targets.records(targets.find("table2.2"), plans)
    needed = targets.needed(found, plans)
    assert set(found) < set(needed) and len(needed) == len(set(needed))
    steps = {path.split("/")[4] for path in needed}
    assert {"prepare_images", "pretrain", "craft", "filter", "train"} <= steps


def test_a_claim_needs_what_its_required_quality_is_measured_by(plans: targets.Plans) -> None:
    """`cp_beats_fc` has no verdict unless the accuracy of its victims is known; what leads to a run is there anyway."""
    found, exact = targets.records(targets.find("claim:cp_beats_fc"), plans)
    victims = {path.split("/")[-3] for path in found if "/train/transfer/" in path}
    measured = {path.split("/")[-3] for path in found if "/evaluate_networks/victim/" in path}
    assert exact and len(victims) > 1 and measured == {f"{victim}-drop0" for victim in victims}
    trained, _ = targets.records(targets.find("claim:overlap_half"), plans)
    assert not [
        path for path in trained if "/initialise/" in path
    ]  # an input of its trainings, and no other of that step


def test_a_paper_and_a_chapter_are_their_studies(plans: targets.Plans) -> None:
    known = targets.targets()
    assert known["kim2020"].studies == ("l2_attention",)
    assert known["chapter5"].studies == ("long_short", "robustness")
    assert {study for t in known.values() if t.kind == "papers" for study in t.studies} == set(STUDIES)
    for name in ("ye2023", "chapter3", "poisoning"):
        found, exact = targets.records(known[name], plans)
        assert exact and len(found) == sum(
            len(family.runs) for study in known[name].studies for family in plans[study].values()
        )


def test_every_name_finds_its_target_and_no_rule_has_it() -> None:
    for name, target in targets.targets().items():
        assert targets.find(name) == target and target.name == name
        assert name in STUDIES or not name.startswith(tuple(f"{study}_" for study in STUDIES))


def test_short_names_whole_ids_and_claims_without_their_prefix() -> None:
    assert targets.find("zhu2022.table2.2").name == "table2.2"
    assert targets.find("hull_proposition").name == "claim:hull_proposition"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tabel2.2", "did you mean table2.2"),
        ("kim202", "did you mean kim2020"),
        ("claim:hull_propostion", "claim:hull_proposition"),
        ("xyzzy", "found xyzzy, no target; `relearn list`"),
        ("fig4", "allowed: one of kim2020.fig4, qi2023.fig4"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(name: str, says: str) -> None:
    with pytest.raises(ValueError, match="found") as caught:
        targets.find(name)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_an_artefact_of_which_nothing_is_planned_needs_nothing(plans: targets.Plans) -> None:
    assert targets.records(targets.find("qi2023.table8"), plans) == ([], True)


def test_planned_settings_have_the_folders_and_settings_of_the_published_runs() -> None:
    known = planned_settings(parameters.load(REPOSITORY / "params.yaml", "mini"))
    runs, _ = load_runs(PUBLISHED, "mini")
    same = [run for run in runs if known(run.folder) == run.settings]
    assert len(same) > len(runs) / 2  # a setting may be newer than the published set
    assert known("runs/gradinit/train_from_init/nowhere/seed0") is None
