"""merge_scores: the accuracy over the samples of several tasks is the mean weighted by their sizes.

check_gradient: FreeLB's gradient is the virtual batch's in all cases; a wrong weight is seen, wrong masks are refused.
"""

from pathlib import Path

import pytest
import torch

from relearn.methods import freelb
from relearn.methods.dropout_masks import MaskReplay
from relearn.studies.freelb.steps import check_gradient, gradient_cases

from ...steps.recorded import made_by, rows_of
from .runs import Bench
from .test_ensemble import Answer, answers


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path, "merge_scores", {"members": [{"task": "easy"}, {"task": "hard"}]})
    made.runs.mkdir(parents=True)
    return made


def rows(part: str, right: int, size: int, known: bool = True) -> list[Answer]:
    """Of ``size`` samples of three candidates ``right`` are answered correctly."""
    label = "2" if known else ""
    return [(part, str(place), label, "0 1 3" if place < right else "0 4 3") for place in range(size)]


def files(bench: Bench, *tables: list[Answer]) -> dict[str, list[Path]]:
    return {"answers": [answers(bench.runs.parent / f"{place}.csv", one) for place, one in enumerate(tables)]}


def test_scores_are_weighted_by_the_sizes_of_the_sets(bench: Bench) -> None:
    easy = [*rows("dev", 6, 8), *rows("test", 3, 4, known=False)]
    hard = [*rows("dev", 1, 2), *rows("test", 1, 4, known=False)]
    found = bench.run("merged", inputs=files(bench, easy, hard))
    assert found["outcome"] == "ok"
    assert found["metrics"] == {"dev_accuracy_frac": 7 / 10, "dev_samples_count": 10}
    table = {(row["task"], float(row["accuracy_frac"])) for row in bench.rows("merged", "scores.csv")}
    assert table == {("easy", 0.75), ("hard", 0.5), ("merged", 0.7)}


def test_a_member_without_answers_ends_as_diverged(bench: Bench) -> None:
    silent: list[Answer] = [("dev", "0", "1", "")]
    found = bench.run("silent", inputs=files(bench, rows("dev", 1, 2), silent))
    assert found["outcome"] == "diverged" and not found["metrics"]


def test_one_member_is_nothing_to_merge(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run("one", code=2, inputs=files(bench, rows("dev", 1, 2)))
    assert "members: 2 with 1 answers.csv (allowed: as many, at least 2)" in capsys.readouterr().err


def test_all_cases_agree_and_are_written(tmp_path):
    done = made_by(check_gradient, tmp_path / "a", {}, study="freelb")
    rows = rows_of(tmp_path / "a/gradients.csv")
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
