"""The time of a call is that of the processor on a CPU, and that of the wall on a GPU, once the device has caught up."""

from __future__ import annotations

import time

import pytest
import torch

from relearn.steps.trained.step_time import timed


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
