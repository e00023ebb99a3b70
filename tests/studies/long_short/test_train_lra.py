"""train_lra: numbers of tiny runs against their files; pairing; resuming; divergence; where batches may be trimmed."""

import json
import math
from pathlib import Path

import pytest
import torch

from relearn.data.lra.batches import SequenceBatches
from relearn.data.lra.sequences import load
from relearn.layers.efficient import KINDS
from relearn.models import lra_encoder
from relearn.models.lra_encoder import create
from relearn.runs import record
from relearn.studies.long_short.steps import train_lra as understand

from ...steps.recorded import by_command, check_resumes, rows_of

DATA = {
    "text": {"dataset": "python", "max_length": 48, "form": {}},
    "retrieval": {"dataset": "python_kinds", "max_length": 24, "form": {}},
    "image": {"dataset": "digits", "max_length": 64, "form": {}},
}
SAMPLES = {"train_samples": 200, "valid_samples": 40, "test_samples": 50}
SETTINGS = {
    "attention": "full",
    "arguments": {},
    "layers": 1,
    "dim": 16,
    "heads": 2,
    "ffn": 32,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "pooling": None,
    "steps": 60,
    "batch_size": 16,
    "schedule": "linear",
    "lr": 0.01,
    "warmup_steps": 10,
    "betas": [0.9, 0.999],
    "adam_eps": 1.0e-6,
    "weight_decay": 0.01,
    "clip_norm": None,
    "evaluations": 4,
    "trim": True,
}


class Bench:
    """Runs of the step in one folder."""

    def __init__(self, root: Path) -> None:
        self.runs = root / "results/mini/runs/long_short"

    def data(self, task: str) -> Path:
        out = self.runs / task
        if not out.exists():
            settings = {"task": task, **DATA[task], **SAMPLES}
            by_command("long_short", "prepare_lra", out, settings, {"task": task})
        return out / "data.safetensors"

    def run(
        self,
        name: str,
        task: str = "text",
        *,
        seed: int = 0,
        code: int = 0,
        tried: list[Path] | None = None,
        **changes: object,
    ) -> dict:
        settings, labels = {**SETTINGS, **changes}, {"task": task}
        given = {"data": self.data(task), "seed": seed, "code": code, **({"tried": tried} if tried else {})}
        return by_command("long_short", "train_lra", self.runs / name, settings, labels, **given)

    def rows(self, name: str, file: str) -> list[dict[str, str]]:
        return rows_of(self.runs / name / file)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("understand"))
    bench.run("run")
    return bench


def share(rows: list[dict[str, str]], column: str) -> float:
    return sum(row[column] == row["label"] for row in rows) / len(rows)


def test_the_record_says_what_the_files_hold(bench: Bench) -> None:
    done, rows, history = (
        record.read(bench.runs / "run"),
        bench.rows("run", "predictions.csv"),
        bench.rows("run", "history.csv"),
    )
    assert record.verify_outputs(done) == [] and done["outcome"] == "ok"
    assert set(done["outputs"]) == {"history.csv", "predictions.csv", "model.safetensors"}
    assert tuple(history[0]) == understand.HISTORY and tuple(rows[0]) == (
        "sample",
        "label",
        *understand.TESTS,
    )
    metrics = done["metrics"]
    assert metrics["acc_frac"] == share(rows, "none")
    assert metrics["insertion_acc_frac"] == share(rows, "insertion")
    assert metrics["deletion_acc_frac"] == share(rows, "deletion")
    tested = [float(row["dev_accuracy_frac"]) for row in history if row["dev_accuracy_frac"]]
    assert len(tested) == 4 and metrics["dev_acc_frac"] == max(tested)
    assert metrics["train_loss_nats"] == float(history[-1]["loss"])
    assert metrics["steps_count"] == float(history[-1]["step"]) == 60
    assert metrics["most_frequent_frac"] == 0.5
    assert metrics["data_share_frac"] == pytest.approx(metrics["load_s"] / metrics["step_s"])
    assert float(history[-1]["lr"]) == pytest.approx(0.01 / 50)


