"""throughput: what the numbers are of, the order of the pairs, steps that infer and train, memory that is real, refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn import cli
from relearn.runs import record
from relearn.runs.settings import plain, read
from relearn.steps import throughput
from relearn.steps.trained import step_time

from .recorded import rows_of

SETTINGS: dict[str, Any] = {"network": "LipsFormer-Swin-T", "batch_size": 2, "size": 32, "pairs": 3}
SIDE: dict[str, Any] = dict(batch_size=1, size=32, classes=5, device="cpu", precision="fp32", arguments={})


def step(out: Path, **changes: Any) -> int:
    settings = json.dumps({**SETTINGS, **changes})
    words = ["lipsformer", "throughput", "--settings", settings, "--device", "cpu"]
    return cli.main([*words, "--out", str(out), "--label", "network=LipsFormer-Swin-T"])


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The n-th step of a kind takes n seconds, of the reference 3 n, in training twice that; who took a step."""
    seen: list[tuple[str, str]] = []

    def made(**side: Any):
        return lambda: seen.append((side["mode"], side["name"]))

    def timed(call, device):
        call()
        mode, name = seen[-1]
        size = (seen.count(seen[-1]) - 1) * (2 if mode == "training" else 1)
        return size * (1.0 if name.startswith("lipsformer") else 3.0)

    def peak(sides):
        return [
            (5e6 if side["mode"] == "training" else 2e6) * (1 if side["name"].startswith("lips") else 2)
            for side in sides
        ]

    monkeypatch.setattr(throughput, "make_step", made)
    monkeypatch.setattr(step_time, "timed", timed)
    monkeypatch.setattr(throughput, "peak_bytes", peak)
    return seen


def test_the_record_says_what_the_times_hold(tmp_path: Path, ticking: list[tuple[str, str]]) -> None:
    assert step(tmp_path / "a") == 0
    done = record.read(tmp_path / "a")
    assert record.verify_outputs(done) == [] and done["outcome"] == "ok"
    rows = rows_of(tmp_path / "a/throughput.csv")
    assert tuple(rows[0]) == throughput.COLUMNS
    assert [(row["mode"], row["pair"]) for row in rows] == [
        (m, str(p)) for m in throughput.MODES for p in range(3)
    ]
    assert [float(row["own_s"]) for row in rows] == [1, 2, 3, 2, 4, 6]
    assert [float(row["reference_s"]) for row in rows] == [3, 6, 9, 6, 12, 18]
    assert done["metrics"] == pytest.approx(
        {
            "images_per_s": 1.0,
            "images_per_s_ratio": 3.0,
            "peak_memory_mb": 2.0,
            "peak_memory_mb_ratio": 0.5,
            "train_images_per_s": 0.5,
            "train_images_per_s_ratio": 3.0,
            "train_peak_memory_mb": 5.0,
            "train_peak_memory_mb_ratio": 0.5,
        }
    )
    own, swin = (("inference", one) for one in throughput.NETWORKS["LipsFormer-Swin-T"])
    assert ticking[:8] == [own, swin, own, swin, swin, own, own, swin]


TINY = {"name": "cvt_13", "embed_dim": 4, "depths": [1, 1, 1], "patch_size": 1, "kv_stride": 1}
LONG_SHORT = {"name": "cvt_ls_13", "embed_dim": 4, "depths": [1, 1, 1], "patch_size": 1, "window": 2}


def test_any_two_timm_networks_are_compared_in_inference_only(tmp_path: Path) -> None:
    """As table 5.8 of zhu2022 asks: sizes are the arguments', real steps are taken, training is left out."""
    given = {
        "network": LONG_SHORT,
        "against": TINY,
        "classes": 10,
        "size": 8,
        "modes": ["inference"],
        "memory": False,
    }
    assert step(tmp_path / "a", **given) == 0
    done = record.read(tmp_path / "a")
    assert set(done["metrics"]) == {"images_per_s", "images_per_s_ratio"}
    assert done["metrics"]["images_per_s"] > 0
    assert any("beside cvt_13, batches of 2" in note for note in done["notes"])
    rows = rows_of(tmp_path / "a/throughput.csv")
    assert [row["mode"] for row in rows] == ["inference"] * 3
    speeds = sorted(2 / float(row["own_s"]) for row in rows)
    assert done["metrics"]["images_per_s"] == pytest.approx(speeds[1])


