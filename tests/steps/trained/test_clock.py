"""The clock of a training stops during evaluations, and no study's code lies behind it."""

from __future__ import annotations

import pytest

from relearn.runs.code_version import closure
from relearn.steps.trained import clock as clocks


@pytest.mark.parametrize("step", ["train_lra", "train_long_char_lm", "convert_roberta"])
def test_a_bound_of_l2_attention_is_not_behind_the_steps_of_long_short(step: str) -> None:
    behind = closure([f"relearn.studies.long_short.steps.{step}"])
    assert "relearn.steps.trained.clock" in behind
    assert not {"relearn.studies.l2_attention.steps.train_char_lm", "relearn.maths.l2_bounds"} & set(behind)


def test_a_bound_is_behind_the_language_models_of_l2_attention() -> None:
    assert "relearn.maths.l2_bounds" in closure(["relearn.studies.l2_attention.steps.train_char_lm"])


def test_what_is_between_stop_and_start_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([1.0, 3.0, 10.0, 14.0])
    monkeypatch.setattr(clocks.time, "process_time", lambda: next(now))
    clock, seen = clocks.Clock("cpu"), []
    told = clock.counting(lambda done, total: seen.append((done, total)))
    for done in (1, 2):
        clock.start()
        told(done, 2)
        clock.stop()
    assert (clock.spent, clock.steps, seen) == (6.0, 2, [(1, 2), (2, 2)])
