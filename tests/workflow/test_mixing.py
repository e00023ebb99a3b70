"""`snakemake` and `dvc repro` in turn: what one has made, the other finds; an edit runs its jobs once."""

from typing import Any

import pytest

K = "poisoning.filter.deep_knn.k"
LR = "poisoning.train.transfer.lr"
MOMENTUM = "gradinit.initialise.metainit.momentum"


def nothing_to_do(scratch: Any) -> bool:
    said = scratch.run("snakemake", "-n")
    return "Nothing to be done" in said.stdout + said.stderr


@pytest.mark.slow
def test_mixing_both_commands_surprises_nobody(scratch: Any) -> None:
    # Of the studies that are edited below: 1 substitute, 2 victims; 10 attacks, of which 4 meet defences; 27 starts of networks;
    # see FEW in conftest.py
    wanted = {
        "split_overlap": 3,
        "pretrain": 6,
        "adversarial_training": 2,
        "craft": 10,
        "filter": 13,
        "train": 38,
        "evaluate_networks": 8,
        "feature_plane": 1,
        "hull_proposition": 1,
        "toy_example": 1,
        "list_imagenet": 1,
        "prepare_translation": 1,
        "initialise": 27,
        "train_from_init": 26,
        "train_translation": 5,
        "gradient_statistics": 5,
        "check_batch_norm": 1,
        "count_params": 1,
        "render": 1,
    }
    scratch.promise_render()
    scratch.run("snakemake", "--cores", "all")
    everything = scratch.ran()
    assert {step: everything.get(step) for step in wanted} == wanted
    scratch.run("dvc", "repro")
    assert scratch.ran() == {}

    scratch.set({K: 40})
    scratch.run("dvc", "repro")
    assert scratch.ran() == {"feature_plane": 1, "filter": 4, "render": 1, "train": 4}
    assert nothing_to_do(scratch)

    scratch.set({MOMENTUM: 0.5})  # of one start: the other MetaInit descends by Adam
    scratch.run("dvc", "repro")
    assert scratch.ran() == {"initialise": 1, "train_from_init": 1, "render": 1}
    assert nothing_to_do(scratch)

    scratch.set({LR: 0.05})
    scratch.run("snakemake", "--cores", "all")
    assert scratch.ran() == {"render": 1, "train": 34}  # all but end-to-end victims
    scratch.run("dvc", "repro")
    assert scratch.ran() == {}
    assert nothing_to_do(scratch)

    # Back to an older value: what it made then has been replaced, so it runs again, in either engine.
    scratch.set({K: 50})
    scratch.run("dvc", "repro")
    assert scratch.ran() == {"feature_plane": 1, "filter": 4, "render": 1, "train": 4}

    # A formula and a comment.
    scratch.edit("src/relearn/methods/l2_outliers.py", "from __future__", "# why\nfrom __future__")
    scratch.run("dvc", "repro")
    assert scratch.ran() == {}
    path = scratch.root / "src/relearn/methods/l2_outliers.py"
    path.write_text(f"{path.read_text()}\n\nONE_MORE = 1\n")
    scratch.run("dvc", "repro")
    assert scratch.ran() == {"filter": 2, "render": 1, "train": 2}
    assert nothing_to_do(scratch)

    # A smaller grid makes the report anew and nothing else; the larger one again finds its old runs.
    victims = "poisoning.pretrain.victims.architectures"
    scratch.set({victims: ["SENet18"]})
    scratch.run("dvc", "repro")
    assert scratch.ran() == {"render": 1}
    scratch.set({victims: ["SENet18", "ResNet18"]})
    scratch.run("snakemake", "--cores", "all")
    assert scratch.ran() == {"render": 1}
    scratch.run("dvc", "repro")
    assert scratch.ran() == {}

    # A lost file is made again by the one and found by the other.
    next((scratch.root / "results/mini/runs/poisoning/train").rglob("trials.csv")).unlink()
    scratch.run("dvc", "repro")
    assert scratch.ran() == {"render": 1, "train": 1}
    assert nothing_to_do(scratch)

    # A wrong value stops both before the first job, in words.
    scratch.set({K: 4000})
    for command in (["snakemake", "--cores", "all"], ["dvc", "repro"]):
        refused = scratch.run(*command, ok=False)
        assert refused.returncode != 0
        assert "poisoning.filter.deep_knn.k: found 4000, allowed: at most" in refused.stdout + refused.stderr
    assert scratch.ran() == {}
