"""clock: from characters to record; which batch; what the numbers are of; order of the pairs; a step that trains; what is refused."""

import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.data.character_batches import CharacterBatches
from relearn.data.token_batches import Ragged
from relearn.models.character_lm import create
from relearn.runs import record
from relearn.steps.trained import step_time
from relearn.studies.l2_attention.steps import time_training_step as clock

from ...steps.recorded import by_command, rows_of

CHARACTERS = {
    "dataset": "pydoc_topics",
    "max_length": 40,
    "train_sentences": 300,
    "valid_sentences": 20,
    "test_sentences": 30,
}
SETTINGS: dict[str, Any] = {
    "attention": "l2_tied",
    "layers": [1, 2],
    "dim": 16,
    "heads": 2,
    "ffn": 32,
    "batch_size": 16,
    "max_length": 40,
    "pairs": 7,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("clock") / "results/mini/runs/l2_attention"
    labels = {"dataset": "pydoc_topics"}
    by_command("l2_attention", "prepare_ptb_lines", runs / "characters", CHARACTERS, labels)
    return runs


def clocked(runs: Path, out: str, *, code: int = 0, **changes: Any) -> dict[str, Any]:
    settings = {**SETTINGS, **changes}
    labels, characters = {"attention": str(settings["attention"])}, runs / "characters/characters.safetensors"
    given = {"characters": characters, "code": code}
    return by_command("l2_attention", "time_training_step", runs / out, settings, labels, **given)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Seconds that are known: n² for the n-th timed step of a kind, times its layers, thrice that for dp; and who took a step."""
    seen: list[str] = []

    def made(net, batch, device, precision):
        kind = net.description["attention"]
        return lambda: seen.append(f"{kind}{net.description['layers']}")

    def timed(call, device):
        call()
        kind, layers = seen[-1][:-1], int(seen[-1][-1])
        return (seen.count(seen[-1]) - 1) ** 2 * layers * (3.0 if kind == "dp" else 1.0)

    monkeypatch.setattr(clock, "training_step", made)
    monkeypatch.setattr(step_time, "timed", timed)
    return seen


def test_the_record_says_what_the_times_hold(runs: Path, ticking: list[str]) -> None:
    clocked(runs, "run")
    done = record.read(runs / "run")
    assert record.verify_outputs(done) == [] and done["outcome"] == "ok"
    rows = rows_of(runs / "run/times.csv")
    assert tuple(rows[0]) == clock.COLUMNS
    assert [(row["layers"], row["pair"]) for row in rows] == [
        (str(n), str(p)) for n in (1, 2) for p in range(7)
    ]
    metrics = done["metrics"]
    for n in (1, 2):
        here = [row for row in rows if row["layers"] == str(n)]
        own = [float(row["own_s"]) for row in here]
        assert own == [n * k**2 for k in range(1, 8)]
        assert [float(row["dp_s"]) for row in here] == [3 * one for one in own]
        assert metrics[f"layers{n}_step_s"] == statistics.median(own) == n * 16
        assert metrics[f"layers{n}_epoch_s"] == n * 16 * 19  # 300 lines by 16
        assert metrics[f"layers{n}_dp_ratio"] == pytest.approx(1 / 3)
    assert metrics["steps_count"] == 19


def test_pairs_alternate(runs: Path, ticking: list[str]) -> None:
    """A warm-up of both, then own first and dp first in turn."""
    clocked(runs, "order", layers=[1])
    one, other = ["l2_tied1", "dp1"], ["dp1", "l2_tied1"]
    assert ticking == one + (one + other) * 3 + one


@pytest.mark.parametrize("attention", ["dp", "contractive", "lstm"])
def test_real_steps_take_time(runs: Path, attention: str) -> None:
    clocked(runs, attention, attention=attention, layers=[1])
    metrics = record.read(runs / attention)["metrics"]
    assert metrics["layers1_step_s"] > 0 and metrics["layers1_dp_ratio"] > 0
    assert metrics["layers1_epoch_s"] == pytest.approx(19 * metrics["layers1_step_s"])


def test_the_batch_is_that_of_mean_length() -> None:
    """Sorted lines by twos: longest of each batch 2, 4, 6, 40, 41; mean 18.6, nearest 6. The odd last line makes no full batch."""
    lengths = [40, 1, 3, 41, 2, 5, 6, 4, 39]
    lines = CharacterBatches(Ragged.of([[5] * n for n in lengths]), batch_size=2)
    rows = clock.mean_rows(lines)
    assert sorted(lengths[row] for row in rows) == [5, 6]
    # by the longest line of each, as padding has it: 30, 32, 34, 60, mean 39; by the shortest it would be 31 and 32
    uneven = [1, 30, 31, 32, 33, 34, 35, 60]
    rows = clock.mean_rows(CharacterBatches(Ragged.of([[5] * n for n in uneven]), batch_size=2))
    assert sorted(uneven[row] for row in rows) == [33, 34]
    long = CharacterBatches(Ragged.of([[5] * n for n in (1, 1, 1, 1, 30)]), batch_size=2)
    assert len(clock.mean_rows(long)) == 2
    few = CharacterBatches(Ragged.of([[5] * n for n in (1, 3)]), batch_size=8)
    assert sorted(clock.mean_rows(few).tolist()) == [0, 1]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_trains(precision: str) -> None:
    """Each call moves all weights by Adam: at a rate of 1e-6, by at most that much."""
    torch.manual_seed(0)
    net = create(attention="l2_tied", layers=1, dim=16, heads=2, ffn=32, vocabulary=9, max_length=12)
    tokens = torch.randint(4, 9, (3, 8))
    call = clock.training_step(net, (tokens, tokens), "cpu", precision)
    before = [one.detach().double().clone() for one in net.parameters()]
    call()
    for one, old in zip(net.parameters(), before):
        moved = (one.double() - old).abs().max().item()
        assert 0 < moved < 1.2e-6, one.shape
        assert one.dtype == torch.float32


def test_the_longest_line_fits_with_its_start_mark(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(lines):
        seen.append(int(lines.lines.lengths.max()))
        return lines.lines.lengths.sort().indices[-16:]

    monkeypatch.setattr(clock, "mean_rows", watched)
    clocked(runs, "longest", attention="contractive", layers=[1])
    assert record.read(runs / "longest")["metrics"]["length_count"] == seen[0] + 1 == 41


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"pairs": 6}, "pairs: 6 (allowed: at least 7"),
        ({"layers": []}, "layers: [] (allowed"),
        ({"layers": [1, 1]}, "layers: [1, 1] (allowed"),
        ({"max_length": 39}, "max_length: 39 (allowed: at least 40"),
        ({"attention": "cosine"}, "attention: 'cosine' (allowed"),
    ],
)
def test_wrong_arguments_are_refused(
    runs: Path, changes: dict, match: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clocked(runs, "refused", code=2, **changes)
    assert match in capsys.readouterr().err
