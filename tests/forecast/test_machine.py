"""Which shipped rates a processor gets."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.forecast import machine
from relearn.forecast.calibrate import calibrate

CHECKOUT = Path(__file__).resolve().parents[2]


def test_a_processor_without_rates_of_its_own_has_those_of_its_model_and_any_other_the_reference() -> None:
    shipped = [one for one in json.loads(machine.SHIPPED.read_bytes()).values() if not one["gpus"]]
    for one in shipped:
        assert machine.processor(one["name"]).convolutions == one["convolutions"]
    model = next(
        one for one in shipped if one["name"] != machine.device("cpu").name and ", " not in one["name"]
    )
    assert (
        machine.processor(f"{model['name']}, instructions of tomorrow").convolutions == model["convolutions"]
    )
    assert machine.processor("an unknown model, AVX2") == machine.device("cpu")


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("[]", "found [], allowed: a mapping"),
        ("null", "found None, allowed: a mapping"),
        ("{", "Expecting property name"),
        ({"convolutions": None}, "convolutions is None, allowed: a number above 0"),
        *(
            ({key: value}, f"{key} is {value!r}, allowed: a number above 0")
            for key in ("convolutions", "products", "bandwidth", "calls", "start_s", "spread")
            for value in (0, -1, "fast", float("inf"), float("nan"), True)
        ),
        ({"bf16_products": -1}, "bf16_products is -1, allowed: a number from 0"),
        ({"cores": 0}, "cores is 0, allowed: a whole number above 0"),
        ({"cores": 1.5}, "cores is 1.5, allowed: a whole number above 0"),
        ({"gpus": []}, "gpus is [], allowed: a whole number from 0"),
        ({"name": 5}, "name is 5, allowed: text"),
    ],
)
def test_a_damaged_calibration_is_named_with_its_remedy(
    damage: Any,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(CHECKOUT)
    file = tmp_path / "machine.json"
    monkeypatch.setattr(machine, "own_file", lambda: file)
    whole = asdict(machine.device("cpu"))
    file.write_text(damage if isinstance(damage, str) else json.dumps({**whole, **damage}))
    assert cli.main(["plan"]) == 3
    out, said = capsys.readouterr()
    assert out == "" and said.startswith(f"relearn plan: {file}: {fault}") and said.count("\n") == 1
    assert said.endswith("`relearn plan --calibrate` rewrites it\n")


def test_a_calibration_is_read_as_it_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "own_file", lambda: tmp_path / "machine.json")
    kept = machine.processor("an unknown model")
    machine.keep(kept)
    assert machine.this_machine(3) == machine.replace(kept, cores=3)


def test_a_calibration_leaves_the_random_state_as_it_was() -> None:
    import torch

    torch.rand(1)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    calibrate(repeats=1, slice_s=1e-4)
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == threads
