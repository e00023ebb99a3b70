"""relearn evaluate-filter: a class that breaks the contract is one line with its name, what it did, and what is allowed."""

from pathlib import Path

import pytest

from relearn import cli
from relearn.cli.evaluate_filter import check

CLASSES = """
import numpy as np
import torch


class Bare:
    pass


class Rough:
    def __init__(self, error="IndexError"):
        self.error = getattr(__import__("builtins"), error)

    def fit_predict(self, X, y):
        raise self.error("on\\nits own lines")


class Given:
    def __init__(self, what="None"):
        self.what = what

    def fit_predict(self, X, y):
        return eval(self.what)


class Drawn:
    def __init__(self, share, seed):
        self.share, self.seed = share, seed

    def fit_predict(self, X, y):
        return np.where(np.random.default_rng(self.seed).random(len(y)) < self.share, -1, 1)


class Random:
    def fit_predict(self, X, y):
        return np.where(torch.rand(len(y)).numpy() < 0.5, -1, 1)
"""
ALLOWED = "allowed: 1 or -1 for each of 60 points from fit_predict(features, labels)"


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["evaluate-filter", *words]) == 2
    out, error = capsys.readouterr()
    assert not out and error.count("\n") == 1, error
    return error


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rough_filters.py").write_text(CLASSES)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_class_without_the_method_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, "rough_filters:Bare")
    assert "rough_filters:Bare: found AttributeError: 'Bare' object has no attribute 'fit_predict'" in error
    assert ALLOWED in error


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nowhere:Filter", "ModuleNotFoundError: No module named 'nowhere'"),
        ("rough_filters:Nobody", "AttributeError: module 'rough_filters' has no attribute 'Nobody'"),
        ("broken_filters:Filter", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_class_that_is_not_there_is_told_where_it_may_be(
    name: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_filters.py").write_text("1 / 0")
    error = error_of(capsys, name)
    assert (
        f"{name}: found {found}, allowed: module:Class of an installed module or of the working directory"
        in error
    )


def test_arguments_are_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, "rough_filters:Bare", "--arguments", "[1]")
    assert "--arguments: found '[1]', allowed: a JSON object" in error


@pytest.mark.parametrize("name", ["IndexError", "AttributeError", "AssertionError", "OSError", "KeyError"])
def test_what_a_class_raises_is_said(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, "rough_filters:Rough", "--arguments", f'{{"error": "{name}"}}')
    assert f"rough_filters:Rough: found {name}: " in error and "on" in error and ALLOWED in error


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("None", "shape (), values [None]"),
        ("{1: 2}", "shape (), values [{1: 2}]"),
        ("[[1], [1, 2]]", "an answer of type list, which is no array"),
        ("[[1, 2], [1]] * 30", "an answer of type list, which is no array"),
        ("np.array([[1]] * 59 + [None], dtype=object)", "shape (60,), values [None, [1]]"),
        ("np.array(['1'] * 60)", "shape (60,), values ['1']"),
        ("np.ones(59)", "shape (59,), values [1.0]"),
        ("np.ones((60, 1))", "shape (60, 1), values [1.0]"),
        ("np.full(60, 1j)", "shape (60,), values [1j]"),
        ("torch.ones(60, requires_grad=True)", "an answer of type Tensor, which is no array"),
    ],
)
def test_what_a_class_returns_is_said(what: str, found: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, "rough_filters:Given", "--arguments", f'{{"what": "{what}"}}')
    assert f"rough_filters:Given: found {found}, {ALLOWED}" in error


def test_a_filter_that_draws_has_a_seed_that_the_runs_set(capsys: pytest.CaptureFixture[str]) -> None:
    check("rough_filters:Drawn", {"share": 0.5})
    error = error_of(capsys, "rough_filters:Drawn", "--arguments", '{"share": 0.5, "seed": 3}')
    assert "--arguments: found seed, allowed: the others; a run sets it for each victim" in error
    error = error_of(capsys, "rough_filters:Random")
    assert "Random: found two answers to the same points, allowed: one (draw from a parameter seed" in error


def test_the_help_says_what_attacks_and_set_ups_are_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate-filter", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "no white_box_* ones" in text and "default: no check (poisons then need --eps)" in text
    for name in ("white_box_collision", "white_box_convex_polytope"):
        error = error_of(capsys, "rough_filters:Bare", "--attacks", name)
        assert f"--attacks: found {name}, allowed: feature_collision, " in error
        assert "white_box" not in error.partition("allowed")[2]
