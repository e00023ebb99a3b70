"""finetune: numbers of tiny runs against their files; methods side by side; resuming; what it starts from; kinds of answers."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.data.examples import Examples
from relearn.data.sentence_batches import SentenceBatches
from relearn.models import sentence_encoder_files as files
from relearn.models.sentence_encoder import classifier, guesser
from relearn.runs import record
from relearn.runs.settings import read as read_settings
from relearn.steps.trained import recipe
from relearn.studies.freelb.steps import finetune, finetune_start, sentence_files

from ...steps.recorded import check_resumes
from .runs import ENCODER, FINETUNE, PRETRAIN, Bench, tasks

TASKS = tasks()
BALL = {"passes": 2, "step_size": 0.2, "eps": 0.4, "start_norm": 0.2, "project": True, "mask": "always"}
METHODS: dict[str, dict[str, Any]] = {
    "vanilla": {"kind": "vanilla"},
    "pgd": {"kind": "pgd", **BALL, "reuse_masks": True},
    "free_at": {"kind": "free_at", **BALL},
    "freelb": {"kind": "freelb", **BALL, "reuse_masks": True, "clean_first": False},
    "yopo": {"kind": "yopo", **BALL, "reuse_masks": True, "inner": 2, "inner_step": "divided"},
}


@pytest.fixture(scope="module", autouse=True)
def own_tasks() -> Iterator[None]:
    """The tasks of these tests in place of the real ones."""

    def read(task: str, samples: dict[str, int], folder_of: Any) -> Any:
        if task not in TASKS:
            raise ValueError(f"task: {task!r} (allowed: {', '.join(TASKS)})")
        return TASKS[task]

    patch = pytest.MonkeyPatch()
    patch.setattr("relearn.data.text_tasks.read", read)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("finetune"), "finetune", FINETUNE)
    bench.run("run")
    return bench


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder made by pretrain_encoder."""
    made = Bench(tmp_path_factory.mktemp("encoder"), "pretrain_encoder", PRETRAIN)
    made.run("encoder", steps=3)
    return made.runs / "encoder/encoder.safetensors"


def settings(**changes: Any) -> finetune.Settings:
    found: finetune.Settings = read_settings(finetune.Settings, {**FINETUNE, **changes})
    return found


def metrics(bench: Bench, name: str) -> dict[str, float]:
    found: dict[str, float] = record.read(bench.runs / name)["metrics"]
    return found


def test_the_record_says_what_the_files_hold(bench: Bench) -> None:
    """The answers are those of the network in the file, which reads one text at a time; the scores are those of the answers."""
    done, history = record.read(bench.runs / "run"), bench.rows("run", "history.csv")
    assert record.verify_outputs(done) == [] and done["outcome"] == "ok"
    assert set(done["outputs"]) == {"history.csv", "answers.csv", "model.safetensors"}
    found, rows = done["metrics"], bench.rows("run", "answers.csv")
    tested = [float(row["dev_score_frac"]) for row in history if row["dev_score_frac"]]
    assert len(tested) == 4 and found["score_frac"] == max(tested) == found["dev_accuracy_frac"]
    assert found["last_score_frac"] == tested[-1] and found["majority_frac"] == 0.5
    assert found["train_loss_nats"] == float(history[-1]["loss"])
    assert found["passes_count"] == found["updates_count"] == int(float(history[-1]["step"])) == 40
    net, tokenizer = sentence_files.load(bench.runs / "run/model.safetensors")
    right = {"dev": 0, "test": 0}
    for part in right:
        own = [row for row in rows if row["part"] == part]
        examples = getattr(TASKS["warm"], part)
        assert [row["id"] for row in own] == examples.ids
        assert [int(row["label"]) for row in own] == examples.labels.tolist()
        for row, (ids, _) in zip(own, tokenizer.encode([one[0] for one in examples.rows], 12)):
            tokens = torch.from_numpy(ids).long()[None]
            with torch.no_grad():
                logits = net(tokens, torch.ones_like(tokens).bool())[0].tolist()
            assert [float(one) for one in row["logits"].split()] == pytest.approx(logits, abs=1e-5)
            right[part] += int(logits.index(max(logits)) == int(row["label"]))
        assert found[f"{part}_accuracy_frac"] == right[part] / len(own)
    assert found["parameters_count"] == sum(one.numel() for one in net.parameters())
    assert {"dev_f1_frac", "dev_mcc", "test_f1_frac", "test_mcc"} <= set(found)


