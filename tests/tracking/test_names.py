"""Names in MLflow: metrics spelled alike, what tells runs apart first, tags of which each entry can be asked for.

The note of a run in MLflow: a command that fits the page and that a shell reads as it was meant.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.runs.atomic_files import canonical
from relearn.runs.run_store import Store
from relearn.tracking import names
from relearn.tracking import note as tracked

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


def test_two_numbers_with_one_new_name_keep_two_names() -> None:
    assert names.metrics({"acc_frac": 0.5, "accfinal_frac": 0.25}) == {
        "test_accuracy_frac": 0.5,
        "accfinal_frac": 0.25,
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
        {("t", "row", "acc*", "fraction"): (0.75, 0.5, 0.25), ("t", "r", "seconds", "seconds"): (2, 1, None)}
    )
    assert found["published/t/row/acc__frac"] == 0.5 and found["deviation/t/row/acc__frac"] == 0.25
    assert found["measured/t/r/seconds"] == 2
    assert (
        "deviation/t/r/seconds" not in found
    )  # of another machine, for example: the table shows none, either


SETTINGS = {
    "text": "it's $(rm -rf x) `y` \\ !",
    "networks": {f"ResNet-{depth}": {"lr": 0.1, "milestones": [40, 80]} for depth in range(30)},
}
WEIGHTS = [
    f"results/mini/runs/poisoning/pretrain/substitute/{name}/seed0/weights.safetensors" for name in "ab"
]
WHAT: dict[str, Any] = {
    "study": "poisoning",
    "step": "train",
    "scale": "mini",
    "seed": 0,
    "labels": {"victim": "DPN92"},
    "settings": SETTINGS,
    "inputs": {"substitutes": [{"path": path} for path in WEIGHTS]},
    "code": {"version": "v"},
    "machine": {"device": "cpu", "precision": "fp32", "threads": 1},
}


def pasted_into_bash(command: str) -> list[str]:
    """The words that a function named relearn gets when a person pastes the command."""
    script = f"relearn() {{ printf '%s\\0' \"$@\"; }}\n{command}\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def test_the_command_fits_the_page_and_can_be_pasted() -> None:
    text = tracked.note(WHAT, Path("out dir"))
    assert text.startswith("Run it again:") and max(map(len, text.splitlines())) <= 100
    assert pasted_into_bash(text.split("```")[1]) == [
        *("poisoning", "train", "--settings", canonical(SETTINGS), "--input", "substitutes", *WEIGHTS),
        *("--label", "victim=DPN92", "--scale", "mini", "--seed", "0"),
        *("--code", "v", "--device", "cpu", "--precision", "fp32", "--threads", "1", "--out", "out dir"),
    ]


@settings(max_examples=25)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0\r", exclude_categories=("Cs",)), max_size=300),
        min_size=1,
    )
)
def test_whatever_the_words_are_the_shell_gets_them_back(words: list[str]) -> None:
    assert pasted_into_bash(tracked.pasted(["relearn", *words])) == words


def test_a_command_that_no_note_can_hold_is_not_cut() -> None:
    """MLflow would show the first half of it, and half a command must not be pasted."""
    text = tracked.note({**WHAT, "settings": {"text": "x" * 6000}}, Path("out"))
    assert "`" not in text and text.endswith("its settings and inputs are in record.json.")


def test_a_unit_is_added_once_and_a_plural_is_none() -> None:
    assert names.with_unit("t/epochs", "seconds") == "t/epochs_s"
    assert names.with_unit("t/time_s", "seconds") == "t/time_s"
    assert names.with_unit("t/images_per_s", "images_per_second") == "t/images_per_s"
    assert names.with_unit("test_accuracy", "fraction") == "test_accuracy_frac"
