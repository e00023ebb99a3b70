"""`train_translation`: numbers and translations of one tiny run from corpus to record, resuming, divergence, and wrong inputs."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.data.corpus import load_corpus
from relearn.measures.bleu import corpus_bleu
from relearn.methods.beam_search import beam_search
from relearn.models import post_ln_transformer
from relearn.models.post_ln_transformer import PostLNTransformer
from relearn.runs import record
from relearn.runs.settings import read
from relearn.studies.gradinit.steps import train_translation as translate

from ...steps.recorded import by_command, check_resumes, rows_of

CORPUS = {
    "dataset": "number_words",
    "vocabulary": 100,
    "max_length": 40,
    "train_pairs": 400,
    "test_pairs": 12,
}
SETTINGS = {
    "optimizer": "adam",
    "lr": 5.0e-3,
    "betas": [0.9, 0.98],
    "weight_decay": 1.0e-4,
    "clip_norm": None,
    "schedule": "linear",
    "steps": 60,
    "schedule_steps": 60,
    "warmup_steps": 6,
    "max_tokens": 600,
    "label_smoothing": 0.1,
    "evaluations": 2,
    "beam": 2,
    "length_penalty": 1.0,
    "factor": 1.2,
    "extra": 10,
    "test_pairs": 12,
}
LABELS = {"task": "translation", "network": "post_ln", "initialisation": "xavier", "recipe": "adam"}


class Bench:
    """Runs of the step in one folder."""

    def __init__(self, root: Path) -> None:
        self.runs = root / "results/mini/runs/gradinit"
        self.corpus = self.runs / "corpus/corpus.safetensors"
        self.start = root / "start.safetensors"

    def step(self, step: str, name: str, settings: dict, **inputs: Any) -> dict:
        return by_command("gradinit", step, self.runs / name, settings, LABELS, **inputs)

    def train(self, name: str, **changes: object) -> dict:
        settings = {**SETTINGS, **changes}
        return self.step("train_translation", name, settings, corpus=self.corpus, start=self.start)

    def history(self, name: str) -> list[dict[str, str]]:
        return rows_of(self.runs / name / "history.csv")

    def hypotheses(self, name: str) -> list[str]:
        return (self.runs / name / "hypotheses.txt").read_text().split("\n")[:-1]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("translate"))
    bench.step("prepare_translation", "corpus", CORPUS)
    torch.manual_seed(0)
    net = PostLNTransformer(
        load_corpus(bench.corpus).vocabulary,
        dim=32,
        ffn=48,
        heads=2,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.1,
    )
    post_ln_transformer.FILE.save(net, bench.start)
    bench.train("run")
    return bench


def test_the_rate_is_the_best_of_the_trainings_that_tried_some(bench: Bench, tmp_path: Path) -> None:
    tried = []
    for lr, loss in ((1e-3, 0.3), (1e-2, 0.2)):
        path = tmp_path / f"{lr}.json"
        path.write_text(json.dumps({"labels": {"tried": f"lr{lr}"}, "metrics": {"valid_loss_nats": loss}}))
        tried.append(path)
    few = {"steps": 4, "schedule_steps": 4, "warmup_steps": 0, "evaluations": 1, "test_pairs": 2}
    fixed = bench.train("fixed", **few, lr=1e-2)
    inputs = {"corpus": bench.corpus, "start": bench.start, "tried": tried}
    found = bench.step("train_translation", "tried", {**SETTINGS, **few}, **inputs)
    assert bench.history("tried") == bench.history("fixed")
    assert found["metrics"] == fixed["metrics"] | {"lr": 1e-2}


def test_the_record_says_what_the_files_hold(bench: Bench) -> None:
    done = record.read(bench.runs / "run")
    assert record.verify_outputs(done) == []
    metrics, rows, texts = done["metrics"], bench.history("run"), bench.hypotheses("run")
    references = load_corpus(bench.corpus).texts("test")
    assert len(texts) == len(references) == 12
    assert metrics["bleu_best"] == corpus_bleu(texts, references).score
    measured = [float(row["bleu"]) for row in rows if row["bleu"]]
    assert len(measured) == SETTINGS["evaluations"]
    assert metrics["bleu_best"] == max(measured) and metrics["bleu_final"] == measured[-1]
    assert list(rows[0]) == ["epoch", "step", "loss", "lr", "valid_loss", "bleu"]
    assert float(rows[-1]["step"]) == metrics["steps_count"] == 60
    assert float(rows[-1]["loss"]) == metrics["train_loss_nats"]
    assert any("tok:13a" in note and "first 12 test pairs" in note for note in done["notes"])


def test_it_learns(bench: Bench) -> None:
    metrics, uniform = (
        record.read(bench.runs / "run")["metrics"],
        math.log(load_corpus(bench.corpus).vocabulary),
    )
    losses = [float(row["loss"]) for row in bench.history("run")]
    assert losses[-1] < 0.6 * losses[0]
    assert metrics["valid_loss_nats"] < 0.6 * uniform


def test_the_learning_rate_warms_up_and_ends_at_nought(bench: Bench) -> None:
    rates = {float(row["step"]): float(row["lr"]) for row in bench.history("run")}
    assert rates[6.0] == pytest.approx(SETTINGS["lr"])
    assert rates[60.0] == pytest.approx(SETTINGS["lr"] / 54)  # the last step's; the one after it would be 0


def test_validation_loss_is_the_mean_over_tokens_pair_by_pair(bench: Bench) -> None:
    corpus, net = load_corpus(bench.corpus), post_ln_transformer.FILE.load(bench.start)
    total, count = 0.0, 0
    for source, target in corpus.pairs("valid"):
        source_ids, target_in = [*source.tolist(), 2], [1, *target.tolist()]
        with torch.no_grad():
            steps = net(torch.tensor([source_ids]), torch.tensor([target_in])).double().log_softmax(-1)[0]
        for t, word in enumerate([*target.tolist(), 2]):
            total, count = total - float(steps[t, word]), count + 1
    with torch.no_grad():
        found = translate.validation_loss(net, translate.whole(corpus, "valid", 100, "cpu"))
    assert found == pytest.approx(total / count, rel=1e-5)


def test_translations_stand_at_their_sentence(bench: Bench) -> None:
    corpus, net = load_corpus(bench.corpus), post_ln_transformer.FILE.load(bench.start)
    settings = read(translate.Settings, {**SETTINGS, "max_tokens": 60})
    found = translate.translations(net, corpus, 7, settings, "cpu", "fp32")
    for text, (source, _) in zip(found, list(corpus.pairs("test"))[:7], strict=True):
        ids = torch.tensor([[*source.tolist(), 2]])
        alone = beam_search(net, ids, beam=2, max_length=(1.2, 10))[0]
        assert text == corpus.decode(alone.tokens)


def test_a_killed_job_resumes_and_ends_the_same(bench: Bench) -> None:
    whole = record.read(bench.runs / "run")
    at_50 = lambda _, state: state["steps"] == 50  # noqa: E731
    check_resumes(lambda: bench.train("again"), bench.runs / "again", whole, at_50, ())


def test_divergence_is_a_result_with_its_step(bench: Bench) -> None:
    done = bench.train("diverged", optimizer="sgd", lr=1.0e12, warmup_steps=0)
    assert done["outcome"] == "diverged" and 1 < done["outcome_step"] <= 60
    assert done["metrics"]["bleu_best"] == done["metrics"]["bleu_final"] == 0
    assert bench.hypotheses("diverged") == [""] * 12


def test_a_network_for_another_vocabulary_is_refused(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    net = PostLNTransformer(50, dim=8, ffn=8, heads=2, encoder_layers=1, decoder_layers=1)
    post_ln_transformer.FILE.save(net, other)
    inputs = {"corpus": [bench.corpus], "start": [other]}
    with pytest.raises(ValueError, match=r"other.safetensors: a network of 50 units \(allowed: 100"):
        translate.run(None, read(translate.Settings, SETTINGS), inputs, "cpu", "fp32")
