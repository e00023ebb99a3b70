"""evaluate-text: its numbers with a stand-in for TextAttack against brute force, what it refuses, and the real library if it is there."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from relearn import cli
from relearn.data import text_tasks
from relearn.data.examples import Examples
from relearn.data.sentence_batches import SentenceBatches
from relearn.report.statistics import wilson
from relearn.studies.freelb import text_attacks
from relearn.studies.freelb.steps.sentence_files import load

from .test_max_loss_increase import WORDS, network, sentences


class SuccessfulAttackResult(SimpleNamespace):
    pass


class FailedAttackResult(SimpleNamespace):
    pass


class UntargetedClassification(SimpleNamespace):
    query_budget = float("inf")


class ModelWrapper:
    pass


def _result(kind: type, text: Any) -> Any:
    return kind(perturbed_result=SimpleNamespace(attacked_text=SimpleNamespace(tokenizer_input=text)))


class OneWord:
    """The interface that is used, with an exhaustive search over single words."""

    def __init__(self, wrapper: Any) -> None:
        assert isinstance(wrapper, ModelWrapper)
        self.wrapper, self.cleared = wrapper, 0
        self.goal_function = UntargetedClassification()

    @classmethod
    def build(cls, wrapper: Any) -> OneWord:
        return cls(wrapper)

    def clear_cache(self) -> None:
        self.cleared += 1

    def attack(self, text: str, label: int) -> Any:
        for tried in neighbours(text):
            scores = self.wrapper([tried])
            assert scores.dtype == torch.float64 and abs(float(scores.sum()) - 1) < 1e-12
            if int(scores.argmax()) != label:
                return _result(SuccessfulAttackResult, tried)
        return _result(FailedAttackResult, text)


class Liar(OneWord):
    def attack(self, text: Any, label: int) -> Any:
        return _result(SuccessfulAttackResult, text if isinstance(text, str) else tuple(text.values()))


class OtherGoal(OneWord):
    def __init__(self, wrapper: Any) -> None:
        self.goal_function = SimpleNamespace()


class Downloads:
    @staticmethod
    def build(wrapper: Any) -> Any:
        raise ConnectionError("no\nnetwork")


def neighbours(text: str) -> list[str]:
    words = text.split()
    return [" ".join([*words[:i], other, *words[i + 1 :]]) for i in range(len(words)) for other in WORDS]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    names = (
        "textattack",
        "textattack.attack_recipes",
        "textattack.models",
        "textattack.models.wrappers",
        "nltk",
        "flair",
    )
    made = {name: ModuleType(name) for name in names}
    recipes = {"DeepWordBugGao2018": OneWord, "Liar": Liar, "OtherGoal": OtherGoal, "Downloads": Downloads}
    vars(made["textattack.attack_recipes"]).update(recipes)
    vars(made["textattack.models.wrappers"]).update(ModelWrapper=ModelWrapper)
    vars(made["nltk"]).update(data=SimpleNamespace(path=[]))
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made["textattack"]


@pytest.fixture(scope="module")
def part() -> Examples:
    return sentences(24)


@pytest.fixture(scope="module", params=["roberta", "bert"])
def file(request: pytest.FixtureRequest, part: Examples, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp(request.param) / "model.safetensors"
    network(path, part, request.param, seed=0, steps=25)
    return path


def answers(net: Any, tokenizer: Any, texts: list[str]) -> list[int]:
    """The predictions by the package's own batches, one text at a time."""
    one = [Examples([[(text, None)]], None, ["x"]) for text in texts]
    with torch.no_grad():
        given = [
            next(SentenceBatches(each, tokenizer, batch_size=1, longest=16).in_order())[0] for each in one
        ]
        return [int(net(*each).argmax()) for each in given]


