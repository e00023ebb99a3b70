"""The best network of a training: a higher score replaces it, an equal one does not, and a new process finds it again.

The clock of a training stops during evaluations, and no study's code lies behind it.
"""

import time
from pathlib import Path

import pytest
import torch

from relearn.runs.code_version import closure
from relearn.steps.trained import clock as clocks
from relearn.steps.trained.best import Best
from relearn.steps.trained.step_time import timed


def save(net: str, path: Path) -> None:
    path.write_text(net)


def kept(best: Best, folder: Path) -> str:
    best.copy_to(folder / "out")
    return (folder / "out").read_text()


def test_only_a_higher_score_replaces_the_network(tmp_path: Path) -> None:
    best = Best(tmp_path, save)
    for net, score in (("a", 0.5), ("b", 0.7), ("equal", 0.7), ("worse", 0.6)):
        best.offer(net, score)
    assert (kept(best, tmp_path), best.score) == ("b", 0.7)
    resumed = Best(tmp_path, save)
    resumed.offer("worse", 0.6)
    assert (kept(resumed, tmp_path), resumed.score) == ("b", 0.7)
    resumed.keep("last", 0.1)
    assert (kept(resumed, tmp_path), resumed.score) == ("last", 0.1)


def test_a_network_at_the_least_score_is_not_kept(tmp_path: Path) -> None:
    best = Best(tmp_path, save, least=0.5)
    best.offer("a", 0.5)
    assert best.score == 0.5 and not best.file.exists()


def test_a_write_that_fails_leaves_the_network_before_it(tmp_path: Path) -> None:
    def torn(net: str, path: Path) -> None:
        path.write_text("half")
        raise OSError("no space")

    Best(tmp_path, save).offer("a", 0.5)
    with pytest.raises(OSError, match="no space"):
        Best(tmp_path, torn).offer("b", 0.7)
    assert (kept(Best(tmp_path, save), tmp_path), Best(tmp_path, save).score) == ("a", 0.5)


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


# The time of a call is that of the processor on a CPU, and that of the wall on a GPU, once the device has caught up.


def test_on_a_cpu_waiting_costs_nothing_and_work_does() -> None:
    def work() -> None:
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass

    assert timed(lambda: time.sleep(0.2), "cpu") < 0.1
    assert 0.05 <= timed(work, "cpu") < 0.15


def test_on_a_gpu_both_ends_wait_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", seen.append)
    assert timed(lambda: seen.append("call"), "cuda:1") >= 0
    assert seen == ["cuda:1", "call", "cuda:1"]
