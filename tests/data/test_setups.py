"""The fixed set-ups are what the rule makes of the real data, and nothing else passes for one of them."""

import dataclasses
import json
import os

import pytest

from relearn import cli
from relearn.data import public_benchmark, setups
from relearn.data.arrays import load_prepared


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    out = tmp_path_factory.mktemp("digits") / "runs/prepare"
    split = {"dataset": "digits", **setups.load()["digits-mini-v1"].split}
    assert (
        cli.main(
            [
                "poisoning",
                "prepare_images",
                "--settings",
                json.dumps(split),
                "--out",
                str(out),
                "--device",
                "cpu",
            ]
        )
        == 0
    )
    return out / "data.safetensors"


def test_the_digits_give_their_setup(digits):
    assert setups.load()["digits-mini-v1"].faults(load_prepared(digits)) == []


@pytest.mark.skipif("RELEARN_MIRROR" not in os.environ, reason="RELEARN_MIRROR names no folder of data sets")
@pytest.mark.parametrize("name", ["cifar10-small-v1", "cifar10-paper-v1"])
def test_cifar10_gives_its_setups(name, tmp_path):
    setup = setups.load()[name]
    settings = json.dumps({"dataset": "cifar10", **setup.split})
    out = tmp_path / "runs/prepare"
    assert (
        cli.main(
            ["poisoning", "prepare_images", "--settings", settings, "--out", str(out), "--device", "cpu"]
        )
        == 0
    )
    assert setup.faults(load_prepared(out / "data.safetensors")) == []


def test_the_paper_setup_has_the_bases_of_the_published_poisons():
    """Ships 213, 225, 227, 247 and 249 of the images behind the first 4,800 of each class, as in the authors' files."""
    assert [index - 48000 for index in setups.load()["cifar10-paper-v1"].bases] == [213, 225, 227, 247, 249]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("target_class", 3),
        ("poison_class", 3),
        ("pixels_sha256", "0"),
        ("fine_tune_sha256", "0"),
        ("targets", (1, 2)),
    ],
)
def test_another_choice_is_a_fault_that_names_its_key(digits, key, value):
    other = dataclasses.replace(setups.load()["digits-mini-v1"], **{key: value})
    faults = other.faults(load_prepared(digits))
    assert faults and any(fault.startswith((f"{key}:", "targets:", "bases:")) for fault in faults)


def test_a_study_on_the_first_targets_is_that_setup_and_one_on_others_is_not(digits):
    data = load_prepared(digits)
    study = {"target_class": 8, "poison_class": 1, "poisons": 5, "targets": 3}
    assert setups.matching(data, data.trials(**study)) == "digits-mini-v1"
    for changed in ({"target_class": 3}, {"poisons": 4}):
        assert setups.matching(data, data.trials(**{**study, **changed})) is None


def test_the_file_is_written_as_it_is_read():
    assert setups.as_json(setups.load()) == setups.FILE.read_text()


def test_the_verb_lists_prints_and_checks(digits, capsys):
    assert cli.main(["setups"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(setups.load()) + len(public_benchmark.SETUPS)
    assert cli.main(["setups", "digits-mini-v1"]) == 0
    assert json.loads(capsys.readouterr().out)["dataset"] == "digits"
    assert cli.main(["setups", "digits-mini-v1", "--check", str(digits)]) == 0
    assert cli.main(["setups", "cifar10-small-v1", "--check", str(digits)]) == 2
    assert "data set: found digits" in capsys.readouterr().err
    assert cli.main(["setups", "digits"]) == 2