def test_rates_are_those_of_brute_force(file: Path, part: Examples, library: Any) -> None:
    net, tokenizer = load(file)
    model = text_attacks.Probabilities(net, tokenizer, 16)
    attack = text_attacks.wrapped(library, "deepwordbug", model)
    rows = text_attacks.attack_all(model, part, attack)
    assert part.labels is not None
    for row, sample, label in zip(rows, part.rows, part.labels.tolist()):
        text = sample[0][0]
        if answers(net, tokenizer, [text]) != [label]:
            assert row["outcome"] == "skipped" and row["queries"] == 1 and row["perturbed"] is None
            continue
        tried = answers(net, tokenizer, neighbours(text))
        changed = [place for place, answer in enumerate(tried) if answer != label]
        assert row["outcome"] == ("success" if changed else "failed")
        # all that were asked; the last look of ours at the result does not count
        assert row["queries"] == (changed[0] + 1 if changed else len(tried))
        assert row["perturbed"] == (neighbours(text)[changed[0]] if changed else text)
    found = text_attacks.summary(rows)
    clean = {one for sample in part.rows for one in answers(net, tokenizer, [sample[0][0]])}
    assert found["answers_count"] == len(clean) == 2
    tried_count = sum(row["outcome"] != "skipped" for row in rows)
    won = sum(row["outcome"] == "success" for row in rows)
    assert 0 < won < tried_count <= 24 and attack.cleared == tried_count
    one = wilson(won, tried_count)
    assert [found[f"success{end}_frac"] for end in ("", "_low", "_high")] == [one.estimate, one.low, one.high]
    assert found["attacked_accuracy_frac"] == pytest.approx(
        found["clean_accuracy_frac"] * (1 - won / tried_count)
    )


def test_the_librarys_word_is_not_taken(file: Path, part: Examples, library: Any) -> None:
    model = text_attacks.Probabilities(*load(file), 16)
    rows = text_attacks.attack_all(model, part, text_attacks.wrapped(library, "Liar", model))
    found = text_attacks.summary(rows)
    assert found["success_frac"] == 0 and found["unconfirmed_count"] == found["attacked_count"] > 0


def test_probabilities_do_not_depend_on_the_batch(file: Path) -> None:
    """Padding, pairs and truncation included."""
    model = text_attacks.Probabilities(*load(file), 9)
    texts: list[Any] = ["sun", "sun rain wind snow fog hail dew ice " * 3, ("rain sun", "?"), ""]
    together = model(texts)
    alone = torch.cat([model([text]) for text in texts])
    assert torch.allclose(together, alone, atol=1e-6) and model.asked == 8
    assert not torch.allclose(together[0], together[2], atol=1e-6)


def test_a_recipe_that_cannot_be_built_says_so(file: Path, library: Any) -> None:
    model = text_attacks.Probabilities(*load(file), 16)
    with pytest.raises(ValueError, match=r"recipe: found Nobody, allowed: deepwordbug, pruthi, or a class"):
        text_attacks.wrapped(library, "Nobody", model)
    with pytest.raises(
        ValueError, match=r"Downloads: cannot be built \(ConnectionError: no network\); allowed offline"
    ):
        text_attacks.wrapped(library, "Downloads", model)
    with pytest.raises(ValueError, match="found goal SimpleNamespace, allowed: UntargetedClassification"):
        text_attacks.wrapped(library, "OtherGoal", model)
    with pytest.raises(ValueError, match="max_length: found 17, allowed: 1 to 16"):
        text_attacks.Probabilities(*load(file), 17)
    ranking = SimpleNamespace(kind="ranking", longest=16)
    with pytest.raises(ValueError, match="found one of ranking, allowed: classification"):
        text_attacks.Probabilities(ranking, None)
    with pytest.raises(ValueError, match="found no text of 1 that the network classifies correctly"):
        text_attacks.summary([{"outcome": "skipped"}])


