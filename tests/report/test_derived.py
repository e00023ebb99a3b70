"""Numbers from a run's files or settings, and cells over runs of several kinds."""

import pytest

from relearn.data.corruptions import NAMES
from relearn.measures.imagenet_mce import ALEXNET
from relearn.report import complete
from relearn.report.artefacts import Column, Row, grid_columns, matches
from relearn.report.derived import CORRUPTIONS, corruption_errors, derived
from relearn.report.quantities import quantity

from ..studies.long_short import fake_records as pretend
from .conftest import evidence_of


def number(root, name):
    (run,) = evidence_of(root).runs
    return derived(name)(run)


def test_counts_of_a_model_on_an_input(tmp_path):
    pretend.count_vision(tmp_path)
    assert number(tmp_path, "flops@CvT-13@224") == pytest.approx(4.48)
    assert number(tmp_path, "flops@CvT-13@384") == pytest.approx(7.68)
    assert number(tmp_path, "parameters@CvT-13@384") == 21.0
    assert number(tmp_path, "parameters@CvT-13@512") is None and number(tmp_path, "flops@ViT@224") is None
    assert number(tmp_path, "parameters@CvT-21") == 22.0  # on whatever input


def test_a_model_without_multiply_adds_has_parameters(tmp_path):
    pretend.count_language(tmp_path)
    assert number(tmp_path, "flops@small@2048") is None and number(tmp_path, "parameters@large") == 110.3
    assert number(tmp_path, "millions@small_parameters_count") == pytest.approx(44.1)
    assert number(tmp_path, "millions@nothing_count") is None


def test_the_longest_sequence_that_has_a_number(tmp_path):
    pretend.curve(tmp_path, lengths=(256, 512, 1024), batches=(1, 2))
    assert number(tmp_path, "longest@step_s@full@2") == 1024.0
    assert (
        number(tmp_path, "longest@step_s@full@4") is None
        and number(tmp_path, "longest@step_s@linear@1") is None
    )


def test_a_length_without_a_number_does_not_count(tmp_path):
    rows = [
        {
            "attention": "full",
            "length": length,
            "batch": 1,
            "step_s": step,
            "peak_memory_mb": 1.0,
            "repeats": 7,
        }
        for length, step in ((256, 0.1), (512, None))
    ]
    pretend.write_run(tmp_path, "benchmark_attention", {"protocol": "curve"}, {}, {"cost.csv": rows})
    assert number(tmp_path, "longest@step_s@full@1") == 256.0
    assert number(tmp_path, "longest@peak_memory_mb@full@1") == 512.0


def test_a_setting_at_whatever_depth_and_its_default(tmp_path):
    pretend.understand(tmp_path, "text", "long_short_best", 0.6, window=1, rank=0)
    assert number(tmp_path, "setting@window") == 1.0 and number(tmp_path, "setting@rank@32") == 0.0
    assert number(tmp_path, "setting@layers") == 2.0
    assert number(tmp_path, "setting@segment") is None and number(tmp_path, "setting@segment@16") == 16.0


def test_seconds_of_a_batch_from_a_speed(tmp_path):
    pretend.throughput(tmp_path, "CvT-13", 400.0)
    assert number(tmp_path, "seconds@32") == pytest.approx(0.08)


def test_errors_by_corruption_and_in_order(tmp_path):
    errors = pretend.errors(0.3)
    pretend.withstand(tmp_path, "CvT-13", 0.8, corrupted=errors)
    (run,) = evidence_of(tmp_path).runs
    assert corruption_errors(run) == pytest.approx(errors)
    assert number(tmp_path, "corruption@fog") == pytest.approx(errors["fog"])
    found = [number(tmp_path, f"ordered@{n}") for n in range(1, 16)]
    assert found == pytest.approx(sorted(errors.values())) and found != pytest.approx(list(errors.values()))
    assert number(tmp_path, "mce@AlexNet") is None  # a generator's images have no such reference


def test_ranks_are_of_all_fifteen_corruptions(tmp_path):
    pretend.withstand(tmp_path, "CvT-13", 0.8, corrupted={"fog": 0.3, "snow": 0.2})
    assert number(tmp_path, "ordered@1") is None and number(tmp_path, "corruption@snow") == pytest.approx(0.2)
    assert number(tmp_path, "corruption@frost") is None


def test_the_published_files_count_where_nothing_was_generated(tmp_path):
    pretend.withstand(tmp_path, "CvT-13", 0.8, corrupted={}, imagenet={"c": 0.6})
    assert number(tmp_path, "mce@AlexNet") == pytest.approx(0.6) and number(tmp_path, "mce@ResNet-50") is None
    assert number(tmp_path, "corruption@fog") == pytest.approx(0.6 * ALEXNET["fog"])


