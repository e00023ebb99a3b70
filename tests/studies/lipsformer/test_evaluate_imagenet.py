"""retest: numbers against a slow count image by image, for our files and for checkpoints of timm's networks."""

import csv
import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from relearn import cli
from relearn.data import imagenet_real
from relearn.models import checkpoints, timm_names, vision
from relearn.models.vision import create
from relearn.studies import parameters
from relearn.studies.lipsformer.plan import plan
from relearn.studies.lipsformer.steps import evaluate_imagenet as retest

from ...steps.recorded import made_by

ROOT = Path(__file__).parents[3]
VIT = {"name": "vit_tiny_patch16_224", "patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 2}
CLASSES, SIZE = 12, 16
SETTINGS: dict[str, Any] = {
    "network": VIT,
    "classes": CLASSES,
    "val": "val",
    "v2": "v2",
    "real": True,
    "size": SIZE,
    "crop_ratio": 0.8,
    "interpolation": "bicubic",
    "average": False,
    "batch_size": 5,
    "test_images": 0,
}
MIRROR = Path(os.environ.get("RELEARN_MIRROR", ""), "imagenet_sample_derived")


def network(**changed: Any):
    """Large weights at the end, so that images differ in their class."""
    arguments = {**VIT, "classes": CLASSES, "size": SIZE, **changed}
    torch.manual_seed(0)
    net = create(arguments.pop("name"), **arguments)
    with torch.no_grad():
        for parameter in net.trunk.parameters():
            parameter.add_(torch.randn_like(parameter))
    return net.eval()


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """val: 12 classes by letter with official names, out of order; v2: folders 0 to 11."""
    path, rng = tmp_path_factory.mktemp("mirror"), np.random.default_rng(0)
    order = rng.permutation(2 * CLASSES) + 1
    for label in range(CLASSES):
        for part, folder in (("val", f"class_{label:02d}"), ("v2", str(label))):
            (path / part / folder).mkdir(parents=True)
            for each in range(2):
                pixels = rng.integers(0, 256, (20, 26, 3), np.uint8)
                named = f"ILSVRC2012_val_{order[2 * label + each]:08d}" if part == "val" else f"{each}"
                Image.fromarray(pixels).save(path / part / folder / f"{named}.png")
    return path


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """Of every third image none, of the others two classes."""
    labels = [[] if n % 3 == 0 else [n % CLASSES, (5 * n + 1) % CLASSES] for n in range(2 * CLASSES)]
    (tmp_path / "real.json").write_text(json.dumps(labels))
    return tmp_path / "real.json"


@pytest.fixture(autouse=True)
def here(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEARN_MIRROR", str(mirror))


def slow(net, files: list[Path]) -> list[int]:
    """One image after another, by timm's own transform with the network's own normalisation."""
    made = import_module("timm.data").create_transform(
        SIZE,
        crop_pct=0.8,
        interpolation="bicubic",
        mean=net.mean.flatten().tolist(),
        std=net.std.flatten().tolist(),
    )
    with torch.no_grad():
        return [int(net.trunk(made(Image.open(path))[None]).argmax()) for path in files]


def truth(net, mirror: Path, real: Path) -> dict[str, tuple[float, int]]:
    labels = json.loads(real.read_text())
    found = {}
    for part in ("val", "v2"):
        files = sorted((mirror / part).rglob("*.png"))
        guesses = slow(net, files)
        right = [guess == int(path.parent.name.removeprefix("class_")) for guess, path in zip(guesses, files)]
        found[part] = (sum(right) / len(right), len(right))
        if part == "val":
            allowed = [labels[int(path.stem[-8:]) - 1] for path in files]
            counted = [guess in classes for guess, classes in zip(guesses, allowed) if classes]
            found["real"] = (sum(counted) / len(counted), len(counted))
    return found


def step(out: Path, weights: Path, file: Path | None = None, **changed: Any) -> dict[str, Any]:
    inputs = {"weights": [weights]} | ({"real": [file]} if file else {})
    return made_by(retest, out, SETTINGS | changed, inputs=inputs, study="lipsformer")


def rows_of(out: Path) -> dict[str, tuple[float, int]]:
    with (out / "retest.csv").open(newline="", encoding="utf-8") as file:
        return {row["set"]: (float(row["top1_frac"]), int(row["samples"])) for row in csv.DictReader(file)}


def same(found: dict[str, tuple[float, int]], wanted: dict[str, tuple[float, int]]) -> bool:
    return found.keys() == wanted.keys() and all(
        found[name] == pytest.approx(wanted[name]) for name in wanted
    )


def test_a_file_of_ours_is_retested_as_a_slow_count_says(tmp_path: Path, mirror: Path, real: Path) -> None:
    net = network(mean=[0.2, 0.4, 0.6], std=[0.5, 0.6, 0.7])
    vision.FILE.save(net, tmp_path / "ours.safetensors")
    done = step(tmp_path / "a", tmp_path / "ours.safetensors", real)
    wanted = truth(net, mirror, real)
    assert same(rows_of(tmp_path / "a"), wanted) and wanted["real"][1] == 16
    assert {name: done["metrics"][f"{name}_acc_frac"] for name in wanted} == {
        name: share for name, (share, _) in wanted.items()
    }
    assert (
        len({share for share, _ in wanted.values()}) == 3
        and len(set(slow(net, sorted(mirror.rglob("*.png"))))) > 3
    )
    assert done["metrics"]["parameters_count"] == sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("form", ["state.safetensors", "state.pth", "model.pth", "wrapped.pth.tar"])
def test_a_checkpoint_gets_timms_normalisation(tmp_path: Path, mirror: Path, real: Path, form: str) -> None:
    mean, std = checkpoints.normalisation(VIT["name"])
    net = network(mean=mean, std=std)
    assert mean == [0.5] * 3, "of this network; the usual one would be 0.485, 0.456, 0.406"
    state = net.trunk.state_dict()
    if form == "state.safetensors":
        save_file(state, tmp_path / form)
    else:
        wrapped = {"state_dict": {f"module.{name}": value for name, value in state.items()}, "epoch": 3}
        torch.save(
            {"state.pth": state, "model.pth": {"model": state}, "wrapped.pth.tar": wrapped}[form],
            tmp_path / form,
        )
    step(tmp_path / "a", tmp_path / form, real)
    assert same(rows_of(tmp_path / "a"), truth(net, mirror, real))


def test_the_average_is_another_state_of_the_same_file(tmp_path: Path) -> None:
    trained, averaged = network().trunk.state_dict(), network(depth=1).trunk.state_dict()
    averaged = {name: -value for name, value in averaged.items()}
    torch.save({"model": trained, "model_ema": averaged}, tmp_path / "both.pth")
    for average, state in ((False, trained), (True, averaged)):
        arguments = {key: value for key, value in VIT.items() if key != "name"}
        net = checkpoints.load(
            VIT["name"], tmp_path / "both.pth", classes=CLASSES, size=SIZE, average=average, **arguments
        )
        assert not net.training
        assert all(torch.equal(value, state[name]) for name, value in net.trunk.state_dict().items())


def test_sets_can_be_left_out_and_thinned(tmp_path: Path, real: Path) -> None:
    vision.FILE.save(network(), tmp_path / "ours.safetensors")
    step(tmp_path / "a", tmp_path / "ours.safetensors", val=None, real=False)
    assert set(rows_of(tmp_path / "a")) == {"v2"}
    done = step(tmp_path / "b", tmp_path / "ours.safetensors", v2=None, real=False, test_images=12)
    assert rows_of(tmp_path / "b")["val"][1] == 12 and "v2_acc_frac" not in done["metrics"]
    images = retest._found("val", CLASSES).evenly_spaced(12)
    assert images.labels.tolist() == list(range(12)), "evenly spread, so every class is there"
    step(tmp_path / "c", tmp_path / "ours.safetensors", real, v2=None, batch_size=24)
    assert set(rows_of(tmp_path / "c")) == {"val", "real"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"val": None, "real": True}, "val is null; allowed: a folder"),
        ({"val": None, "real": False, "v2": None}, "val is null; allowed: a folder"),
        ({"val": "elsewhere"}, "elsewhere: no such images here; allowed: RELEARN_MIRROR names"),
        ({"network": {"name": "vit_base_patch16_224"}}, "network: vit_base_patch16_224; allowed: vit_tiny"),
        ({"size": 24}, "size is 24; allowed: 16, of "),
        (
            {"average": True},
            "average is true; allowed: false, or averaged.safetensors instead of .*ours.safetensors",
        ),
        ({"interpolation": "nearest"}, "interpolation is 'nearest'; allowed"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    vision.FILE.save(network(), tmp_path / "ours.safetensors")
    with pytest.raises(ValueError, match=said):
        step(tmp_path / "a", tmp_path / "ours.safetensors", **({"real": False} | changed))


def test_files_that_are_no_weights_are_refused_in_one_line(tmp_path: Path) -> None:
    state = network().trunk.state_dict()
    torch.save(state, tmp_path / "state.pth")
    torch.save({"model": network, **state}, tmp_path / "code.pth")
    (tmp_path / "text.safetensors").write_text("no weights")
    (tmp_path / "net.onnx").write_text("no weights")
    for name, changed, said in (
        (
            "state.pth",
            {"classes": 9},
            r"state.pth: not weights of vit_tiny_patch16_224 for 9 classes: size mismatch",
        ),
        ("state.pth", {"network": {**VIT, "depth": 2}}, r"not weights of .*: Missing key"),
        (
            "code.pth",
            {},
            r"code.pth: not weights of vit_tiny_patch16_224 for 12 classes: RuntimeError weights_only",
        ),
        ("text.safetensors", {}, r"text.safetensors: not a safetensors file"),
        ("net.onnx", {}, r"net.onnx: ends in '.onnx'; allowed: .safetensors, .pth"),
        ("state.pth", {"network": {"name": "no_network"}}, r"network: 'no_network' \(allowed"),
    ):
        with pytest.raises(ValueError, match=said) as told:
            step(tmp_path / "a", tmp_path / name, **({"real": False} | changed))
        assert "\n" not in str(told.value)


def test_outputs_that_are_not_finite_are_reported(tmp_path: Path) -> None:
    net = network()
    with torch.no_grad():
        net.head.bias[0] = torch.nan
    vision.FILE.save(net, tmp_path / "ours.safetensors")
    with pytest.raises(ValueError, match="vit_tiny_patch16_224: logits that are not finite"):
        step(tmp_path / "a", tmp_path / "ours.safetensors", real=False)


def test_the_settings_of_the_documents_are_those_of_the_step() -> None:
    page = (ROOT / "docs/imagenet-checks.md").read_text(encoding="utf-8")
    shown = json.loads(re.findall(r"--settings '(.*?)'", page, re.S)[0])
    assert shown.keys() == SETTINGS.keys() and shown["network"]["name"] in timm_names.NAMES
    family = plan(parameters.load(ROOT / "params.yaml", "paper"), "paper")["evaluate_imagenet"]
    planned = family.settings_of(variant="CSwin-T")
    assert planned.keys() == shown.keys()
    assert all(planned[name] == shown[name] for name in ("val", "v2")), "the plan reads other folders"
    assert "3,163 images" in page and sum(not one for one in imagenet_real.load()) == 3163


def test_from_the_command_line(tmp_path: Path, real: Path) -> None:
    vision.FILE.save(network(), tmp_path / "ours.safetensors")
    arguments = ["--settings", json.dumps(SETTINGS), "--device", "cpu"]
    files = ["--input", "weights", str(tmp_path / "ours.safetensors"), "--input", "real", str(real)]
    assert (
        cli.main(["lipsformer", "evaluate_imagenet", *arguments, *files, "--out", str(tmp_path / "a")]) == 0
    )
    assert list(rows_of(tmp_path / "a")) == ["val", "real", "v2"]


@pytest.mark.skipif(not MIRROR.is_dir(), reason="RELEARN_MIRROR names no folder with images of ImageNet")
def test_a_constant_answer_is_right_for_one_real_image_of_a_thousand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that knows nothing but class 7 is right for one image of a thousand; every thousandth of 40 is none."""
    monkeypatch.setenv("RELEARN_MIRROR", str(MIRROR.parent))
    net = network(classes=1000)
    with torch.no_grad():
        net.head.weight.zero_()
        net.head.bias.copy_(torch.arange(1000) == 7)
    vision.FILE.save(net, tmp_path / "ours.safetensors")
    changed = {"val": MIRROR.name, "v2": None, "real": False, "classes": 1000, "test_images": 125}
    for batch_size in (7, 64):
        step(tmp_path / str(batch_size), tmp_path / "ours.safetensors", **changed, batch_size=batch_size)
        assert rows_of(tmp_path / str(batch_size)) == {"val": (0.0, 125)}
    with torch.no_grad():
        net.head.bias.copy_(torch.arange(1000) == 8)
    vision.FILE.save(net, tmp_path / "ours.safetensors")
    step(tmp_path / "b", tmp_path / "ours.safetensors", **changed)
    assert rows_of(tmp_path / "b") == {"val": (1 / 125, 125)}
