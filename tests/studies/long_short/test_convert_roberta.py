"""convert_roberta: numbers of tiny runs against their files; stages; pairing; resuming; checkpoints; divergence; bad input."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from relearn.data.masked_batches import NONE, TokenBatches
from relearn.models import long_short_roberta_files as files
from relearn.models.roberta_calls import Classes, Guesses
from relearn.runs import record
from relearn.runs.settings import read
from relearn.steps.trained import masked_tokens, recipe
from relearn.studies.long_short.steps import convert_roberta, convert_start
from relearn.torchvision_schema import transformers

from ...steps.recorded import by_command, killed, rows_of

STAGE = {"steps": 20, "warmup_steps": 2, "batch_size": 8, "lr": 3.0e-3, "weight_decay": 0.01}
SETTINGS: dict[str, Any] = {
    "attention": "long_short",
    "dataset": "python",
    "train_samples": 120,
    "valid_samples": 30,
    "test_samples": 40,
    "max_bytes": 100,
    "checkpoint": None,
    "config": {
        "layers": 1,
        "dim": 16,
        "heads": 2,
        "ffn": 16,
        "dropout": 0.1,
        "vocabulary": 300,
        "max_length": 12,
    },
    "max_length": 24,
    "window": 4,
    "rank": 2,
    "mask_frac": 0.15,
    "pretrain": STAGE,
    "convert_pretrain": {**STAGE, "steps": 6},
    "finetune": {**STAGE, "steps": 60, "batch_size": 16, "lr": 5.0e-3},
    "betas": [0.9, 0.98],
    "adam_eps": 1.0e-6,
    "schedule": "linear",
    "clip_norm": None,
    "evaluations": 3,
}
OWN = read(convert_roberta.Settings, SETTINGS)
FULL = {"attention": "full", "convert_pretrain": None, "max_length": None, "window": None, "rank": None}


class Bench:
    """Runs of the step in one folder."""

    def __init__(self, root: Path) -> None:
        self.runs = root / "results/mini/runs/long_short/convert_roberta"

    def run(self, name: str, *, seed: int = 0, code: int = 0, **changes: Any) -> dict[str, Any]:
        settings = {**copy.deepcopy(SETTINGS), **changes}
        return by_command("long_short", "convert_roberta", self.runs / name, settings, seed=seed, code=code)

    def rows(self, name: str, file: str) -> list[dict[str, str]]:
        return rows_of(self.runs / name / file)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("convert_roberta"))
    bench.run("run")
    bench.run("full", **FULL)
    return bench


def metrics(bench: Bench, name: str) -> dict[str, float]:
    found: dict[str, float] = record.read(bench.runs / name)["metrics"]
    return found


def test_the_record_says_what_the_files_hold(bench: Bench) -> None:
    done, history, rows = (
        record.read(bench.runs / "run"),
        bench.rows("run", "history.csv"),
        bench.rows("run", "predictions.csv"),
    )
    assert record.verify_outputs(done) == []
    assert set(done["outputs"]) == {"history.csv", "predictions.csv", "model.safetensors"}
    assert tuple(history[0]) == convert_roberta.HISTORY and len(rows) == 40
    found = done["metrics"]
    learned = convert_roberta.better(found, found["most_frequent_frac"], 40)
    assert done["outcome"] == ("ok" if learned else "not_converged")
    assert found["acc_frac"] == sum(row["label"] == row["predicted"] for row in rows) / 40
    tested = [float(row["dev_accuracy_frac"]) for row in history if row["dev_accuracy_frac"]]
    assert len(tested) == 3 and found["dev_acc_frac"] == max(tested)
    assert {row["stage"] for row in history if row["dev_accuracy_frac"]} == {"finetune"}
    ends = {row["stage"]: int(float(row["step"])) for row in history}
    assert ends == {"pretrain": 20, "convert_pretrain": 6, "finetune": 60}
    assert found["steps_count"] == 86 and found["most_frequent_frac"] == 0.5
    assert found["train_loss_nats"] == float(history[-1]["loss"])
    assert found["tokens_longest_count"] == 24


def test_what_each_stage_did(bench: Bench) -> None:
    """Both variants are the same up to the conversion; only one is converted, and goes on."""
    long, full = metrics(bench, "run"), metrics(bench, "full")
    for key in ("mlm_loss_start_nats", "mlm_loss_pretrained_nats"):
        assert long[key] == full[key]
    assert long["mlm_loss_pretrained_nats"] < long["mlm_loss_start_nats"] - 0.05
    assert long["mlm_loss_start_nats"] == pytest.approx(math.log(300), abs=0.4)
    assert full["mlm_loss_nats"] == full["mlm_loss_pretrained_nats"]
    assert "mlm_loss_converted_nats" not in full
    assert len({long[f"mlm_loss_{key}nats"] for key in ("", "converted_", "pretrained_")}) == 3
    before, after = (bench.rows(name, "history.csv") for name in ("full", "run"))
    part = [row for row in before if row["stage"] == "pretrain"]
    assert part == [row for row in after if row["stage"] == "pretrain"]
    assert {row["stage"] for row in before} == {"pretrain", "finetune"}
    # a score of 16 to 2 x 2 and two norms of 8, weight and bias, and 12 positions of 16
    assert long["parameters_count"] - full["parameters_count"] == 16 * 4 + 2 * 2 * 8 + 12 * 16


def test_the_file_is_the_network_that_was_tested(bench: Bench) -> None:
    """One text at a time, without padding."""
    texts, _ = convert_start.read(OWN)
    _, tokenizer = convert_start.start(OWN, texts["train"][0])
    for name, longest in (("run", 24), ("full", 12)):
        net = Classes(files.load(bench.runs / name / "model.safetensors"))
        for text, row in zip(
            tokenizer.encode(texts["test"][0], longest), bench.rows(name, "predictions.csv")
        ):
            tokens = torch.from_numpy(text).long()[None]
            assert int(net(tokens, torch.ones_like(tokens).bool()).argmax()) == int(row["predicted"])
    assert texts["test"][1] == [int(row["label"]) for row in bench.rows("run", "predictions.csv")]


def test_losses_are_of_hidden_tokens_and_alone() -> None:
    """A part's loss from whole logits, one sequence at a time."""
    texts, _ = convert_start.read(OWN)
    net, tokenizer = convert_start.start(OWN, texts["train"][0])
    net.eval()
    part = convert_start.token_batches(texts["valid"], tokenizer, 12, 8, 0.15, "cpu")
    total: list[float] = []
    for (tokens, real, _), targets in part.in_order():
        for row, seen, wanted in zip(tokens, real, targets):
            end = int(seen.sum())
            with torch.no_grad():
                logits = net(row[None, :end]).logits[0]
            for place in (wanted[:end] != NONE).nonzero().flatten().tolist():
                total.append(float(-logits[place].log_softmax(-1)[wanted[place]]))
    assert masked_tokens.guess_loss(Guesses(net), part, "fp32") == pytest.approx(
        sum(total) / len(total), rel=1e-5
    )