def test_an_mce_relative_to_another_network_is_not_the_published_one(tmp_path):
    alexnet, other = (
        "mce_frac: relative to AlexNet's published errors",
        "mce_frac: of set c, relative to sets.csv",
    )
    pretend.withstand(tmp_path, "CvT-13", 0.8, corrupted={}, imagenet={"c": 0.6}, notes=[alexnet, other])
    assert number(tmp_path, "mce@AlexNet") is None


def test_the_corruptions_are_those_of_the_generator():
    assert set(CORRUPTIONS) == set(NAMES) == set(ALEXNET) and len(CORRUPTIONS) == 15


def test_a_run_without_the_file_has_no_number(tmp_path):
    pretend.throughput(tmp_path, "CvT-13", 400.0)
    for name in (
        "flops@CvT-13@224",
        "corruption@fog",
        "ordered@1",
        "longest@step_s@full@1",
        "mce@AlexNet",
    ):
        assert number(tmp_path, name) is None


def test_the_first_metric_that_a_record_has(tmp_path):
    pretend.write_run(tmp_path, "train_lra", {"task": "text"}, {"ema_acc_frac": 0.75, "acc_frac": 0.5})
    assert number(tmp_path, "first@ema_acc_frac@acc_frac") == 0.75
    assert number(tmp_path, "first@best_acc_frac@acc_frac@ema_acc_frac") == 0.5
    assert number(tmp_path, "first@best_acc_frac@last_acc_frac") is None


def test_what_nobody_knows_is_named():
    with pytest.raises(ValueError, match="found quantity slowness@1, allowed: millions, "):
        quantity("benchmark_attention.slowness@1")
    assert quantity("benchmark_attention.full_time_slope").of_run is None


# grids over runs of several steps

GRID = {
    "groups": [
        {"id": "text", "title": "Text", "where": {"task": "text"}},
        {"id": "average", "title": "Average", "where": {"task": ["text", "image"]}, "every": "task"},
    ],
    "measures": [
        {
            "id": "accuracy",
            "title": "Accuracy",
            "quantity": "train_lra.acc_frac",
            "unit": "fraction",
            "where": {"step": "train_lra", "attention": "{row}"},
        },
        {
            "id": "flops",
            "title": "FLOPs",
            "quantity": "count_params_flops.flops@{row}@{group}",
            "unit": "giga",
            "where": {"step": "count", "task": None},
        },
    ],
}


def test_a_column_is_filled_with_row_and_group():
    columns = {
        column.id: column for column in grid_columns({key: list(value) for key, value in GRID.items()})
    }
    row = Row("full", "Full", {})
    flops, accuracy = columns["text/flops"].of(row), columns["text/accuracy"].of(row)
    assert flops.quantity == "count_params_flops.flops@full@text" and flops.where == {
        "task": None,
        "step": "count",
    }
    assert accuracy.where == {"task": "text", "step": "train_lra", "attention": "full"}
    plain = Column("id", "title", "count_params_flops.x", "none")
    assert plain.of(row) is plain and columns["average/flops"].every == "task"


def test_none_is_a_run_without_the_label():
    assert matches({"task": None}, "s", "count_params_flops", {"family": "lra"})
    assert not matches({"task": None}, "s", "train_lra", {"task": "text"})
    assert matches({"variant": ["large", None]}, "s", "count_params_flops", {})


def test_a_mean_over_tasks_is_of_the_seeds_that_have_all(tmp_path):
    for seed, task, accuracy in ((0, "text", 0.5), (0, "image", 0.7), (1, "text", 0.9), (2, "image", 0.1)):
        pretend.understand(tmp_path, task, "full", accuracy, seed=seed)
    columns = {
        column.id: column for column in grid_columns({key: list(value) for key, value in GRID.items()})
    }
    column = columns["average/accuracy"].of(Row("full", "Full", {}))
    found = complete.trials(evidence_of(tmp_path), column, column.where)
    assert {(trial.seed, trial.value) for trial in found} == {(0, 0.5), (0, 0.7)}
    text = columns["text/accuracy"].of(Row("full", "Full", {}))
    assert len(complete.trials(evidence_of(tmp_path), text, text.where)) == 2


def test_a_mean_over_a_label_needs_its_values(tmp_path):
    column = Column("a", "A", "train_lra.acc_frac", "fraction", where={"task": "text"}, every="task")
    with pytest.raises(
        ValueError, match="column a: every: task; allowed: a label that `where` lists values of"
    ):
        complete.trials(evidence_of(tmp_path), column)
