"""craft: stored poisons stay inside the stated ball after quantisation, and the record contains the threat model."""

import json

import torch
from safetensors.torch import load_file

from relearn.data.arrays import load_prepared


def crafted(chain):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials = data.trials(
        **{k: chain.craft[k] for k in ("poison_class", "target_class", "poisons", "targets")}
    )
    return load_file(chain.path("craft/poisons.safetensors"))["poisons"], trials


def test_poisons_are_eight_bit_images_inside_the_ball(chain):
    poisons, trials = crafted(chain)
    assert poisons.dtype == torch.uint8 and poisons.shape == (3, 2, 1, 8, 8)
    change = (poisons.int() - trials.base_images.int()).abs()
    assert 0 < int(change.max()) <= chain.craft["eps"] * 255


def test_record_states_the_threat_model_with_units_and_both_ratios(chain):
    record = json.loads((chain.path("craft") / "record.json").read_text())
    threat = record["threat_model"]
    assert threat["eps"] == 0.2 and abs(threat["eps_255"] - 51.0) < 1e-9
    assert threat["poisons_count"] == 2
    assert abs(threat["poisons_of_class_frac"] - 2 / 20) < 1e-12
    assert abs(threat["poisons_of_set_frac"] - 2 / 200) < 1e-12


def test_trials_hold_the_change_that_the_images_show(chain, read_trials):
    poisons, trials = crafted(chain)
    for row, images in zip(read_trials(chain.path("craft")), poisons, strict=True):
        change = (images.float() - trials.base_images.float()).abs()
        assert float(row["linf_255"]) == float(change.max())
        assert abs(float(row["l1_mean_255"]) - float(change.mean())) < 1e-4


def test_every_iteration_is_in_the_spool(chain):
    record = json.loads((chain.path("craft") / "record.json").read_text())
    spool = chain.runs.parent / "spool" / f"{record['run']}.jsonl"
    lines = [json.loads(line) for line in spool.read_text().splitlines()]
    assert sum("loss_sum" in json.dumps(line) for line in lines) == chain.craft["iterations"]
