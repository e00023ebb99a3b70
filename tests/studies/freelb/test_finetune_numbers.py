"""Settings of finetune that YAML reads as something else than whole numbers are refused in a line."""

import re

import pytest

from relearn.studies.freelb.steps.finetune_start import check

RIGHT = {
    "method": {"kind": "freelb", "passes": 2},
    "steps": 1,
    "evaluations": 1,
    "batch_size": 4,
    "accumulate": 2,
}


@pytest.mark.parametrize("value", ["2", 2.5, None, True, [2]])
@pytest.mark.parametrize("key", ["method.passes", "steps", "evaluations", "batch_size", "accumulate"])
def test_what_is_no_whole_number(key, value):
    check(RIGHT)
    wrong = {"method": {"kind": "freelb", "passes": value}} if key == "method.passes" else {key: value}
    with pytest.raises(
        ValueError, match=rf"^{key}: {re.escape(repr(value))} \(allowed: a whole number, at least 1\)$"
    ):
        check(RIGHT | wrong)


def test_plain_training_has_no_passes():
    check(RIGHT | {"method": {"kind": "vanilla"}})
