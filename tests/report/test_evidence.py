"""The evidence of a study is one table, runs × metrics, the same as the Parquet file of published runs."""

from pathlib import Path

import pandas

from relearn.report.quantities import Evidence
from relearn.report.runs import Run
from relearn.runs import run_store


def run(seed: int, outcome: str = "ok", **metrics: float | None) -> Run:
    record = {
        "study": "gradinit",
        "step": "train",
        "labels": {"network": "VGG"},
        "seed": seed,
        "settings": {"lr": 0.1},
    }
    record |= {"outcome": outcome, "metrics": metrics, "outputs": {}}
    return Run(record, f"runs/gradinit/train/VGG/seed{seed}")


RUNS = [run(0, acc_frac=0.5, loss_nats=1.0), run(1, acc_frac=None), run(2, "diverged", acc_frac=0.25)]


def test_the_table_is_that_of_published_runs(tmp_path: Path) -> None:
    run_store.write(
        tmp_path, [dict(one.record) for one in RUNS], [one.folder for one in RUNS], lambda *_: None
    )
    table = Evidence(RUNS).table
    pandas.testing.assert_frame_equal(table, pandas.read_parquet(tmp_path / "runs.parquet"))
    assert list(table["seed"]) == [0, 1, 2] and set(table["labels.network"]) == {"VGG"}


def test_a_metric_is_a_column_of_it(tmp_path: Path) -> None:
    evidence = Evidence(RUNS)
    assert [(one.seed, one.value) for one in evidence.trials("train.acc_frac")] == [(0, 0.5), (2, 0.25)]
    assert [(one.seed, one.value) for one in evidence.trials("train.loss_nats")] == [(0, 1.0)]
    assert evidence.trials("train.bleu") == []
    assert [one.value for one in Evidence([RUNS[0], RUNS[0]]).trials("train.acc_frac")] == [0.5, 0.5]