def test_a_network_with_one_answer_is_named(file: Path, part: Examples, library: Any) -> None:
    from relearn.cli import evaluate_text

    net, tokenizer = load(file)
    with torch.no_grad():
        for name, one in net.net.named_parameters():
            if "classifier" in name:
                one.zero_()
                one[..., -1:] += 1.0 if one.dim() == 1 else 0.0
    model = text_attacks.Probabilities(net, tokenizer, 16)
    attack = text_attacks.wrapped(library, "deepwordbug", model)
    found = text_attacks.summary(text_attacks.attack_all(model, part, attack))
    assert found["success_frac"] == 0 and found["answers_count"] == 1
    args = SimpleNamespace(recipe="deepwordbug", task="x", stopwords="nltk", out=Path())
    assert any("says NOTHING" in line for line in evaluate_text.lines(args, found))
    assert not any("NOTHING" in line for line in evaluate_text.lines(args, {**found, "answers_count": 2}))


def task_of(part: Examples) -> text_tasks.TextTask:
    return text_tasks.TextTask("acceptability", part, part, part, "classification", 2, "accuracy", {})


def test_the_verb_prints_and_writes_what_it_measured(
    file: Path, part: Examples, library: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(text_tasks, "read", lambda *given: task_of(part))
    words = ["evaluate-text", str(file), "--task", "acceptability", "--out", str(tmp_path), "--device", "cpu"]
    assert cli.main([*words, "--stopwords", "sklearn", "--query-budget", "50"]) == 0
    out = capsys.readouterr().out
    record = json.loads((tmp_path / "text_attack.json").read_text())
    rows = list(csv.DictReader((tmp_path / "text_attack.csv").read_text().splitlines()))
    won = sum(row["outcome"] == "success" for row in rows)
    tried = sum(row["outcome"] != "skipped" for row in rows)
    assert record["metrics"]["success_frac"] == won / tried and f"{100 * won / tried:.1f}%" in out
    assert record["recipe"] == "DeepWordBugGao2018" and "stop words: scikit-learn's" in out
    assert "the" in (tmp_path / "stopwords/corpora/stopwords/english").read_text().split()
    for more, said in (
        (["--samples", "-1"], "--samples: found -1, allowed: 0 or more"),
        (["--query-budget", "0"], "--query-budget: found 0, allowed: 1 or more"),
        (["--recipe", "Nobody"], "recipe: found Nobody"),
    ):
        assert cli.main([*words, *more]) == 2
        error = capsys.readouterr().err
        assert said in error


def test_without_the_library_the_refusal_is_one_line(file: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "nltk", None)
    assert cli.main(["evaluate-text", str(file), "--task", "acceptability"]) != 0
    error = capsys.readouterr().err
    assert "textattack: cannot be imported" in error and text_attacks.INSTALL in error
    assert error.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("textattack") is None, reason="an optional library")
def test_the_library_itself_keeps_its_recipes_promises(part: Examples, tmp_path: Path) -> None:
    """In a process of its own: every success is one by our own batches, within the recipe's edit distance, off the stop words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    file = tmp_path / "model.safetensors"
    network(file, part, "bert", seed=0, steps=25)
    words = [
        sys.executable,
        "-m",
        "relearn",
        "evaluate-text",
        str(file),
        "--task",
        "acceptability",
        "--samples",
        "12",
    ]
    words += ["--stopwords", "sklearn", "--device", "cpu", "--out", str(tmp_path), "--max-length", "16"]
    env = {**os.environ, "TA_CACHE_DIR": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [
        row
        for row in csv.DictReader((tmp_path / "text_attack.csv").read_text().splitlines())
        if row["outcome"] != "skipped"
    ]
    net, tokenizer = load(file)
    assert rows and {row["outcome"] for row in rows} <= {"success", "failed"}
    for row in rows:
        assert distance(row["text"], row["perturbed"]) <= 30
        before, after = row["text"].split(), row["perturbed"].split()
        assert all(a == b for a, b in zip(before, after) if a in ENGLISH_STOP_WORDS)
        assert (answers(net, tokenizer, [row["perturbed"]])[0] != int(row["label"])) == (
            row["outcome"] == "success"
        )
        assert int(row["queries"]) >= 1


def distance(a: str, b: str) -> int:
    """Levenshtein's."""
    line = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, line[0] = line[0], i
        for j, y in enumerate(b, 1):
            last, line[j] = line[j], min(last + (x != y), line[j] + 1, line[j - 1] + 1)
    return line[-1]
