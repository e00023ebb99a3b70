"""Names in MLflow: metrics spelled alike, what tells runs apart first, tags of which each entry can be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from relearn.runs.run_store import Store
from relearn.tracking import names

PUBLISHED = Path(__file__).resolve().parents[2] / "results/published/mini"


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("acc_frac", "test_accuracy_frac"),
        ("accbest_frac", "test_accuracy_best_frac"),
        ("dev_acc_frac", "dev_accuracy_frac"),
        ("robust_acc_frac", "robust_accuracy_frac"),
        ("valid_nll_best_nats", "valid_loss_best_nats"),
        ("nll_nats", "test_loss_nats"),
        ("wall_s", "system/wall_s"),
        ("accuracy_frac", "accuracy_frac"),
        ("loss", "loss"),
    ],
)
def test_a_metric_has_one_name_in_every_study(recorded: str, shown: str) -> None:
    assert names.metric(recorded) == shown


def test_memory_is_in_megabytes_and_what_has_no_value_is_left_out() -> None:
    assert names.metrics({"peak_memory_bytes": 2.5e6, "acc_frac": None}) == {"system/peak_memory_mb": 2.5}


def test_no_number_of_a_published_record_is_lost_by_its_new_name() -> None:
    accuracies = set()
    records, _ = Store(PUBLISHED).read_all()
    assert len(records) > 500
    for record in records:
        metrics = record["metrics"]
        kept = {name: value for name, value in metrics.items() if value is not None}
        shown = names.metrics(kept)
        assert len(shown) == len(kept), record["path"]
        assert all(name == names.allowed_name(name) for name in shown)
        accuracies |= {name for name in shown if name.endswith("_frac") and "acc" in name.split("_")}
    assert accuracies == set()  # spelled out everywhere


def test_two_numbers_of_one_run_keep_two_names() -> None:
    assert names.metrics({"acc_frac": 0.5, "test_accuracy_frac": 0.25}) == {
        "acc_frac": 0.5,
        "test_accuracy_frac": 0.25,
    }


def test_a_name_begins_with_what_differs() -> None:
    folder = "runs/gradinit/train_from_init/grid/VGG-19/gradinit/sgd/seed2"
    assert names.run("train_from_init", folder, {}, 2) == "sgd gradinit VGG-19 grid seed2 train_from_init"
    assert names.run("train", "elsewhere/a", {"attack": "x", "victim": "y"}, 0) == "y x seed0 train"


def test_a_tag_holds_whole_entries_that_can_be_distinguished() -> None:
    assert names.join_entries(["table 4.1", "table 4.10"], 100) == "table 4.1; table 4.10;"
    assert names.join_entries(["table 4.1", "table 4.10"], 15) == "table 4.1;"
    assert names.join_entries([], 10) == ""


def test_a_cell_is_named_with_its_unit_once() -> None:
    found = names.cells(
        {("t", "row", "acc*", "fraction"): (0.75, 0.5), ("t", "r", "seconds", "seconds"): (2, 1)}
    )
    assert found["published/t/row/acc__frac"] == 0.5 and found["deviation/t/row/acc__frac"] == 0.25
    assert found["measured/t/r/seconds"] == 2
