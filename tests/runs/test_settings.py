"""Settings as dataclasses: what is read, and what every wrong key or value is answered with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from relearn.runs.settings import plain, read, rest


@dataclass(frozen=True, kw_only=True)
class Pgd:
    eps: float
    steps: int = 3


@dataclass(frozen=True, kw_only=True)
class Attack:
    kind: Literal["attack"]
    pgd: Pgd | None
    names: Sequence[str] = ()
    nets: Sequence[Pgd] = ()


@dataclass(frozen=True, kw_only=True)
class Filter:
    kind: Literal["filter", "sieve"] = "filter"
    pair: tuple[int, str] = (1, "a")
    either: int | str | None = None
    several: Literal["all"] | Sequence[str] = "all"
    strict: bool = False
    arguments: Mapping[str, Any] = rest()


@dataclass(frozen=True, kw_only=True)
class Weak(Attack):
    level: Literal["low", "high"]
    how: Literal["once", "often"]


Settings = Attack | Filter


def test_values_become_dataclasses_at_every_depth():
    found = read(
        Settings, {"kind": "attack", "pgd": {"eps": 1}, "names": ["a"], "nets": [{"eps": 0.5, "steps": 1}]}
    )
    assert found == Attack(kind="attack", pgd=Pgd(eps=1), names=["a"], nets=[Pgd(eps=0.5, steps=1)])
    assert read(Settings, {"kind": "attack", "pgd": None}).pgd is None


def test_the_rest_of_the_keys_is_taken_and_given_back():
    found = read(Settings, {"kind": "sieve", "nu": 0.1, "rounds": [1, 2]})
    assert found.arguments == {"nu": 0.1, "rounds": [1, 2]}
    assert plain(found) == {
        "kind": "sieve",
        "pair": (1, "a"),
        "either": None,
        "several": "all",
        "strict": False,
        "nu": 0.1,
        "rounds": [1, 2],
    }


def test_a_union_is_told_apart_by_its_literals_and_their_defaults():
    assert isinstance(read(Settings, {}), Filter)
    with pytest.raises(ValueError, match=r"^kind: found 'other', allowed: attack, filter, sieve$"):
        read(Settings, {"kind": "other"})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"eps": 0.1, "step": 3}, "the key step is unknown; allowed: eps, steps"),
        ({"steps": 3}, "the key eps is missing; found: steps"),
        ({}, "the key eps is missing; found: none"),
        ({"eps": "big"}, "eps: found 'big', allowed: a number"),
        ({"eps": True}, "eps: found True, allowed: a number"),
        ({"eps": 0.1, "steps": 1.0}, "steps: found 1.0, allowed: an integer"),
        ([], "settings: found [], allowed: a mapping"),
    ],
)
def test_a_wrong_value_is_named(values, says):
    with pytest.raises(ValueError) as error:
        read(Pgd, values)
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"pgd": {"step": 1}}, "the key pgd.step is unknown; allowed in pgd: eps, steps"),
        ({"pgd": {"steps": 1}}, "the key pgd.eps is missing; found in pgd: steps"),
        ({"pgd": None, "nets": [{"eps": 1}, {"eps": None}]}, "nets[1].eps: found None, allowed: a number"),
        ({"pgd": None, "names": "abc"}, "names: found 'abc', allowed: a list"),
        ({"pgd": None, "names": [1]}, "names[0]: found 1, allowed: text"),
    ],
)
def test_a_wrong_value_inside_is_named_with_its_place(values, says):
    with pytest.raises(ValueError) as error:
        read(Settings, {"kind": "attack", **values})
    assert str(error.value) == says


def test_a_literal_among_others_is_named_itself():
    """Of a single dataclass the field that is wrong; of several the field that tells them apart, each of its values once."""
    weak = {"kind": "attack", "pgd": None, "level": "low", "how": "never"}
    with pytest.raises(ValueError, match=r"^how: found 'never', allowed: once, often$"):
        read(Weak | None, weak)
    with pytest.raises(ValueError, match=r"^kind: found 'other', allowed: attack, filter, sieve$"):
        read(Weak | Attack | Filter, {**weak, "kind": "other"})


def test_pairs_and_alternatives():
    assert read(Filter, {"pair": [2, "b"], "either": "x"}).pair == (2, "b")
    for values, says in (
        ({"pair": [2]}, "pair: found [2], allowed: a list of 2"),
        ({"either": 0.5}, "either: found 0.5, allowed: an integer or text or null"),
        ({"several": "a"}, "several: found 'a', allowed: all or a list"),
        ({"strict": 1}, "strict: found 1, allowed: true or false"),
    ):
        with pytest.raises(ValueError) as error:
            read(Filter, values)
        assert str(error.value) == says


def test_a_type_that_cannot_be_read_is_a_mistake_of_the_step():
    with pytest.raises(TypeError, match="fields of the type <class 'bytes'> are not read"):
        read(bytes, b"")