def test_errors_and_terms() -> None:
    logits, targets = torch.randn(3, 7), torch.tensor([[NONE, 4, NONE], [6, NONE, 0]])
    assert masked_tokens.guess_error(logits, targets) == cross_entropy(logits, torch.tensor([4, 6, 0]))
    assert int(masked_tokens.terms(targets)) == 3
    assert masked_tokens.guess_error(logits.half(), targets).dtype == torch.float32


def test_batches_are_the_same_for_both(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Any]] = []
    real = TokenBatches.epoch

    def watched(self, generator):  # type: ignore[no-untyped-def]
        for batch in real(self, generator):
            seen[-1].append(batch)
            yield batch

    monkeypatch.setattr(TokenBatches, "epoch", watched)
    few = {"pretrain": {**STAGE, "steps": 3}, "finetune": {**STAGE, "steps": 3}, "evaluations": 1}
    none = {**STAGE, "steps": 0, "warmup_steps": 0}
    for name, seed, more in (("b0", 0, FULL), ("b1", 0, {"convert_pretrain": none}), ("b2", 1, FULL)):
        seen.append([])
        bench.run(name, seed=seed, **{**few, **more})
    full, long, other = seen
    assert all(torch.equal(a[1], b[1]) for a, b in zip(full[:3], long[:3]))  # hidden tokens
    assert all(torch.equal(a[1], b[1]) for a, b in zip(full[-3:], long[-3:]))  # labels
    assert any(a[1].shape != b[1].shape or not torch.equal(a[1], b[1]) for a, b in zip(full, other))
    found = metrics(bench, "b1")
    assert found["mlm_loss_nats"] == found["mlm_loss_converted_nats"]