def test_the_rate_that_was_best_on_the_valid_part_is_used(bench: Bench, tmp_path: Path) -> None:
    tried = []
    for rate, accuracy in (("0.004", 0.6), ("0.02", 0.8), ("0.08", 0.7)):
        tried.append(tmp_path / f"{rate}.json")
        tried[-1].write_text(
            json.dumps({"labels": {"tried": f"lr{rate}"}, "metrics": {"dev_acc_frac": accuracy}})
        )
    done = bench.run("chosen", tried=tried, steps=8, warmup_steps=0, evaluations=1)
    assert done["metrics"]["lr"] == 0.02 and "learning rate 0.02, the best of 3 trainings" in done["notes"]
    assert float(bench.rows("chosen", "history.csv")[0]["lr"]) == pytest.approx(0.02)
    assert record.read(bench.runs / "run")["metrics"]["lr"] == SETTINGS["lr"]


def test_it_learns(bench: Bench) -> None:
    assert record.read(bench.runs / "run")["metrics"]["acc_frac"] > 0.5 + 2 * math.sqrt(0.25 / 50)


def test_the_file_is_the_network_that_was_tested(bench: Bench) -> None:
    """One by one and without padding, in float64."""
    net, data = lra_encoder.FILE.load(bench.runs / "run/model.safetensors").double(), load(bench.data("text"))
    rows = bench.rows("run", "predictions.csv")
    for column, name in zip(understand.TESTS, ("test", "test_insertion", "test_deletion")):
        part = data.part(name)
        for number, row in enumerate(rows[:20]):
            values = part.values[part.offsets[number] : part.offsets[number + 1]]
            with torch.no_grad():
                logits = net(torch.from_numpy(values.astype(int) + 1)[None])
            assert int(row["sample"]) == number and int(row["label"]) == part.labels[number]
            assert int(row[column]) == int(logits.argmax())
    right = understand.predict(net, SequenceBatches(data.part("valid"), batch_size=7), "fp32")
    assert right is not None
    found = float((right == torch.from_numpy(data.part("valid").labels)).double().mean())
    assert found == record.read(bench.runs / "run")["metrics"]["dev_acc_frac"]


