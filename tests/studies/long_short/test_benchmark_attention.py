"""benchmark_attention: the order of the cases, medians and slopes, forward and backward steps, and real memory."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.runs import record
from relearn.runs.settings import read
from relearn.studies.long_short.steps import benchmark_attention as cost
from relearn.studies.long_short.steps import peak_memory
from relearn.studies.long_short.steps.cost_cases import CurveCase, CurveSizes, LatencyCase, LatencySizes

from ...steps.recorded import by_command, rows_of

SIZES = ("layers", "dim", "heads", "ffn", "window", "segment", "rank", "vocabulary")
MODEL = dict(zip(SIZES, (1, 8, 2, 16, 4, 4, 1, 11), strict=True))
CURVE: dict[str, Any] = {
    "protocol": "curve",
    **MODEL,
    "attentions": ["full", "long_short"],
    "lengths": [8, 16, 32, 64, 128],
    "batches": [1, 2],
    "longest": {"full": 32},
    "repeats": 3,
    "memory": True,
}
ENCODER: dict[str, Any] = {"layers": 1, "dim": 8, "heads": 2, "ffn": 16, "vocabulary": 20, "classes": 3}
LATENCY: dict[str, Any] = {
    "protocol": "latency",
    **ENCODER,
    "tasks": {
        "listops": {"length": 16, "batch_size": 2, "pairs": False},
        "retrieval": {
            "length": 24,
            "batch_size": 2,
            "pairs": True,
            "arguments": {"long_short": {"window": 2}},
        },
    },
    "attentions": ["full", "long_short"],
    "arguments": {"long_short": {"window": 4, "rank": 3}},
    "repeats": 2,
}


def step(out: Path, told: dict[str, Any]) -> None:
    by_command("long_short", "benchmark_attention", out, told, {"protocol": told["protocol"]})


def table(path: Path) -> list[dict[str, str]]:
    return rows_of(path)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[CurveCase]:
    """Full attention takes n² B seconds and bytes, long-short n B; the n-th look at a case takes n times that. Who was looked at."""
    seen: list[CurveCase] = []

    def make(case: CurveCase):
        return lambda: seen.append(case)

    def timed(call, device):
        call()
        case = seen[-1]
        return seen.count(case) * case.batch * case.length ** (2 if case.attention == "full" else 1)

    def peaks(cases):
        return [case.batch * case.length ** (2 if case.attention == "full" else 1) * 10**6 for case in cases]

    monkeypatch.setattr(CurveCase, "make", make)
    monkeypatch.setattr(cost, "timed", timed)
    monkeypatch.setattr(peak_memory, "peaks", peaks)
    return seen


def test_the_record_says_what_the_curve_holds(tmp_path: Path, pretended: list[CurveCase]) -> None:
    step(tmp_path / "a", CURVE)
    done, rows = record.read(tmp_path / "a"), table(tmp_path / "a/cost.csv")
    assert record.verify_outputs(done) == [] and tuple(rows[0]) == cost.CURVE
    found = [(row["attention"], int(row["batch"]), int(row["length"])) for row in rows]
    full = [("full", b, n) for b in (1, 2) for n in (8, 16, 32)]
    assert found == full + [("long_short", b, n) for b in (1, 2) for n in CURVE["lengths"]]
    for row in rows:
        size = int(row["batch"]) * int(row["length"]) ** (2 if row["attention"] == "full" else 1)
        assert float(row["step_s"]) == 3 * size  # the first look is not counted, the median of 2, 3, 4 is 3
        assert float(row["peak_memory_mb"]) == size and row["repeats"] == "3"
    assert done["metrics"] == pytest.approx(
        {
            "full_time_slope": 2,
            "full_memory_slope": 2,
            "long_short_time_slope": 1,
            "long_short_memory_slope": 1,
            "full_longest_step_s": 3 * 32**2,
            "full_longest_count": 32,
            "long_short_longest_step_s": 3 * 128,
            "long_short_longest_count": 128,
        }
    )


def test_every_second_round_goes_the_other_way(pretended: list[CurveCase]) -> None:
    cost.curve(read(cost.Settings, {**CURVE, "batches": [1]}), {"device": "cpu", "precision": "fp32"})
    count = 8
    first, second, third, fourth = (pretended[i * count : (i + 1) * count] for i in range(4))
    assert len(pretended) == 4 * count and len(set(first)) == count
    assert second == first[::-1] and third == first and fourth == second


def test_a_single_round_counts(pretended: list[CurveCase]) -> None:
    rows = cost.curve(
        read(cost.Settings, {**CURVE, "repeats": 1, "memory": False, "batches": [1]}),
        {"device": "cpu", "precision": "fp32"},
    )
    assert len(pretended) == 2 + 8 and all(row["peak_memory_mb"] is None for row in rows)
    assert [row["step_s"] for row in rows] == [2 * 64, 2 * 256, 1024, 8, 16, 32, 64, 128]


def test_a_case_without_memory_for_it_has_empty_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def make(size: int):
        def call() -> None:
            calls.append(size)
            if size == 2:
                raise torch.OutOfMemoryError("CUDA out of memory")

        return lambda: call

    found = cost.rounds([make(1), make(2), make(3)], 3, "cpu", "x")
    assert found[1] is None and found[0] is not None and found[2] is not None
    assert calls.count(2) == 1 and calls.count(3) == 4
    rows = [
        {"attention": "full", "batch": 1, "length": n, "step_s": s, "peak_memory_mb": None}
        for n, s in ((1, 1.0), (2, 4.0), (4, None))
    ]
    assert cost.slopes(rows, 1) == {
        "full_time_slope": pytest.approx(2),
        "full_memory_slope": None,
        "full_longest_step_s": 4.0,
        "full_longest_count": 2.0,
    }


@given(
    st.floats(-2, 3), st.floats(0.1, 10), st.lists(st.integers(1, 10**5), min_size=2, max_size=9, unique=True)
)
@settings(max_examples=50)
def test_a_power_law_has_its_power_for_slope(power: float, factor: float, lengths: list[int]) -> None:
    found = cost.slope([(n, factor * n**power) for n in lengths])
    assert found == pytest.approx(power, abs=1e-6)
    assert cost.slope([(2, 1.0)]) is None and cost.slope([(1, 0.0), (2, 1.0)]) is None


def test_only_the_longer_half_has_a_say() -> None:
    """Below 8 constant, above it linear: of 1, 2, 4, 8, 16, 32 the longer half alone."""
    rows = [
        {
            "attention": "full",
            "batch": b,
            "length": n,
            "step_s": float(max(n, 8)) ** b,
            "peak_memory_mb": None,
        }
        for n in (1, 2, 4, 8, 16, 32)
        for b in (1, 2)
    ]
    assert cost.slopes(rows, 1)["full_time_slope"] == pytest.approx(1)
    assert cost.slopes(rows, 2)["full_time_slope"] == pytest.approx(2)
    whole = cost.slope([(row["length"], row["step_s"]) for row in rows if row["batch"] == 1])
    assert whole is not None and whole < 0.7  # the control


@pytest.mark.parametrize(
    ("attention", "cached"),
    [
        ("full", 12),
        ("long_short", 12),
        ("long_short_window_cache", MODEL["window"]),
        ("long_short_no_cache", 0),
    ],
)
def test_a_step_reads_the_cache_and_leaves_gradients(
    attention: str, cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from relearn.models import long_short_lm

    made: list[Any] = []
    seen: list[Any] = []
    create = long_short_lm.create

    def watched(**told: Any):
        net = create(**told)
        made.append(net)
        net.register_forward_pre_hook(
            lambda net, args, named: seen.append((args[0], named["cache"])), with_kwargs=True
        )
        return net

    monkeypatch.setattr(long_short_lm, "create", watched)
    CurveCase(attention=attention, length=12, batch=3, sizes=CurveSizes(**MODEL)).make()()
    tokens, cache = seen[0]
    assert tokens.shape == (3, 12)
    assert (cache is not None) == (cached > 0) and (
        not cached or [x.shape for x in cache] == [(3, cached, 8)]
    )
    assert made[0].description["attention"] == ("full" if attention == "full" else "long_short")
    assert all(parameter.grad is not None for parameter in made[0].parameters())


def test_latency_has_every_task_and_attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[LatencyCase] = []

    def make(case: LatencyCase):
        made.append(case)
        return lambda: None

    monkeypatch.setattr(LatencyCase, "make", make)
    monkeypatch.setattr(cost, "timed", lambda call, device: 2.0 if made[-1].train else 1.0)
    step(tmp_path / "a", LATENCY)
    done, rows = record.read(tmp_path / "a"), table(tmp_path / "a/latency.csv")
    assert tuple(rows[0]) == cost.LATENCY
    assert [(row["task"], row["attention"], row["length"]) for row in rows] == [
        (task, attention, length)
        for task, length in (("listops", "16"), ("retrieval", "24"))
        for attention in ("full", "long_short")
    ]
    assert {(row["forward_s"], row["train_s"]) for row in rows} == {("1.0", "2.0")}
    assert done["metrics"]["retrieval_long_short_train_s"] == 2 and len(done["metrics"]) == 8
    own = {(case.task, case.attention): dict(case.arguments) for case in made}
    assert own == {
        ("listops", "full"): {},
        ("retrieval", "full"): {},
        ("listops", "long_short"): {"window": 4, "rank": 3},
        ("retrieval", "long_short"): {"window": 2, "rank": 3},
    }


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("train", [True, False])
def test_latency_goes_forward_and_back(pairs: bool, train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from relearn.models import lra_encoder

    made: list[Any] = []
    create = lra_encoder.create
    monkeypatch.setattr(
        lra_encoder, "create", lambda *args, **told: made.append(create(*args, **told)) or made[-1]
    )
    case = LatencyCase(
        task="x", attention="full", length=9, batch=2, pairs=pairs, train=train, sizes=LatencySizes(**ENCODER)
    )
    case.make()()
    (net,) = made
    assert net.training == train
    assert all((parameter.grad is not None) == train for parameter in net.parameters())


def test_memory_is_that_of_a_process_of_its_own() -> None:
    """Full attention keeps its scores: four times the length, far more than four times the memory."""
    sizes = CurveSizes(**{**MODEL, "dim": 16, "heads": 1})
    cases = [CurveCase(attention="full", length=length, batch=1, sizes=sizes) for length in (256, 1024)]
    small, large = peak_memory.peaks(cases)
    assert small is not None and large is not None
    assert large > 4 * 1024 * 2048  # one number for every pair of positions at least
    assert large > 6 * small > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": "x"}, r"protocol: found 'x', allowed: curve, latency"),
        ({"repeats": 0}, "repeats: 0"),
        ({"lengths": []}, r"lengths: \[\] \(allowed: one or more, each once"),
        ({"batches": [1, 1]}, r"batches: \[1, 1\]"),
        (
            {"attentions": ["linformer"], "longest": {}},
            r"attentions: linformer \(allowed: full, long_short, ",
        ),
        ({"lengths": [0, 4]}, r"lengths: \[0, 4\] \(allowed: at least 1 each"),
        ({"longest": {"x": 4}}, r"longest: x \(allowed: full, long_short"),
        ({"longest": {"full": 4}}, r"longest: no length for full \(allowed: at least 8"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        cost.run(None, read(cost.Settings, {**CURVE, **changes}), {}, "cpu", "fp32")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["tasks", "attentions"])
def test_a_latency_of_nothing_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key}: none"):
        cost.run(None, read(cost.Settings, {**LATENCY, key: type(LATENCY[key])()}), {}, "cpu", "fp32")


def test_slopes_are_of_logarithms() -> None:
    assert cost.slope([(1, 1.0), (math.e, math.e**1.5)]) == pytest.approx(1.5)
