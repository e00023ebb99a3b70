"""A user's own filter and own poisons, measured by the real steps on a tiny results folder."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from relearn import cli
from relearn.cli.poison_files import read
from relearn.data.arrays import load_prepared
from relearn.methods import DEFENCES
from relearn.studies import parameters
from relearn.studies.poisoning import own_method
from relearn.studies.poisoning.plan import plan

from ...steps.recorded import rows_of
from .fake_records import Study

FILTERS = """
import numpy as np


class Keep:
    def __init__(self, rows=()):
        self.rows = rows

    def fit_predict(self, X, y):
        kept = np.ones(len(y), dtype=np.int64)
        kept[[row for row in self.rows if row < len(y)]] = -1
        return kept


class Undecided(Keep):
    def fit_predict(self, X, y):
        return np.random.default_rng().choice([-1, 1], len(y))


class Short(Keep):
    def fit_predict(self, X, y):
        return np.ones(len(y) - (len(y) > 60))


class Arrays(Keep):
    def fit_predict(self, X, y):
        return np.ones(X.astype(float).shape[0])


class Soft(Keep):
    def fit_predict(self, X, y):
        return np.full(len(y), 0.5)
"""
MACHINE = ("--device", "cpu")
LOAD = parameters.load


def small() -> dict[str, Any]:
    """The parameters of mini, with one tiny network, three targets and two attacks."""
    values = LOAD("params.yaml", scale="mini")
    own = values["poisoning"]
    own["prepare"] |= {
        "pretrain_per_class": 40,
        "fine_tune_per_class": 20,
        "pool_per_class": 30,
        "pool_start": 40,
    }
    own["pretrain"]["substitutes"] = {"architectures": ["ResNet18"], "dropout": [0.2]}
    own["pretrain"]["victims"]["architectures"] = ["ResNet18"]
    own["pretrain"]["network"] |= {"width": 0.125, "depth": 0.25}
    own["pretrain"]["training"]["epochs"] = 2
    own["craft"] |= {"targets": 3, "poisons": 2}
    for attack in own["craft"]["attacks"].values():
        attack["iterations"] = 3
    own["filter"]["deep_knn"] |= {"k": 20, "sweep": [5, 20]}
    own["train"]["transfer"] |= {"epochs": 20, "milestones": [10]}
    studies = own["studies"]
    studies["transfer"] = {"feature_collision": ["deep_knn"], "convex_polytope": ["deep_knn"]}
    for name in ("dropout", "overlap", "end_to_end", "imbalance"):
        studies[name]["victims"] = []
    studies["white_box"]["attacks"] = []
    return values


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pipeline leaves: networks, poisons, filters and trained victims."""
    folder = tmp_path_factory.mktemp("made") / "results/mini"
    values = small()
    families = plan(values, "mini")
    for name in ("prepare_images", "pretrain", "craft", "train_clean", "filter", "train"):
        for run in families[name].runs:
            if run.get("setting", "transfer") == "transfer":
                job = own_method._job(families[name], run, Path("results/mini"), folder, folder, MACHINE)
                assert cli.main(list(job.words)) == 0
    return folder


