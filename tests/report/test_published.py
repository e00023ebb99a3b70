"""The published numbers can be read, and those that were summed up elsewhere agree with their parts."""

import json
import re

import pytest
import yaml

from relearn.report import artefacts, claims, published, yaml_file
from relearn.report.quantities import Evidence, quantity
from relearn.studies.study import load

from .conftest import FOLDERS, judged, values_of

FILES = [folder / published.FILE for folder in FOLDERS.values()]


@pytest.mark.parametrize("path", FILES, ids=list(FOLDERS))
def test_every_file_can_be_read(path):
    values = published.read(path)
    assert values
    for value in values:
        assert value.value is None or value.outcome in ("ok", "not_converged")
        assert re.match(r"(zhu2022|kim2020|qi2023|ye2023|touvron2021|schwarzschild202[01])\.", value.artefact)
    cells = [(value.artefact, value.row, value.column, value.metric) for value in values]
    assert len(set(cells)) == len(cells)


def test_nothing_points_out_of_the_repository():
    for path in (path for folder in FOLDERS.values() for path in folder.iterdir()):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(^|[\s(\"'`])/(work|tmp|home|root|mnt)\b", text), path


def test_published_code_rates_agree_with_their_parts():
    rates = values_of("zhu2022.code.table2.2")
    for defence in {v.row for v in rates}:
        row = {v.column: v for v in rates if v.row == defence}
        pooled, mean = row.pop("pooled over 102 attacks"), row.pop("mean over 8 victims")
        assert len(row) == 8 and sum(v.n_runs for v in row.values()) == 102
        by_attack = sum(v.value * v.n_runs for v in row.values()) / 102
        # the parts are printed with four digits, the sum too
        assert pooled.value == pytest.approx(by_attack, abs=2e-4)
        assert mean.value == pytest.approx(sum(v.value for v in row.values()) / 8, abs=2e-4)


def test_published_code_counts_agree_with_their_shares():
    sweep = [v for v in values_of("zhu2022.code.fig2.11") if ", k = " in v.column]
    assert len({v.column for v in sweep}) == 12
    for value in sweep:
        if value.metric == "clean_removed_count":
            share = published.find(sweep, row=value.row, column=value.column, metric="clean_removed")
            assert share.in_unit("fraction") * 495 == pytest.approx(value.value, abs=1)  # both are rounded


def test_a_share_changes_its_unit_and_nothing_else_does():
    value = values_of("zhu2022.code.table2.2") + values_of("zhu2022.code.fig2.11")
    share = next(v for v in value if v.unit == "percent" and v.value)
    assert share.in_unit("fraction") == pytest.approx(share.value / 100)
    ratio = next(v for v in value if v.metric == "mcc")
    assert ratio.in_unit("ratio") == ratio.value
    with pytest.raises(ValueError, match="found unit ratio, asked for fraction"):
        ratio.in_unit("fraction")


GOOD = "zhu2022.x,a,b,m,fraction,higher,0.5,,,,ok,"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (GOOD.replace("ok", "fine"), "line 2: found outcome 'fine', allowed: ok"),
        (GOOD.replace("0.5", "half"), "line 2: could not convert"),
        (GOOD + ",more", "line 2: found"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = tmp_path / "zhu2022.x.csv"
    path.write_text(",".join(published.FIELDS) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + re.escape(message)):
        published.read(path)


def test_other_columns_are_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="found columns"):
        published.read(path)


def test_artefacts_name_files_rows_and_metrics_that_exist():
    for artefact in artefacts.load(FOLDERS).values():
        for source in artefact.published.values():
            values = source.values()
            named = [column for column in artefact.columns if column.published_metric]
            for row in artefact.rows:
                for column in named:
                    found = published.find(
                        values,
                        row=row.published or row.title,
                        metric=column.published_metric,
                        column=column.published_column or source.column,
                    )
                    shown = row.in_grid and row.applies(column.id)
                    assert found is not None or (artefact.grid and not shown), (artefact.id, row.title)


def test_an_artefact_with_an_unknown_column_is_refused(tmp_path):
    (tmp_path / published.FILE).symlink_to(FOLDERS["poisoning"] / published.FILE)
    whole = yaml_file.read(FOLDERS["poisoning"] / "tables.yaml")
    table = {name: whole[name] for name in ("zhu2022.table2.1", "zhu2022.table2.2")}
    raw = json.loads(json.dumps(table))  # no shared rows
    raw["zhu2022.table2.1"]["rows"][0]["only"] = ["colour"]
    (tmp_path / "tables.yaml").write_text(yaml.safe_dump(raw))
    with pytest.raises(
        ValueError, match=r"table2.1: row none: found column colour, allowed: defence_success"
    ):
        artefacts.load({"poisoning": tmp_path})
    raw["zhu2022.table2.1"].pop("rows")
    (tmp_path / "tables.yaml").write_text(yaml.safe_dump(raw))
    with pytest.raises(ValueError, match=r"table2.1: 'rows'"):
        artefacts.load({"poisoning": tmp_path})


def test_claims_can_be_read_and_a_missing_key_is_named(tmp_path):
    assert len(claims.load(FOLDERS)["poisoning"]) == 12
    (tmp_path / "claims.yaml").write_text("x: {kind: trained, says: a, source: b}\n")
    with pytest.raises(ValueError, match=r"claims\.yaml: x: found .*allowed: kind, predicate, says, source"):
        claims.load({"poisoning": tmp_path})


def test_the_terms_of_a_study_stand_beside_its_claims(tmp_path):
    said = "{kind: trained, says: a, source: b, predicate: c}"
    (tmp_path / "claims.yaml").write_text(f"x: {said}\n_terms:\n  T: number of iterations\n")
    assert list(claims.load({"one": tmp_path})["one"]) == ["x"]
    assert claims.terms({"one": tmp_path}) == {"one": {"T": "number of iterations"}}
    known = claims.terms(FOLDERS)
    assert "tau" in known["gradinit"] and known["robustness"] == {}
    assert all(isinstance(meaning, str) for terms in known.values() for meaning in terms.values())


def test_an_artefact_asks_for_steps_of_its_study():
    for artefact in artefacts.load(FOLDERS).values():
        for row in artefact.rows:
            for column in artefact.columns:
                if row.applies(column.id) and not column.quantity.startswith("file:"):
                    assert quantity(column.of(row).quantity).step in load(artefact.study).steps, artefact.id


@pytest.mark.parametrize("study", claims.load(FOLDERS))
def test_without_runs_every_claim_is_not_run_and_says_what_is_missing(study):
    found = judged({study: claims.load(FOLDERS)[study]}, Evidence([])).values()
    assert {claim.verdict for claim in found} == {"not_run"}
    assert all(claim.missing for claim in found)
