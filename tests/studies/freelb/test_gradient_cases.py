"""The exact case of FreeLB: all cases agree, and one whose masks are not what it says is refused."""

from __future__ import annotations

import csv

import pytest
import torch

from relearn.methods import freelb
from relearn.methods.dropout_masks import MaskReplay
from relearn.runs import record
from relearn.steps import count_params_flops as count
from relearn.studies.freelb.steps import gradient_cases


def test_all_cases_agree_and_are_written(tmp_path):
    settings = {"family": "gradient"}
    what = {"study": "freelb", "paper": "zhu2022", "step": "count", "scale": "mini"}
    with record.Run(tmp_path / "a", **what, labels=settings, seed=0, settings=settings) as one:
        count.run(one, settings, {}, "cpu", "fp32")
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
    passed = freelb.FreeLB.run_passes

    def heavier(self, model, objective, field):
        value = passed(self, model, objective, field)
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
