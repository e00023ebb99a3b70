"""`check_batch_norm` and `count_params` from settings to record."""

from functools import partial

import pytest

from relearn.measures import batch_norm_gradient, parameter_counts
from relearn.studies.gradinit.steps import check_batch_norm, count_params

from ...steps.recorded import made_by, rows_of

step = partial(made_by, study="gradinit")


def test_batch_norm_writes_the_cases_of_the_measure(tmp_path):
    done = step(check_batch_norm, tmp_path / "bn", {"draws": 2000})
    rows, metrics = rows_of(tmp_path / "bn/cases.csv"), done["metrics"]
    expected = batch_norm_gradient.cases(draws=2000, seed=0)
    assert tuple(rows[0]) == batch_norm_gradient.COLUMNS
    assert [float(row["measured"]) for row in rows] == [row["measured"] for row in expected]
    assert {row["holds"] for row in rows} == {"1"}
    assert metrics["holds_count"] == metrics["cases_count"] == len(rows)
    assert metrics["printed_fails_count"] == sum(row["printed_holds"] == "0" for row in rows) > 0
    assert metrics["wrongly_magnified_count"] > 0 and metrics["formula_error_frac"] < 1e-9


def test_parameter_counts_are_those_published(tmp_path):
    done = step(count_params, tmp_path / "counts", {})
    rows, metrics = rows_of(tmp_path / "counts/counts.csv"), done["metrics"]
    assert [row["network"] for row in rows] == list(parameter_counts.PUBLISHED)
    assert {row["equal"] for row in rows} == {"1"}
    assert set(metrics.values()) == {float(len(parameter_counts.PUBLISHED))}
    done = step(count_params, tmp_path / "some", {"networks": ["ResNet-1202", "ResNet18"]})
    one, other = rows_of(tmp_path / "some/counts.csv")
    assert one["equal_to_released"] == "1" and one["published_millions"] == "" == other["released"]
    assert (done["metrics"]["published_count"], done["metrics"]["equal_to_released_count"]) == (0, 1)


def test_an_unknown_network_is_refused(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'VGG-19'"):
        step(count_params, tmp_path / "refused", {"networks": ["VGG-18"]})