@pytest.mark.parametrize(("stage", "at"), [("pretrain", 10), ("convert_pretrain", 5), ("finetune", 48)])
def test_a_killed_run_goes_on_where_it_was(
    bench: Bench, stage: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"killed_{stage}"
    with (
        monkeypatch.context() as patched,
        killed(lambda one, state: one.folder.name == stage and state["steps"] == at),
    ):
        patched.setattr(recipe, "FEWEST_STEPS", 5)
        bench.run(name, code=130)
    assert not (bench.runs / name / "record.json").exists()
    resumed = bench.run(name)
    whole = record.read(bench.runs / "run")
    assert {**resumed["metrics"], "step_s": 0} == {**whole["metrics"], "step_s": 0}
    assert resumed["outputs"] == whole["outputs"]  # bit for bit


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as a hub's: weights, configuration and tokenizer.json."""
    path = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(3)
    net, tokenizer = convert_start.start(OWN, convert_start.read(OWN)[0]["train"][0])
    net.save_pretrained(path)
    (path / "tokenizer.json").write_text(tokenizer.to_json())
    return path


def test_a_checkpoint_is_converted_and_not_pretrained(bench: Bench, folder: Path) -> None:
    done = bench.run("checkpoint", checkpoint=str(folder))
    found, stages = done["metrics"], {row["stage"] for row in bench.rows("checkpoint", "history.csv")}
    assert stages == {"convert_pretrain", "finetune"}
    assert found["mlm_loss_start_nats"] == found["mlm_loss_pretrained_nats"]
    own = transformers().RobertaForMaskedLM.from_pretrained(folder).state_dict()
    kept = files.load(bench.runs / "checkpoint/model.safetensors").state_dict()
    assert kept["roberta.embeddings.position_embeddings.weight"].shape == (26, 16)
    moved = (
        kept["roberta.embeddings.word_embeddings.weight"] - own["roberta.embeddings.word_embeddings.weight"]
    )
    assert 0 < moved.abs().max() < 66 * 0.02  # trained on, not anew


def test_a_folder_without_a_checkpoint_is_refused(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.run("none", checkpoint=str(tmp_path), code=2)
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert (
        line.startswith(f"relearn long_short convert_roberta: checkpoint: {tmp_path}: ")
        and "tokenizer.json" in line
    )


def test_a_run_that_diverges(bench: Bench) -> None:
    """Before fine-tuning there is nothing to test; in it the start is what was best."""
    broken = {**STAGE, "lr": 1.0e30, "warmup_steps": 0}
    early = bench.run("early", pretrain=broken)
    assert early["outcome"] == "diverged" and early["outcome_step"] >= 1
    assert not {"mlm_loss_nats", "dev_acc_frac", "train_loss_nats", "step_s"} & set(early["metrics"])
    late = bench.run("late", finetune=broken)
    assert late["outcome"] == "diverged" and 0 <= late["metrics"]["acc_frac"] <= 1
    net = files.load(bench.runs / "late/model.safetensors")
    assert all(one.isfinite().all() for one in net.state_dict().values())


def test_a_run_that_learns_nothing_says_so(bench: Bench) -> None:
    done = bench.run("nothing", **{**FULL, "finetune": {**STAGE, "steps": 2, "lr": 1.0e-9}, "evaluations": 1})
    assert done["outcome"] == "not_converged"


def test_a_run_that_learns_is_ok(bench: Bench) -> None:
    longer = {**STAGE, "steps": 200, "batch_size": 16, "lr": 1.0e-2}
    done = bench.run("learned", **{**FULL, "finetune": longer, "evaluations": 1})
    assert done["outcome"] == "ok" and done["metrics"]["train_loss_nats"] < 0.9 * math.log(2)


def test_better_compares_with_constant_answers() -> None:
    low, high = 0.97 * math.log(2), 0.99 * math.log(2)
    assert convert_roberta.better({"train_loss_nats": low, "acc_frac": 0.5}, 0.5, 100)
    assert not convert_roberta.better({"train_loss_nats": high, "acc_frac": 0.59}, 0.5, 100)
    assert convert_roberta.better({"train_loss_nats": high, "acc_frac": 0.61}, 0.5, 100)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention": "longformer"}, "attention: found 'longformer', allowed: full, long_short"),
        ({"finetune": None}, "finetune: found None, allowed: a mapping"),
        ({"pretrain": {"steps": 3}}, "the key pretrain.warmup_steps is missing; found in pretrain: steps"),
        ({"finetune": {**STAGE, "steps": 0}}, "finetune.steps, evaluations: less than 1"),
        ({"max_length": 24, "window": 0, "rank": 0}, "window and rank: both 0"),
        ({"rank": None}, "rank: found null, allowed: an integer, for long_short"),
    ],
)
def test_wrong_arguments_are_refused(
    bench: Bench, changes: dict, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = {"pretrain": {**STAGE, "steps": 1}, **changes}
    bench.run(f"refused {said[:8]}", code=2, **quick)
    assert said in capsys.readouterr().err.strip().splitlines()[-1]
