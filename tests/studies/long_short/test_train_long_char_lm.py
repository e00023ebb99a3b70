"""train_long_char_lm: phases, the record, bits against a slow float64 sum, exact resume, divergence, refusals."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from relearn.data.prepared_stream import load_prepared_stream, prepare, save_stream
from relearn.models import long_short_lm
from relearn.runs import record
from relearn.runs.settings import read
from relearn.steps.trained import clock as clocks
from relearn.studies.long_short.steps import train_long_char_lm as predict

from ...steps.recorded import by_command, check_resumes, rows_of

SETTINGS: dict[str, Any] = {
    "attention": "long_short",
    "dual_norm": True,
    "as_released": False,
    "layers": 1,
    "dim": 8,
    "heads": 2,
    "ffn": 16,
    "dropout": 0.1,
    "window": 4,
    "segment": 4,
    "rank": 1,
    "phases": [
        {"length": 8, "steps": 60, "warmup_steps": 5, "batch_size": 4, "lr": 0.01},
        {"length": 16, "steps": 4, "warmup_steps": 2, "batch_size": 3, "lr": 0.005},
    ],
    "optimizer": "adamw",
    "betas": [0.9, 0.999],
    "adam_eps": 1.0e-8,
    "weight_decay": 0.01,
    "clip_norm": None,
    "diverged_above": None,
    "evaluations": 2,
    "history_characters": 40,
    "evaluation": {"form": "windows", "context": 24, "step": 5, "batch_size": 3, "characters": 60},
}


class Bench:
    def __init__(self, root: Path) -> None:
        self.runs = root / "results/mini/runs/long_short"
        self.stream = self.runs / "stream.safetensors"
        self.runs.mkdir(parents=True)
        draws = np.random.default_rng(0)
        words = [b"wave ", b"wind ", b"over ", b"under ", b"a ", b"the "]
        content = b"".join(words[i] for i in draws.integers(0, len(words), 600))
        save_stream(prepare(content, name="words")[0], self.stream)

    def run(self, name: str, **changes: Any) -> dict:
        settings, labels = (
            {**copy.deepcopy(SETTINGS), **changes},
            {"dataset": "words", "variant": "dual_norm"},
        )
        step = "train_long_char_lm"
        return by_command("long_short", step, self.runs / name, settings, labels, stream=self.stream)

    def rows(self, name: str, file: str = "history.csv") -> list[dict[str, str]]:
        return rows_of(self.runs / name / file)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("predict"))
    bench.run("run")
    return bench


def slow_bits(net: Any, ids: list[int], context: int, step: int) -> float:
    """Character by character in float64, each from the window that scores it."""
    net, bits, last = copy.deepcopy(net).double(), 0.0, len(ids) - 1
    for t in range(1, len(ids)):
        start = 0
        if t > context:
            start = min(context + math.ceil((t - context) / step) * step, last) - context
        with torch.no_grad():
            chances = net(torch.tensor([ids[start:t]]))[0][0, -1].log_softmax(-1)
        bits -= float(chances[ids[t]]) / math.log(2)
    return bits / last


def test_the_record_says_what_the_files_hold(bench: Bench) -> None:
    done, rows = record.read(bench.runs / "run"), bench.rows("run")
    assert record.verify_outputs(done) == [] and done["outcome"] == "ok"
    assert set(done["outputs"]) == {"history.csv", "norms.csv", "model.safetensors"}
    assert tuple(rows[0]) == predict.COLUMNS
    metrics = done["metrics"]
    assert metrics["steps_count"] == 64 and metrics["tokens_count"] == 60 * 8 * 4 + 4 * 16 * 3
    assert metrics["step_s"] > 0 and "nats" not in json.dumps(metrics)
    measured = [(row["phase"], row["step"], row["length"]) for row in rows if row["valid_bits"]]
    assert measured == [("1", "30", "8"), ("1", "60", "8"), ("2", "62", "16"), ("2", "64", "16")]
    assert metrics["valid_history_bpc"] == float(rows[-1]["valid_bits"])
    net = long_short_lm.FILE.load(bench.runs / "run/model.safetensors")
    assert metrics["parameters_count"] == sum(parameter.numel() for parameter in net.parameters())
    assert "59 valid and 59 test characters scored" in done["notes"][0]


def test_each_phase_warms_up_and_stays_at_its_own_rate(bench: Bench) -> None:
    for row in bench.rows("run"):
        phase = SETTINGS["phases"][int(row["phase"]) - 1]
        here = int(row["step"]) - (60 if row["phase"] == "2" else 0)
        assert float(row["lr"]) == pytest.approx(phase["lr"] * min(1, here / phase["warmup_steps"]))


def test_it_learns(bench: Bench) -> None:
    rows, stream = bench.rows("run"), load_prepared_stream(bench.stream)
    assert float(rows[0]["loss_bits"]) == pytest.approx(math.log2(stream.vocabulary), abs=0.3)
    assert record.read(bench.runs / "run")["metrics"]["test_bpc"] < math.log2(stream.vocabulary) - 0.8


def test_bits_are_those_of_a_slow_sum_over_windows(bench: Bench) -> None:
    stream, metrics = load_prepared_stream(bench.stream), record.read(bench.runs / "run")["metrics"]
    net = long_short_lm.FILE.load(bench.runs / "run/model.safetensors")
    for part in ("train", "valid", "test"):
        found = slow_bits(net, stream.parts[part][:60].tolist(), 24, 5)
        assert metrics[f"{part}_bpc"] == pytest.approx(found, rel=1e-5)


def test_the_curve_is_the_cached_form_of_the_phase(bench: Bench) -> None:
    ids = torch.from_numpy(load_prepared_stream(bench.stream).parts["valid"][:40]).long()[None]
    net = long_short_lm.FILE.load(bench.runs / "run/model.safetensors").double()
    bits, cache = 0.0, None
    for start in range(0, 39, 16):
        piece = ids[:, start : min(start + 17, 40)]
        with torch.no_grad():
            logits, cache = net(piece[:, :-1], cache=cache, keep=16)
        bits -= float(logits.log_softmax(-1).gather(2, piece[:, 1:, None]).sum()) / math.log(2)
    assert float(bench.rows("run")[-1]["valid_bits"]) == pytest.approx(bits / 39, rel=1e-5)


def test_the_released_evaluation_keeps_its_context(bench: Bench) -> None:
    way = {**SETTINGS["evaluation"], "form": "cached", "context": 16, "step": 8}
    done = bench.run("cached", evaluation=way)
    whole = record.read(bench.runs / "run")["metrics"]
    assert done["metrics"]["valid_history_bpc"] == whole["valid_history_bpc"]  # the same network
    assert done["metrics"]["valid_bpc"] != whole["valid_bpc"]
    ids = torch.from_numpy(load_prepared_stream(bench.stream).parts["valid"][:60]).long()[None]
    net = long_short_lm.FILE.load(bench.runs / "cached/model.safetensors").double()
    bits, cache = 0.0, None
    for start in range(0, 59, 8):
        piece = ids[:, start : min(start + 9, 60)]
        with torch.no_grad():
            logits, cache = net(piece[:, :-1], cache=cache, keep=16)
        bits -= float(logits.log_softmax(-1).gather(2, piece[:, 1:, None]).sum()) / math.log(2)
    assert done["metrics"]["valid_bpc"] == pytest.approx(bits / 59, rel=1e-5)


def test_norms_are_one_at_the_start_with_dual_norm_and_above_without(bench: Bench) -> None:
    rows = bench.rows("run", "norms.csv")
    assert [(row["moment"], row["layer"]) for row in rows] == [("start", "1"), ("end", "1")]
    metrics = record.read(bench.runs / "run")["metrics"]
    assert metrics["norm_ratio_start_max"] == pytest.approx(1, abs=0.01)
    assert metrics["norm_ratio_start_min"] == pytest.approx(1, abs=0.01)
    without = bench.run("bare", dual_norm=False, phases=[{**SETTINGS["phases"][0], "steps": 1}])
    assert without["metrics"]["norm_ratio_start_min"] > 1.02


def test_full_attention_has_no_norms_and_sees_the_same_context(bench: Bench) -> None:
    done = bench.run("full", attention="full", phases=[{**SETTINGS["phases"][0], "steps": 2}])
    assert not bench.rows("full", "norms.csv") and "norm_ratio_start_max" not in done["metrics"]
    net = long_short_lm.FILE.load(bench.runs / "full/model.safetensors")
    ids = load_prepared_stream(bench.stream).parts["test"][:60].tolist()
    assert done["metrics"]["test_bpc"] == pytest.approx(slow_bits(net, ids, 24, 5), rel=1e-5)


@pytest.mark.parametrize("stop", [50, "phase"])
def test_a_killed_job_resumes_and_ends_the_same(bench: Bench, stop: Any) -> None:
    def here(_: Any, state: dict[str, Any]) -> bool:
        return state.get("phase") == 1 if stop == "phase" else state["steps"] == stop

    whole, out = record.read(bench.runs / "run"), bench.runs / f"again_{stop}"
    check_resumes(lambda: bench.run(out.name), out, whole, here)


def test_a_divergence_is_a_result_without_bits(bench: Bench) -> None:
    phases = copy.deepcopy(SETTINGS["phases"])
    phases[1] |= {"lr": 1.0e30, "warmup_steps": 0}
    done = bench.run("diverged", phases=phases)
    assert done["outcome"] == "diverged" and 61 <= done["outcome_step"] <= 64
    assert "test_bpc" not in done["metrics"] and done["metrics"]["norm_ratio_start_max"] < 1.01
    assert [row["moment"] for row in bench.rows("diverged", "norms.csv")] == ["start"]
    assert bench.rows("diverged")[-1]["phase"] in ("1", "2")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"phases": []}, r"phases: none \(allowed: at least one\)"),
        ({"phases": [{"length": 8}]}, r"the key phases\[0\].steps is missing"),
        ({"phases": [{**SETTINGS["phases"][0], "steps": 0}]}, "phases: phase 1 has 0 steps"),
        ({"evaluations": 0}, "evaluations: 0"),
        ({"history_characters": 1}, "history_characters: 1"),
        (
            {"evaluation": {**SETTINGS["evaluation"], "form": "x"}},
            r"evaluation.form: found 'x', allowed: windows, cached",
        ),
        ({"evaluation": {**SETTINGS["evaluation"], "step": 0}}, "step is 0; allowed: 1"),
        ({"evaluation": {**SETTINGS["evaluation"], "step": 25}}, "step is 25; allowed: 1 to 24"),
        ({"attention": "linear"}, "attention: 'linear'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_before_training(
    bench: Bench, changes: dict, words: str
) -> None:
    with pytest.raises(ValueError, match=words) as error:
        predict.run(
            None, read(predict.Settings, {**SETTINGS, **changes}), {"stream": [bench.stream]}, "cpu", "fp32"
        )
    assert "\n" not in str(error.value)


def test_the_first_step_of_a_process_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 100.0, 103.0, 110.0, 114.0])
    monkeypatch.setattr(clocks.time, "process_time", lambda: next(now))
    clock, seen = clocks.Clock("cpu"), []
    clock.start()  # 0
    told = predict.but_the_first(clock, lambda done, total: seen.append(done))
    told(1, 3)  # 100: from here on
    told(2, 3)
    clock.stop()  # 103
    told = predict.but_the_first(clock, lambda done, total: seen.append(done))
    clock.start()  # 110
    told(3, 3)
    clock.stop()  # 114
    assert (clock.spent, clock.steps, seen) == (7.0, 2, [1, 2, 3])


def test_tokens_count_over_phases() -> None:
    phases = read(predict.Settings, SETTINGS).phases
    assert [predict.tokens(phases, steps) for steps in (0, 1, 60, 61)] == [0, 32, 1920, 1968]