@pytest.fixture
def call(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Path]]:
    """A verb with the results; its exit code and its --out."""
    (tmp_path / "filters_of_mine.py").write_text(FILTERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    values = small()
    monkeypatch.setattr(parameters, "load", lambda path, scale: values)
    monkeypatch.delitem(DEFENCES, own_method.OWN, raising=False)

    def run(*words: str) -> tuple[int, Path]:
        out = tmp_path / "out"
        said = [*words, "--results", str(results), "--out", str(out), "--scale", "mini", *MACHINE]
        try:
            return cli.main(said), out
        finally:
            DEFENCES.pop(own_method.OWN, None)

    return run


def made(out: Path) -> list[own_method.Job]:
    """Jobs of all runs below a folder."""
    return [own_method.Job(file.parent, (), ()) for file in (out / "runs").rglob("record.json")]


def board(out: Path) -> list[tuple[str, str]]:
    """Cell and method of each row of leaderboard.csv; the board of attacks has no cell."""
    return [
        (row["cell"], row["method"])
        for row in csv.DictReader((out / "leaderboard.csv").read_text().splitlines())
    ]


def knowledge(root: Path, attack: str) -> set[str]:
    """What the records of an attack's victims say that the attacker knows."""
    files = (root / "runs/poisoning/train/transfer" / attack).rglob("record.json")
    return {json.loads(file.read_text())["threat_model"]["knowledge"] for file in files}


def trials(root: Path, attack: str, defence: str) -> list[dict[str, str]]:
    (file,) = (root / "runs/poisoning/train").glob(f"transfer/{attack}/{defence}/*/seed0/trials.csv")
    return rows_of(file)


def test_a_filter_that_keeps_everything_is_no_defence(
    call: Callable[..., tuple[int, Path]], results: Path, capsys: Any
) -> None:
    code, out = call("evaluate-filter", "filters_of_mine:Keep")
    assert code == 0
    for attack in ("feature_collision", "convex_polytope"):
        mine, bare = trials(out, attack, "own"), trials(results, attack, "none")
        assert [row["success"] for row in mine] == [row["success"] for row in bare]
        assert [row["test_accuracy_frac"] for row in mine] == [row["test_accuracy_frac"] for row in bare]
    text = capsys.readouterr().out
    assert (
        "own - none, against convex_polytope" in text
        and "underpowered: 3 targets, needs 20; 1 vic" in text
        and "Defences against poisoning" in text
    )
    assert "own                         0.0%    0.0%" in text
    rows = list(csv.DictReader((out / "leaderboard.csv").read_text().splitlines()))
    assert {row["method"] for row in rows} == {"none", "deep_knn", "own"}


def test_a_filter_that_drops_the_poisons_leaves_the_control(
    call: Callable[..., tuple[int, Path]], results: Path
) -> None:
    (file,) = (results / "runs/poisoning/prepare_images").rglob("data.safetensors")
    craft = small()["poisoning"]["craft"]
    keys = ("target_class", "targets", "poison_class", "poisons")
    places = load_prepared(file).trials(**{key: craft[key] for key in keys}).base_positions_in_fine_tune
    arguments = json.dumps({"rows": places.tolist()})
    code, out = call("evaluate-filter", "filters_of_mine:Keep", "--arguments", arguments)
    assert code == 0
    for row in trials(out, "convex_polytope", "own"):
        assert row["success"] == row["control_success"]
    removed = own_method.removed(out, "mini", made(out))["convex_polytope", "own"]
    assert removed == pytest.approx((1.0, 0.0, 1.0))


def test_the_crafted_poisons_give_the_recorded_trials(
    call: Callable[..., tuple[int, Path]], results: Path, tmp_path: Path, capsys: Any
) -> None:
    poisons = results / "runs/poisoning/craft/convex_polytope/seed0/poisons.safetensors"
    code, out = call("evaluate-poisons", str(poisons), "--eps", "0.2")
    assert code == 0 and "Poisoning attacks" in capsys.readouterr().out
    for defence in ("none", "deep_knn"):
        mine, recorded = trials(out, "own", defence), trials(results, "convex_polytope", defence)
        assert [(row["target"], row["k"], row["success"]) for row in mine] == [
            (row["target"], row["k"], row["success"]) for row in recorded
        ]
    (part,) = [
        one
        for one, _ in own_method.differences(results, out, "mini", made(out), None)
        if one.name == "own - convex_polytope"
    ]
    assert part.interval.estimate == 0.0
    assert knowledge(out, "own") == {"transfer"} and knowledge(results, "convex_polytope") == {"gray_box"}
    for t, images in enumerate(load_file(poisons)["poisons"]):
        (tmp_path / f"png/{t:02}").mkdir(parents=True)
        for j, image in enumerate(images):
            Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(
                tmp_path / f"png/{t:02}/{j}.png"
            )
    np.testing.assert_array_equal(read(tmp_path / "png"), read(poisons))


def test_runs_of_an_earlier_call_are_in_no_result_of_the_next(
    call: Callable[..., tuple[int, Path]], results: Path, capsys: Any
) -> None:
    poisons = [
        str(results / f"runs/poisoning/craft/{attack}/seed0/poisons.safetensors")
        for attack in ("feature_collision", "convex_polytope")
    ]
    assert call("evaluate-poisons", poisons[0], "--eps", "0.2", "--defences", "deep_knn")[0] == 0
    capsys.readouterr()
    code, out = call("evaluate-poisons", poisons[1], "--eps", "0.2", "--defences", "l2_outliers")
    shares = capsys.readouterr().out.partition("removed: ")[2].partition("difference")[0]
    assert code == 0 and "l2_outliers" in shares and "deep_knn" not in shares
    assert {method for cell, method in board(out) if cell == "own"} == {"none", "l2_outliers"}
    code, out = call("evaluate-filter", "filters_of_mine:Keep", "--attacks", "feature_collision")
    shares = capsys.readouterr().out.partition("removed: ")[2].partition("difference")[0]
    assert code == 0 and "l2_outliers" not in shares
    code, out = call("evaluate-filter", "filters_of_mine:Keep", "--attacks", "convex_polytope")
    shares = capsys.readouterr().out.partition("removed: ")[2].partition("difference")[0]
    assert code == 0 and "convex_polytope" in shares and "feature_collision" not in shares


def test_a_ball_that_is_larger_than_the_recorded_attacks_is_said(
    call: Callable[..., tuple[int, Path]], results: Path, capsys: Any
) -> None:
    poisons = str(results / "runs/poisoning/craft/convex_polytope/seed0/poisons.safetensors")
    assert call("evaluate-poisons", poisons, "--eps", "0.25", "--defences")[0] == 0
    said = "not comparable: own has eps 0.25, feature_collision has 0.2, convex_polytope has 0.2"
    assert said in capsys.readouterr().out
    code, out = call("evaluate-poisons", poisons, "--eps", "0.2", "--defences", "--knowledge", "gray_box")
    assert code == 0 and "not comparable" not in capsys.readouterr().out
    assert knowledge(out, "own") == {"gray_box"}, "what the user stated"


class Attack(Study):
    """Poisons of a user's own that work on every target, with nothing else below --out."""

    attacks, defences = ("own",), ()

    def success(self, attack: str, defence: str, victim: str, target: int, k: int | None) -> bool:
        return attack == "own" and (target + len(victim)) % 7 > 0


class Recorded(Study):
    attacks, defences = ("feature_collision", "convex_polytope", "white_box_convex_polytope"), ()


def test_differences_hold_together_and_leave_out_attacks_that_know_the_victim(tmp_path: Path) -> None:
    recorded, out = Recorded().write(tmp_path / "recorded"), Attack().write(tmp_path / "out")
    both = own_method.differences(recorded, out, "mini", made(out), None)
    assert [one.name for one, _ in both] == ["own - convex_polytope", "own - feature_collision"]
    assert [(one.verdict, reasons) for one, reasons in both] == 2 * [("reproduced", [])]
    single = Recorded()
    single.attacks = ("feature_collision",)
    recorded = single.write(tmp_path / "single")
    ((alone, _),) = own_method.differences(recorded, out, "mini", made(out), None)
    wide = both[1][0].interval
    assert wide.estimate == alone.interval.estimate
    assert wide.low < alone.interval.low and wide.high > alone.interval.high


def test_a_difference_with_too_few_trials_or_weak_victims_is_underpowered(tmp_path: Path) -> None:
    study, own = Recorded(), Attack()
    study.targets = own.targets = 10
    study.accuracy = 0.5
    recorded, out = study.write(tmp_path / "recorded"), own.write(tmp_path / "out")
    for _, reasons in own_method.differences(recorded, out, "mini", made(out), None):
        assert "10 targets, needs 20" in reasons and "ResNet18 at 50.0% accuracy, needs 60%" in reasons


def test_what_breaks_the_rules_is_refused_in_one_line(
    call: Callable[..., tuple[int, Path]], results: Path, tmp_path: Path, capsys: Any
) -> None:
    held = load_file(results / "runs/poisoning/craft/convex_polytope/seed0/poisons.safetensors")["poisons"]
    far = held.copy()
    far[1, 0] = 255 - far[1, 0]
    save_file({"poisons": far}, tmp_path / "far.safetensors")
    np.savez(tmp_path / "floats.npz", poisons=held / 255.0)
    np.savez(tmp_path / "few.npz", poisons=held[:, :1])
    wrong = {
        (
            "evaluate-poisons",
            str(tmp_path / "far.safetensors"),
            "--eps",
            "0.2",
        ): "far.safetensors: target 1: ",
        ("evaluate-poisons", str(tmp_path / "floats.npz"), "--eps", "0.2"): "allowed: uint8 (T, k, C, H, W)",
        ("evaluate-poisons", str(tmp_path / "few.npz"), "--eps", "0.2"): "few.npz: ",
        ("evaluate-poisons", str(tmp_path / "few.npz")): "found neither --setup nor --eps",
        ("evaluate-poisons", "x.npz", "--eps", "0.2", "--defences", "knn"): "--defences: found knn",
        (
            "evaluate-poisons",
            "x.npz",
            "--eps",
            "0.2",
            "--knowledge",
            "grey",
        ): "--knowledge: found grey, allowed: wh",
        ("evaluate-poisons", "x.npz", "--setup", "mnist"): "--setup: found mnist, allowed: digits-mini-v1",
        ("evaluate-filter", "filters_of_mine:Undecided"): "found two answers to the same points",
        ("evaluate-filter", "filters_of_mine:Soft"): "found shape (60,), values [0.5], allowed: 1 or -1",
        (
            "evaluate-filter",
            "filters_of_mine:Short",
        ): "own: found shape (199,), values [1.0], allowed: 1 or -1",
        ("evaluate-filter", "filters_of_mine:Arrays"): "'Tensor' object has no attribute 'astype'",
        ("evaluate-filter", "filters_of_mine:Nothing"): "AttributeError",
        ("evaluate-filter", "filters_of_mine:Keep", "--attacks", "fgsm"): "--attacks: found fgsm, allowed: ",
        ("evaluate-filter", "filters_of_mine:Keep", "--victims", "VGG"): "found no run of these attacks",
    }
    for words, says in wrong.items():
        code, _ = call(*words)
        error = capsys.readouterr().err
        assert code != 0 and says in error and error.count("\n") == 1, error
    assert not list((tmp_path / "out").rglob("trials.csv"))