def test_the_best_network_is_kept_not_the_last(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations that say the second is best, in a run that goes on: the kept weights are those of half of its steps."""
    real, said = understand.predict, iter([0, 30, 30, 10])
    labels = torch.from_numpy(load(bench.data("text")).part("valid").labels)

    def pretended(net, batches, precision):  # type: ignore[no-untyped-def]
        found = real(net, batches, precision)
        if len(found) == len(labels):
            right = next(said)
            found = torch.where(torch.arange(len(labels)) < right, labels, 1 - labels)
        return found

    monkeypatch.setattr(understand, "predict", pretended)
    done = bench.run("pretended")
    assert done["metrics"]["dev_acc_frac"] == 30 / 40
    monkeypatch.undo()
    # The same training stopped there has these weights: a schedule that does not look ahead.
    for name, steps in (("constant", 60), ("half", 30)):
        if name == "constant":
            said = iter([0, 30, 30, 10])
            monkeypatch.setattr(understand, "predict", pretended)
        bench.run(name, schedule="constant", steps=steps, evaluations=4 if steps == 60 else 1)
        monkeypatch.undo()
    kept, half = (
        lra_encoder.FILE.load(bench.runs / name / "model.safetensors").state_dict()
        for name in ("constant", "half")
    )
    assert all(torch.equal(kept[key], half[key]) for key in kept)


def test_pairs_and_images(bench: Bench) -> None:
    done = bench.run("pairs", "retrieval", steps=8, evaluations=1)
    assert {"insertion_acc_frac", "deletion_acc_frac"} < set(done["metrics"])
    done = bench.run("image", "image", steps=8, evaluations=1, attention="linformer", arguments={"rank": 8})
    assert "insertion_acc_frac" not in done["metrics"]
    rows = bench.rows("image", "predictions.csv")
    assert {row["insertion"] for row in rows} == {""} and len({row["label"] for row in rows}) == 10
    assert lra_encoder.FILE.load(bench.runs / "image/model.safetensors").description["padding"] is None


def test_batches_are_the_same_for_every_attention(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[list[int]]] = []
    real = SequenceBatches.batch

    def watched(self, rows):  # type: ignore[no-untyped-def]
        if self.whole:
            seen[-1].append(rows.tolist())
        return real(self, rows)

    monkeypatch.setattr(SequenceBatches, "batch", watched)
    for name, attention, seed in (("p0", "full", 0), ("p1", "linformer", 0), ("p2", "full", 1)):
        seen.append([])
        arguments = {"rank": 4} if attention == "linformer" else {}
        bench.run(name, steps=5, evaluations=1, attention=attention, arguments=arguments, seed=seed)
    assert seen[0][:5] == seen[1][:5] != seen[2][:5]


def test_a_killed_run_goes_on_where_it_was(bench: Bench) -> None:
    whole, again = bench.run("whole", steps=120), bench.runs / "resumed"
    at_50 = lambda _, state: state["steps"] == 50  # noqa: E731
    timed = ("step_s", "load_s", "data_share_frac")
    check_resumes(lambda: bench.run("resumed", steps=120), again, whole, at_50, timed)


def test_a_run_that_diverges_keeps_its_start(bench: Bench) -> None:
    done = bench.run("diverged", lr=1.0e30, warmup_steps=0, schedule="constant")
    assert done["outcome"] == "diverged" and done["outcome_step"] >= 1
    assert 0 <= done["metrics"]["acc_frac"] <= 1
    net = lra_encoder.FILE.load(bench.runs / "diverged/model.safetensors")
    assert all(one.isfinite().all() for one in net.state_dict().values())


def test_a_run_that_learns_nothing_says_so(bench: Bench) -> None:
    done = bench.run("nothing", "retrieval", lr=1.0e-9, steps=6, evaluations=1)
    assert done["outcome"] == "not_converged"


def test_learned_compares_with_constant_answers() -> None:
    trained = torch.tensor([0] * 80 + [1] * 20)
    entropy = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))
    tested = torch.tensor([0] * 75 + [1] * 25)
    assert not understand.learned(0.99 * entropy, 0.75, trained, tested)
    assert understand.learned(0.97 * entropy, 0.75, trained, tested)
    assert understand.learned(0.99 * entropy, 0.85, trained, tested)
    assert not understand.learned(0.99 * entropy, 0.83, trained, tested)


def logits_of(attention: str, length: int, padding: int | None = 0) -> torch.Tensor:
    torch.manual_seed(0)
    arguments = {"window": 4, "rank": 3} if attention == "long_short_best" else {}
    sizes = {"vocabulary": 9, "classes": 3, "max_length": 160, "dim": 16, "heads": 2, "ffn": 16}
    net = create(attention, **sizes, padding=padding, attention_arguments=arguments).double().eval()
    tokens = torch.randint(1, 9, (3, 160), generator=torch.Generator().manual_seed(1))
    for row, end in enumerate((41, 90, 17)):
        tokens[row, end:] = 0
    torch.manual_seed(2)  # some draw in forward
    with torch.no_grad():
        return net(tokens[:, :length])


@pytest.mark.parametrize("attention", KINDS)
def test_trimming_changes_nothing(attention: str) -> None:
    torch.testing.assert_close(logits_of(attention, 90), logits_of(attention, 160), rtol=1e-9, atol=1e-9)


def test_trimming_what_is_no_padding_changes_much() -> None:
    """The control: where 0 is a token like others."""
    assert (logits_of("linear", 90, None) - logits_of("linear", 160, None)).abs().max() > 1e-4


def test_an_unknown_attention_is_refused(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run("flash", attention="flash", code=2)
    assert "attention: 'flash'" in capsys.readouterr().err.strip().splitlines()[-1]