def test_both_sides_get_their_arguments_and_a_printed_name_its_form() -> None:
    def sides(**changes: Any) -> tuple[throughput.Network, throughput.Network]:
        return throughput.sides_of(read(throughput.Settings, {**SETTINGS, **changes}))

    own, beside = sides(network=LONG_SHORT, against="resnet50")
    assert plain(own) == LONG_SHORT and plain(beside) == {"name": "resnet50"}
    own, beside = sides(as_released=True)
    assert plain(own) == {"name": "lipsformer_swin_tiny", "as_released": True}
    assert plain(beside) == {"name": "swin_tiny_patch4_window7_224"}
    assert sides(against=TINY)[1].arguments["kv_stride"] == 1


def test_arguments_reach_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import relearn.models.vision as vision

    class Told(Exception):
        pass

    def create(name, **more):
        raise Told(name, more)

    monkeypatch.setattr(vision, "create", create)
    with pytest.raises(Told) as told:
        throughput.make_step(**{**SIDE, "arguments": {"kv_stride": 1}}, name="cvt_13", mode="inference")
    assert told.value.args == ("cvt_13", {"classes": 5, "size": 32, "kv_stride": 1})


@pytest.mark.parametrize("name", ["lipsformer_swin_tiny", "swin_tiny_patch4_window7_224"])
def test_steps_infer_and_train(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import relearn.models.vision as vision

    made: list[torch.nn.Module] = []
    create = vision.create
    small = dict(depths=(1, 1), num_heads=(1, 2), embed_dim=8)

    def smaller(*given, **more):
        made.append(create(*given, **more, **small))
        return made[-1]

    monkeypatch.setattr(vision, "create", smaller)
    for mode, moves in (("inference", False), ("training", True)):
        call = throughput.make_step(**SIDE, name=name, mode=mode)
        net = made[-1]
        before = [one.detach().clone() for one in net.parameters()]
        call()
        moved = [not torch.equal(a, b) for a, b in zip(before, net.parameters())]
        assert net.training is moves and any(moved) is moves
        assert step_time.timed(call, "cpu") > 0


def test_training_needs_more_memory_than_weights(tmp_path: Path) -> None:
    """LipsFormer-Swin-T with five classes: weights, gradients and two moments, and something for the images."""
    side = {**SIDE, "name": "lipsformer_swin_tiny", "mode": "training"}
    weights = 4 * (30_908_578 - 995 * 769)
    inference, training, again = throughput.peak_bytes([{**side, "mode": "inference"}, side, side])
    assert weights < inference < 2 * weights
    assert 4 * weights < training < 7 * weights
    assert again == pytest.approx(training, rel=0.02)  # no network counts the one before it


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"network": "Swin-T"}, "network: 'Swin-T' (allowed: LipsFormer-Swin-T, "),
        (
            {"network": {"depths": [1]}, "against": "resnet50"},
            "the key network.name is missing; found in network: depths",
        ),
        ({"network": {"name": "cvt_13"}}, "against: nothing (allowed beside a table: "),
        ({"modes": ["sleep"]}, "modes[0]: found 'sleep', allowed: inference, training"),
        ({"pairs": 0}, "pairs: 0 (allowed: at least 1)"),
        ({"batch_size": 0}, "batch_size: 0 (allowed: at least 1)"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, changes: dict, match: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert step(tmp_path / "refused", **changes) != 0
    assert match in capsys.readouterr().err
