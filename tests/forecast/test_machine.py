"""Which shipped rates a processor gets."""

import json

from relearn.forecast import machine


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
