"""check_gradient: FreeLB's gradient is the virtual batch's in all cases; a wrong weight is seen, wrong masks are refused."""

from __future__ import annotations

import csv

import pytest
import torch

from relearn.methods import freelb
from relearn.methods.dropout_masks import MaskReplay
from relearn.runs import record
from relearn.studies.freelb.steps import check_gradient, gradient_cases


def test_all_cases_agree_and_are_written(tmp_path):
    what = {"study": "freelb", "paper": "zhu2022", "step": "check_gradient", "scale": "mini"}
    with record.Run(tmp_path / "a", **what, labels={}, seed=0, settings={}) as one:
        check_gradient.run(one, {}, {}, "cpu", "fp32")
    done = record.read(tmp_path / "a")
    with (tmp_path / "a" / "gradients.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == gradient_cases.COLUMNS
    assert len(rows) == 3 * 3 + 3 + 2 == done["metrics"]["cases_count"]
    assert {"roberta, ranking", "albert, classification, fresh masks", "pixels, l2"} <= {
        row["case"] for row in rows
    }
    differences = [float(row["difference"]) for row in rows]
    assert done["metrics"]["largest_difference"] == max(differences) < 1e-12
    assert done["outcome"] == "ok"


def test_a_step_that_weighs_its_passes_wrongly_is_seen(monkeypatch):
    run_passes = freelb.FreeLB.run_passes

    def heavier(self, model, objective, field):
        value = run_passes(self, model, objective, field)
        with torch.no_grad():
            for one in model.parameters():
                if one.grad is not None:
                    one.grad *= 1.001
        return value

    monkeypatch.setattr(freelb.FreeLB, "run_passes", heavier)
    assert min(row["difference"] for row in gradient_cases.gradient_cases()) > 5e-4


def test_masks_that_are_not_shared_are_refused(monkeypatch):
    monkeypatch.setattr(freelb.FreeLB, "masks", lambda self: MaskReplay(False))
    with pytest.raises(
        ValueError, match=r"roberta, classification: found 9 masks a pass, reused False \(allowed: True\)"
    ):
        gradient_cases.gradient_cases()
