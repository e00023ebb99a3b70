"""evaluate: agrees with the pre-training's own accuracy; the hull protocol holds at the published dimension."""

import json


def test_accuracy_agrees_with_pretraining_and_with_its_classes(chain, read_trials):
    record = json.loads((chain.path("evaluate") / "record.json").read_text())
    pretrained = json.loads((chain.path("victim") / "record.json").read_text())
    assert record["metrics"]["test_accuracy_frac"] == pretrained["metrics"]["test_accuracy_frac"]
    classes = [float(row["accuracy_frac"]) for row in read_trials(chain.path("evaluate"))]
    assert len(classes) == 10 and min(classes) <= record["metrics"]["test_accuracy_frac"] <= max(classes)
    assert 0 <= record["metrics"]["ece_frac"] <= 1


def test_hull_protocol_finds_no_separator_inside_and_always_one_outside(chain):
    record = chain.step(
        "evaluate", "hull", {"protocol": "hull", "dimension": 2048, "poisons": 5, "problems": 4}
    )
    metrics = record["metrics"]
    assert metrics["inside_count"] == metrics["outside_count"] == 4
    assert metrics["inside_separators_count"] == 0 and metrics["outside_separators_count"] == 4
