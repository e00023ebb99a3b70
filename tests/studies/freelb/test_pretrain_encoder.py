"""pretrain_encoder: an encoder of each family against its files, what is held out, resuming, divergence, bad input."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from relearn.data import imdb, pydoc_topics
from relearn.data.masked_batches import NONE, TokenBatches
from relearn.data.sentence_tokens import SentenceTokenizer
from relearn.data.sentence_vocabulary import train
from relearn.models import sentence_encoder_files as files
from relearn.models.sentence_encoder import FAMILIES, guesser
from relearn.runs import record
from relearn.steps.trained import recipe
from relearn.studies.freelb.steps import pretrain_encoder
from relearn.studies.freelb.steps.pretrain_encoder import Corpus

from ...steps.recorded import check_resumes
from .runs import ENCODER, PRETRAIN, Bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("pretrain_encoder"), "pretrain_encoder", PRETRAIN)
    for family in FAMILIES:
        bench.run(family, encoder={**ENCODER, "family": family})
    return bench


@pytest.mark.parametrize("family", FAMILIES)
def test_the_record_says_what_the_files_hold(bench: Bench, family: str) -> None:
    done, history = record.read(bench.runs / family), bench.rows(family, "history.csv")
    assert record.verify_outputs(done) == [] and done["outcome"] == "ok"
    assert set(done["outputs"]) == {"history.csv", "encoder.safetensors"}
    found = done["metrics"]
    tested = [float(row["valid_loss_nats"]) for row in history if row["valid_loss_nats"]]
    assert len(tested) == 2 and found["mlm_loss_nats"] == min(tested)
    assert found["mlm_loss_nats"] < found["mlm_loss_start_nats"] - 0.05
    assert found["mlm_loss_start_nats"] == pytest.approx(math.log(300), abs=0.4)
    assert found["train_loss_nats"] == float(history[-1]["loss"]) and int(float(history[-1]["step"])) == 20
    config, state, said = files.load_encoder(bench.runs / family / "encoder.safetensors")
    tokenizer = SentenceTokenizer.from_json(said["tokenizer"])
    assert tokenizer.family == family == config["model_type"] and said["kind"] == "encoder"
    assert config["vocab_size"] == len(tokenizer) <= 300
    head = {"roberta": 16 * 16 + 16 + 32, "bert": 16 * 16 + 16 + 32, "albert": 16 * 8 + 8 + 16}[family]
    assert found["parameters_count"] == sum(one.numel() for one in state.values()) + head + len(tokenizer)


def test_the_loss_is_of_the_kept_encoder(bench: Bench) -> None:
    """From the file, with the map to the vocabulary that the embeddings give; its bias is not kept, and near 0."""
    _, state, said = files.load_encoder(bench.runs / "roberta/encoder.safetensors")
    texts, _ = pretrain_encoder.corpus(Corpus(**PRETRAIN["corpus"]))
    tokenizer: Any = SentenceTokenizer.from_json(said["tokenizer"])
    assert tokenizer.to_json() == train("roberta", texts["train"], 300).to_json()
    rows = tokenizer.encode_texts(texts["valid"], 16)
    assert max(map(len, rows)) == 16
    batches = TokenBatches(
        rows, torch.zeros(len(rows)).long(), tokenizer, batch_size=16, hidden_frac=0.15, device="cpu"
    )
    torch.manual_seed(0)
    net = guesser(files.load_encoder(bench.runs / "roberta/encoder.safetensors")[0]).eval()
    net.net.base_model.load_state_dict(state)
    total = []
    with torch.no_grad():
        for given, targets in batches.in_order():
            total += cross_entropy(net(*given), targets[targets != NONE], reduction="none").tolist()
    found = record.read(bench.runs / "roberta")["metrics"]
    assert sum(total) / len(total) == pytest.approx(found["mlm_loss_nats"], abs=0.3)
    assert sum(total) / len(total) != found["mlm_loss_nats"]  # the head that trained with it is another one


def test_a_killed_run_goes_on_where_it_was(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "FEWEST_STEPS", 5)
    whole = record.read(bench.runs / "roberta")
    at_15 = lambda _, state: state["steps"] == 15  # noqa: E731
    check_resumes(lambda: bench.run("killed"), bench.runs / "killed", whole, at_15)


def test_what_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    own = pydoc_topics.load()
    texts, _ = pretrain_encoder.corpus(Corpus(dataset="pydoc_topics", samples=0))
    assert texts == {"train": own.train, "valid": own.valid}
    few, _ = pretrain_encoder.corpus(Corpus(dataset="pydoc_topics", samples=7))
    assert few["train"] == [own.train[place * len(own.train) // 7] for place in range(7)]
    reviews = {part: [f"{part} {number}" for number in range(120)] for part in ("train", "test")}

    def load(folder: Path | None) -> imdb.Imdb:
        return imdb.Imdb(**{part: imdb.Reviews(own, [0] * 120) for part, own in reviews.items()}, source={})

    monkeypatch.setattr(imdb, "load", load)
    texts, _ = pretrain_encoder.corpus(Corpus(dataset="imdb", samples=0))
    assert texts["valid"] == [f"{part} {number}" for part in reviews for number in (0, 50, 100)]
    assert sorted(texts["train"] + texts["valid"]) == sorted([*reviews["train"], *reviews["test"]])


def test_a_run_that_diverges_keeps_its_start(bench: Bench) -> None:
    done = bench.run("broken", lr=1.0e30, warmup_steps=0)
    assert done["outcome"] == "diverged" and "train_loss_nats" not in done["metrics"]
    assert done["metrics"]["mlm_loss_nats"] == done["metrics"]["mlm_loss_start_nats"]
    _, state, _ = files.load_encoder(bench.runs / "broken/encoder.safetensors")
    assert all(one.isfinite().all() for one in state.values())


def test_a_run_that_learns_nothing_says_so(bench: Bench) -> None:
    # a rate that overshoots at once
    done = bench.run("nothing", lr=3.0, steps=2, warmup_steps=0, evaluations=1)
    assert done["outcome"] == "not_converged"
    assert done["metrics"]["mlm_loss_nats"] == done["metrics"]["mlm_loss_start_nats"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"corpus": {"dataset": "ptb", "samples": 0}},
            "corpus.dataset: found 'ptb', allowed: imdb, pydoc_topics",
        ),
        ({"corpus": {"dataset": "pydoc_topics", "samples": -1}}, "corpus.samples: -1"),
        ({"encoder": {**ENCODER, "family": "xlnet"}}, "family: 'xlnet' (allowed: roberta, bert, albert)"),
        ({"encoder": {**ENCODER, "heads": 3}}, "encoder.heads: 3 (allowed: a divisor of dim, 16)"),
        ({"encoder": {**ENCODER, "vocabulary": 100}}, "vocabulary: 100 (allowed: at least 261"),
        ({"encoder": {**ENCODER, "max_length": 2}}, "max_length: 2 (allowed: at least 3"),
        ({"mask_frac": 0.0}, "mask_frac, mlm_probability in params.yaml): 0.0"),
    ],
)
def test_wrong_arguments_are_refused(
    bench: Bench, changes: dict, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.run(f"refused {said[:12]}", code=2, **changes)
    assert said in capsys.readouterr().err.strip().splitlines()[-1]
