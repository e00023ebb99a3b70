"""A claim of "no harm" has a one-sided predicate: an improvement never contradicts it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from relearn.report.statistics import Interval
from relearn.report.verdicts import Above, Below, Within, verdict
from relearn.studies.study import all_studies

#: functions that state a range, as the source does: an equality, or a range with two ends
TWO_SIDED = {"attack_is_invisible", "_best_k", "derived_sets", "_size"}


def test_only_claims_of_a_range_are_two_sided() -> None:
    found = set()
    for study in all_studies():
        for path in Path(inspect.getfile(study.part("claims"))).parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
                    found |= {node.name for one in calls if isinstance(one, ast.Name) and one.id == "Within"}
    assert found == TWO_SIDED


@pytest.mark.parametrize("gain", [0.002, 0.0254, 0.5])
def test_a_gain_reproduces_what_a_range_would_contradict(gain: float) -> None:
    surely = Interval(gain, gain - 0.001, gain + 0.001)
    assert verdict(Above(-0.01, strict=False), surely) == "reproduced"
    loss = Interval(-gain, -gain - 0.001, -gain + 0.001)
    assert verdict(Below(0.02), loss) == "reproduced"
    if gain > 0.02:
        assert verdict(Within(-0.01, 0.01), surely) == "contradicted"
