"""What a message says: found, allowed, and the name that was probably meant."""

import copy
from pathlib import Path
from typing import Any

import pytest

from relearn.params import messages as faults
from relearn.params import reading as params
from relearn.params.strict_yaml import dotted
from relearn.studies import parameters

from .rules import value_at

BASE = parameters.load(Path(__file__).resolve().parents[2] / "params.yaml")


def changed(key: str, value: Any) -> dict[str, Any]:
    tree = copy.deepcopy(BASE)
    *above, last = key.split(".")
    branch = value_at(tree, ".".join(above))
    branch[last] = value
    return tree


def said(tree: dict[str, Any]) -> list[str]:
    return [f"{dotted(path)}: {text}" for path, text, _ in faults.check(tree, parameters.schema())[1]]


def test_good_values_have_no_fault_and_settled_types() -> None:
    settled, found = faults.check(changed("poisoning.pretrain.network.width", 1), parameters.schema())
    assert found == []
    width = settled["poisoning"]["pretrain"]["network"]["width"]
    assert type(width) is float  # 1 and 1.0 must give the same settings, hence the same run
    assert width == 1.0


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("poisoning.craft.poisons", "5", "found '5' (text), allowed: a whole number >= 1"),
        ("poisoning.craft.attacks.convex_polytope.eps", 2.0, "found 2.0, allowed: a number > 0 and <= 1"),
        (
            "poisoning.seeds",
            [],
            "found [], allowed: a list of 1 to 200 values, each a whole number >= 0 and < 4294967296",
        ),
        ("poisoning.train.transfer.reset_head", 0, "found 0, allowed: true or false"),
        (
            "poisoning.prepare.dataset",
            "cifar",
            "found 'cifar' (text), allowed: digits, cifar10; nearest: cifar10",
        ),
        ("poisoning.train", 3, "found 3, allowed: a mapping of transfer, end_to_end"),
        ("poisoning.train.transfer.epochs", {"a": 1}, "found a mapping, allowed: a whole number >= 1"),
        ("poisoning.train.transfer.epochs", None, "found nothing, allowed: a whole number >= 1"),
        ("poisoning.studies.overlap.attack", "polytope", "allowed: convex_polytope"),
        (
            "poisoning.studies.white_box.victim",
            "GoogLeNet",
            "found GoogLeNet, allowed: one of pretrain.victims.architectures: SENet18, ",
        ),
    ],
)
def test_a_wrong_value_is_shown_with_what_is_allowed(key: str, value: object, text: str) -> None:
    (line,) = said(changed(key, value))
    assert line.startswith(f"{key}: ")
    assert text in line


def test_a_wrong_name_of_a_run_is_shown_with_its_form() -> None:
    key = "freelb.finetune.runs"
    runs = value_at(BASE, key)
    (line,) = said(changed(key, [*runs, {**runs[0], "init_from": "No name"}]))
    place = f"{key}[{len(runs)}].init_from"
    assert line == f"{place}: found 'No name' (text), allowed: text that matches ^([a-z][a-z0-9_]*)?$"


def test_a_wrong_value_of_a_list_is_named_by_its_place() -> None:
    (line,) = said(changed("poisoning.studies.dropout.victims", ["SENet18", "ResNet"]))
    assert line.startswith("poisoning.studies.dropout.victims[1]: found 'ResNet' (text), allowed: SENet18, ")
    assert "; nearest: ResNet" in line


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("poisoning.prepare.pretrain_per_clas", "nearest known name: pretrain_per_class;"),
        ("poisoning.craft.atacks", "nearest known name: attacks;"),
        ("poisoning.craft.Poisons", "nearest known name: poisons;"),
        ("poisoning.filter.deep_knn.neighbours_k", "allowed here: k, sweep, include_self"),
        ("poisoning.craft.milestones", "nearest known name: poisoning.train.end_to_end.milestones;"),
        ("poisonning", "nearest known name: poisoning;"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(key: str, meant: str) -> None:
    (line,) = said(changed(key, 1))
    assert line.startswith(f"{key}: unknown key, ")
    assert meant in line


def test_a_mistyped_key_is_one_fault() -> None:
    tree = copy.deepcopy(BASE)
    transfer = tree["poisoning"]["train"]["transfer"]
    transfer["epoch"] = transfer.pop("epochs")
    (line,) = said(tree)
    assert line.startswith("poisoning.train.transfer.epoch: unknown key, nearest known name: epochs;")
    del transfer["lr"]  # another one is missing
    assert len(said(tree)) == 2


def test_a_missing_key_says_what_belongs_there() -> None:
    tree = copy.deepcopy(BASE)
    del tree["poisoning"]["train"]["transfer"]["lr"]
    assert said(tree) == ["poisoning.train.transfer.lr: missing, allowed: a number > 0 and <= 1000000"]


@pytest.mark.parametrize(
    "above", sorted({key.rpartition(".")[0] for key in faults.known_keys(parameters.schema())})
)
def test_one_wrong_letter_still_finds_the_name(above: str) -> None:
    """Every name of four letters or more, with one letter changed, is guessed among its neighbours.

    A neighbour that is one letter away (figure_7 and figure_8, seed and seeds) may be as near, and is an answer too.
    """

    def without_one(name: str) -> set[str]:
        return {name[:at] + name[at + 1 :] for at in range(len(name))}

    known = list(value_at(BASE, above))
    for last in filter(lambda name: len(name) >= 4, known):
        near = {
            last,
            *(
                name
                for name in known
                if without_one(last) & {name, *without_one(name)} or last in without_one(name)
            ),
        }
        for at in range(1, len(last)):
            assert faults.guess(f"{last[:at]}q{last[at + 1 :]}", known) in near, (last, at)


def test_known_keys_are_those_of_the_file() -> None:
    leaves = set(params.leaves(BASE))
    known = set(faults.known_keys(parameters.schema()))
    assert leaves <= known
    assert all(any(leaf.startswith(f"{key}.") for leaf in leaves) for key in known - leaves)


def test_every_message_is_one_line_however_long_the_value() -> None:
    for value in ("x" * 10_000, "two\nlines", list(range(10_000)), {"a": "b\n"}):
        for line in said(changed("poisoning.craft.targets", value)):
            assert "\n" not in line
            assert len(line) < 300