def test_the_earliest_of_equals_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[float] = []
    real = files.save

    def watched(model: Any, path: Path, tokenizer: str) -> None:
        kept.append(model.net.classifier.out_proj.weight.sum().item())
        real(model, path, tokenizer)

    scores = iter([0.5, 0.75, 0.75, 0.6])
    monkeypatch.setattr(files, "save", watched)
    measured = finetune.measured
    monkeypatch.setattr(finetune, "measured", lambda *_: {"accuracy": next(scores, 0.7)})
    done = bench.run("earliest")
    monkeypatch.setattr(finetune, "measured", measured)
    assert len(kept) == 2 and done["metrics"]["last_score_frac"] == 0.6
    net, _ = files.load(bench.runs / "earliest/model.safetensors")
    assert net.net.classifier.out_proj.weight.sum().item() == kept[-1]


def test_methods_see_the_same_batches_and_start(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """FreeAT sees each of them as often as the others have passes; all cost the same but vanilla."""
    seen: dict[str, list[Any]] = {}
    starts: dict[str, Any] = {}
    real, fit = SentenceBatches.epoch, __import__("relearn.methods.fit", fromlist=["fit"])
    name = ""

    def watched(self: Any, generator: torch.Generator) -> Iterator[Any]:
        for batch in real(self, generator):
            seen.setdefault(name, []).append(batch[1])
            yield batch

    train = fit.fit

    def started(model: Any, source: Any, **more: Any) -> Any:
        starts[name] = [one.clone() for one in model.parameters()]
        rates[name] = []
        return train(model, source, **{**more, "log": lambda step, **row: rates[name].append(row["lr"])})

    rates: dict[str, list[float]] = {}
    monkeypatch.setattr(SentenceBatches, "epoch", watched)
    monkeypatch.setattr(fit, "fit", started)
    few = {"steps": 6, "warmup_steps": 2, "evaluations": 1}
    for method, own in METHODS.items():
        name = method
        found = bench.run(f"same_{method}", method=own, **few)["metrics"]
        assert found["passes_count"] == (6 if method == "vanilla" else 12)
        assert found["updates_count"] == (12 if method == "free_at" else 6)
        assert found["skipped_count"] == 0
    name = "other"
    bench.run("same_other", seed=1, **few)
    for method in METHODS:
        assert all(torch.equal(a, b) for a, b in zip(starts[method], starts["vanilla"], strict=True))
        assert all(torch.equal(a, b) for a, b in zip(seen[method], seen["vanilla"], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(seen["other"], seen["vanilla"]))
    assert not all(torch.equal(a, b) for a, b in zip(starts["other"], starts["vanilla"]))
    losses = {method: bench.rows(f"same_{method}", "history.csv")[-1]["loss"] for method in METHODS}
    assert len(set(losses.values())) == len(METHODS)  # each does something of its own
    assert len(rates["free_at"]) == 2 * len(rates["vanilla"]) == 12
    assert max(rates["free_at"]) == rates["free_at"][3] and max(rates["vanilla"]) == rates["vanilla"][1]


def test_a_ball_of_no_size_is_plain_training(bench: Bench) -> None:
    done = bench.run("point", method={**METHODS["freelb"], "eps": 0.0})
    assert done["outputs"] == record.read(bench.runs / "run")["outputs"]  # bit for bit


@pytest.mark.parametrize(
    ("method", "accumulate", "at"), [("vanilla", 1, 10), ("free_at", 2, 15), ("freelb", 1, 15)]
)
def test_a_killed_run_goes_on_where_it_was(
    bench: Bench, method: str, accumulate: int, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "FEWEST_STEPS", 5)
    own: dict[str, Any] = {"method": METHODS[method], "accumulate": accumulate, "steps": 20, "evaluations": 2}
    whole = bench.run(f"whole_{method}", **own)
    out = bench.runs / f"killed_{method}"
    check_resumes(lambda: bench.run(out.name, **own), out, whole, lambda _, state: state["steps"] == at)


def test_training_does_not_notice_evaluations(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[list[torch.Tensor]] = []
    fit = __import__("relearn.methods.fit", fromlist=["fit"])
    train = fit.fit

    def watched(model: Any, source: Any, **more: Any) -> Any:
        fitted = train(model, source, **more)
        ends.append([one.detach().clone() for one in model.parameters()])
        return fitted

    monkeypatch.setattr(fit, "fit", watched)
    for evaluations in (1, 5):
        bench.run(f"often{evaluations}", method=METHODS["freelb"], steps=10, evaluations=evaluations)
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


def test_shares_of_a_batch_are_the_batch(bench: Bench) -> None:
    """Without dropout the loss of every row is the same but for rounding."""
    dry = {"dropout": 0.0, "attention_dropout": 0.0, "steps": 5, "evaluations": 1}
    for name, method in (("plain", METHODS["vanilla"]), ("free", {**METHODS["freelb"], "start_norm": 0.0})):
        for count in (1, 4):
            bench.run(f"{name}{count}", method=method, accumulate=count, **dry)
        one, four = (
            [float(row["loss"]) for row in bench.rows(f"{name}{count}", "history.csv")] for count in (1, 4)
        )
        assert one == pytest.approx(four, abs=1e-4)


def test_regression_is_trained_and_scored(bench: Bench) -> None:
    done = bench.run("values", task="degree", steps=60)
    found, rows = done["metrics"], bench.rows("values", "answers.csv")
    assert done["outcome"] == "ok" and found["score_frac"] == found["dev_pearson"] > 0.5
    assert "majority_frac" not in found and "train_loss_nats" not in found
    assert found["train_squared_error"] < 2.8  # the spread of the values
    own = torch.tensor([[float(row["label"]), float(row["logits"])] for row in rows if row["part"] == "dev"])
    assert float(torch.corrcoef(own.double().T)[0, 1]) == pytest.approx(found["dev_pearson"], abs=1e-6)


def test_questions_with_candidates_are_trained_and_scored(bench: Bench) -> None:
    """Questions of two and three candidates, of which a softmax chooses one."""
    done = bench.run("choice", task="choice", method=METHODS["freelb"], steps=40)
    found, rows = done["metrics"], bench.rows("choice", "answers.csv")
    assert done["outcome"] == "ok" and found["score_frac"] == found["dev_accuracy_frac"]
    logits = [[float(one) for one in row["logits"].split()] for row in rows if row["part"] == "dev"]
    assert [len(one) for one in logits] == [2 + place % 2 for place in range(40)]
    labels = TASKS["choice"].dev.labels.tolist()
    assert found["dev_accuracy_frac"] == sum(one.index(max(one)) == y for one, y in zip(logits, labels)) / 40
    assert found["majority_frac"] == max(labels.count(0), labels.count(1), 40 * (1 / 2 + 1 / 3) / 2) / 40


def test_an_encoder_made_before(bench: Bench, encoder: Path) -> None:
    """Its weights and its tokenizer; with a rate of nearly 0 they are what the kept network has."""
    still = {
        "lr": 1e-12,
        "steps": 1,
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "evaluations": 1,
        "dropout": 0.3,
    }
    bench.run("taken", inputs={"encoder": [encoder]}, **still)
    _, state, said = files.load_encoder(encoder)
    net, tokenizer = sentence_files.load(bench.runs / "taken/model.safetensors")
    taken = net.net.base_model.state_dict()
    assert all(torch.allclose(taken[name], one, atol=1e-9) for name, one in state.items())
    assert tokenizer.to_json() == said["tokenizer"] and net.net.config.hidden_dropout_prob == 0.3
    drawn = sentence_files.load(bench.runs / "run/model.safetensors")[1]
    assert drawn.to_json() != said["tokenizer"]  # without one it learns its own


def test_another_tasks_network(bench: Bench) -> None:
    """The head is kept for the same kind and number of classes and newly initialised for others; the encoder is kept."""
    first = bench.runs / "run/model.safetensors"
    still = {"lr": 1e-12, "steps": 1, "warmup_steps": 0, "weight_decay": 0.0, "evaluations": 1}
    own = files.load(first)[0].net.state_dict()
    for task, kept in (("again", True), ("three", False), ("degree", False)):
        bench.run(f"from_{task}", inputs={"start": [first]}, task=task, **still)
        net = files.load(bench.runs / f"from_{task}/model.safetensors")[0].net.state_dict()
        same = {
            name
            for name, one in net.items()
            if one.shape == own[name].shape and (one - own[name]).abs().max() < 1e-8
        }
        assert {name for name in own if name.startswith("roberta.")} <= same
        assert ("classifier.dense.weight" in same) == kept
    assert "test_accuracy_frac" not in metrics(bench, "from_again")
    assert metrics(bench, "from_again")["score_frac"] == metrics(bench, "from_again")["dev_mcc"]
    assert {row["label"] for row in bench.rows("from_again", "answers.csv") if row["part"] == "test"} == {""}
    assert "dev_f1_frac" not in metrics(bench, "from_three")


def test_training_on_several_tasks(bench: Bench) -> None:
    joined = finetune_start.read(settings(with_tasks=["again"]))
    assert (
        len(joined.train) == 240 and joined.train.ids[0] == "warm:a0" and joined.train.ids[-1] == "again:a119"
    )
    assert joined.train.rows == TASKS["warm"].train.rows + TASKS["again"].train.rows
    assert joined.train.labels is not None
    assert joined.train.labels.tolist() == 2 * TASKS["warm"].train.labels.tolist()
    assert joined.dev is TASKS["warm"].dev and set(joined.source) == {"warm", "again"}
    assert bench.run("several", with_tasks=["again"])["outcome"] == "ok"


def test_a_data_set_that_nobody_can_get_is_named_and_stops_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regents' file of questions is not public."""
    from relearn.data import text_tasks
    from relearn.data.choices import regents

    read = text_tasks.read

    def without(task: str, *rest: Any) -> Any:
        return regents.load(None) if task == "regents" else read(task, *rest)

    monkeypatch.setattr(text_tasks, "read", without)
    found = bench.run("without", with_tasks=["again", "regents"])
    assert found["outcome"] == "ok" and found["metrics"]["missing_tasks_count"] == 1
    assert "with_tasks: regents is missing; trained without it" in found["notes"]
    joined = finetune_start.read(settings(with_tasks=["regents"]))
    assert len(joined.train) == len(TASKS["warm"].train)
    assert finetune_start.missing(joined) == ["regents"] and not finetune_start.missing(TASKS["warm"])
    bench.run("alone", code=2, task="regents")  # as a task of its own it is needed


def test_what_the_kept_network_answers(bench: Bench) -> None:
    """Dev first, the test part, those of other genres, and of other tasks the test part, never dev; empty ones are left out."""
    warm, again = TASKS["warm"], TASKS["again"]
    other = dataclasses.replace(warm, further={"dev_mismatched": TASKS["three"].dev})
    found = finetune_start.answered(settings(answered=["again"]), other)
    assert list(found) == ["dev", "test", "dev_mismatched", "again"]
    wanted = (warm.dev, warm.test, TASKS["three"].dev, again.test)
    assert all(one is part for one, part in zip(found.values(), wanted, strict=True))
    bare = dataclasses.replace(warm, test=Examples([], None, []))
    assert list(finetune_start.answered(settings(), bare)) == ["dev"]

    bench.run("answers", answered=["again"], steps=2, evaluations=1)
    rows = [row for row in bench.rows("answers", "answers.csv") if row["part"] == "again"]
    assert [row["id"] for row in rows] == again.test.ids and {row["label"] for row in rows} == {""}
    net, tokenizer = sentence_files.load(bench.runs / "answers/model.safetensors")
    for row, (ids, _) in zip(rows, tokenizer.encode([one[0] for one in again.test.rows], 12), strict=True):
        tokens = torch.from_numpy(ids).long()[None]
        with torch.no_grad():
            logits = net(tokens, torch.ones_like(tokens).bool())[0].tolist()
        assert [float(one) for one in row["logits"].split()] == pytest.approx(logits, abs=1e-5)


def test_every_share_of_a_batch_has_its_own_strategy() -> None:
    """FreeAT carries a share's δ: one strategy for all would hand it to the next share."""
    made = finetune_start.gradient(settings(method=METHODS["free_at"], accumulate=4))
    assert len({id(one) for one in made.strategies}) == 4
    assert all(one == made.strategies[0] and one.step_size == 0.2 for one in made.strategies)


def test_a_run_that_diverges_keeps_its_start(bench: Bench) -> None:
    done = bench.run("broken", lr=1.0e30, warmup_steps=0)
    assert done["outcome"] == "diverged" and 0 <= done["metrics"]["score_frac"] <= 1
    assert not {"train_loss_nats", "last_score_frac", "step_s"} & set(done["metrics"])
    net, _ = files.load(bench.runs / "broken/model.safetensors")
    assert all(one.isfinite().all() for one in net.state_dict().values())


def test_a_run_that_learns_nothing_says_so(bench: Bench) -> None:
    assert bench.run("nothing", lr=1.0e-9, steps=2, evaluations=1)["outcome"] == "not_converged"


@pytest.fixture(scope="module")
def folder(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as a hub's: weights, configuration and tokenizer.json."""
    path: Path = tmp_path_factory.mktemp("checkpoint")
    net, tokenizer = sentence_files.load(bench.runs / "run/model.safetensors")
    torch.manual_seed(5)
    config = files.load_encoder(bench.runs / "run/model.safetensors")[0]
    guesser({**config, "vocab_size": len(tokenizer)}).net.save_pretrained(path)
    (path / "tokenizer.json").write_text(tokenizer.to_json())
    (path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert net.longest == 16
    return path


def test_an_encoder_of_a_checkpoint_is_fine_tuned(bench: Bench, folder: Path) -> None:
    done = bench.run("checkpoint", encoder={**ENCODER, "checkpoint": str(folder)}, attention_dropout=None)
    assert done["outcome"] == "ok"
    net, _ = files.load(bench.runs / "checkpoint/model.safetensors")
    assert net.net.config.attention_probs_dropout_prob == 0.1  # its own


def test_a_tokenizer_of_another_model(
    bench: Bench, folder: Path, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, _, said = files.load_encoder(encoder)
    net = classifier({**config, "vocab_size": 40}, "classification", 2)
    files.save(net, tmp_path / "small", said["tokenizer"])
    bench.run("small", inputs={"start": [tmp_path / "small"]}, code=2)
    assert "tokens, the model embeds 40" in capsys.readouterr().err.strip().splitlines()[-1]
    with pytest.raises(ValueError, match="tokens, the model embeds 40"):
        sentence_files.load(tmp_path / "small")
    net.net.save_pretrained(tmp_path / "folder")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "folder" / name).write_text((folder / name).read_text())
    bench.run("other", encoder={**ENCODER, "checkpoint": str(tmp_path / "folder")}, code=2)
    assert "tokens, the model embeds 40" in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"method": {"kind": "fgsm"}},
            "method.kind: found 'fgsm', allowed: vanilla, pgd, free_at, freelb, yopo",
        ),
        ({"method": {**METHODS["freelb"], "passes": 0}}, "passes: found 0 (allowed: a whole number, 1"),
        ({"method": {**METHODS["freelb"], "radius": 1}}, "the key method.radius is unknown"),
        ({"method": {"kind": "vanilla", "passes": 2}}, "the key method.passes is unknown"),
        ({"method": {**METHODS["freelb"], "step_size": -1.0}}, "step_size: "),
        ({"steps": 0}, "steps: 0 (allowed: at least 1)"),
        ({"accumulate": 3}, "accumulate: 3 (allowed: a divisor of batch_size, 16)"),
        ({"task": "sums"}, "task: 'sums' (allowed: warm"),
        (
            {"with_tasks": ["three"]},
            "with_tasks: three, classification of 3 (allowed: classification of 2, as warm)",
        ),
        ({"with_tasks": ["degree"]}, "with_tasks: degree, regression of 1"),
        (
            {"answered": ["three"]},
            "answered: three, classification of 3 (allowed: classification of 2, as warm)",
        ),
        ({"max_length": 17}, "max_length: 17 (allowed: at most 16, as the encoder reads)"),
        ({"encoder": {**ENCODER, "family": "gpt"}}, "family: 'gpt' (allowed: roberta, bert, albert)"),
        ({"encoder": {**ENCODER, "checkpoint": "./nowhere"}}, "encoder.checkpoint: ./nowhere: "),
        ({"dropout": 1.5}, "dropout: 1.5 (allowed: 0 <= rate < 1)"),
    ],
)
def test_wrong_arguments_are_refused(
    bench: Bench, changes: dict, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.run("refused", code=2, **changes)
    assert said in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_family_that_the_encoder_is_not(
    bench: Bench, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.run("family", encoder={**ENCODER, "family": "bert"}, inputs={"encoder": [encoder]}, code=2)
    assert "encoder.family: 'bert' (allowed: roberta, as the model is)" in capsys.readouterr().err
    assert math.isfinite(metrics(bench, "run")["step_s"])
