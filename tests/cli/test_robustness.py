"""relearn robustness: one command, its table and files, and one line for whatever is wrong."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn import cli
from relearn.cli import robustness
from relearn.cli.robustness import of_timm
from relearn.data.corruptions import LEVELS, NAMES
from relearn.models import checkpoints, vision
from relearn.runs.settings import read as read_settings
from relearn.steps import prepare_images as prepare

from ..studies.robustness.networks import VIT, folder, network, slow_logits, some_identifiers
from ..studies.robustness.test_folder_sets import GROUPS, NUMBER

ARGUMENTS = json.dumps({name: value for name, value in VIT.items() if name != "name"})
NAMED = ["--model", VIT["name"], "--size", "16", "--arguments", ARGUMENTS]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """state.pth of a network with timm's normalisation, ours.safetensors, and folders."""
    path = tmp_path_factory.mktemp("place")
    mean, std = checkpoints.normalisation(VIT["name"])
    net = network(mean=mean, std=std)
    with torch.no_grad():
        net.head.bias[12:] -= 100
    torch.save(net.trunk.state_dict(), path / "state.pth")
    vision.FILE.save(net, path / "ours.safetensors")
    folder(path / "val", some_identifiers(range(12)), 3)
    for variant in ("original", "mixed_same", "mixed_rand"):
        folder(path / "nine" / variant, GROUPS, size=(16, 16))
    return path


def run(out: Path, *words: str) -> int:
    return cli.main(["robustness", *words, "--device", "cpu", "--out", str(out)])


def read(out: Path) -> dict[str, Any]:
    return json.loads((out / "robustness.json").read_text())


def test_a_checkpoint_of_a_timm_network(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--set", f"val={place / 'val'}", "--set", f"nine={place / 'nine'}", "--on-missing-class", "skip"]
    words += ["--pgd-eps", "1/255", "0.03", "--pgd-steps", "2", "--pgd-images", "6", "--pgd-unchecked"]
    words += ["--corruptions", "fog,snow", "--severities", "1,3"]
    assert run(tmp_path, *NAMED, "--weights", str(place / "state.pth"), *words) == 0
    shown = capsys.readouterr().out
    told = read(tmp_path)
    net = vision.FILE.load(place / "ours.safetensors")
    paths = sorted((place / "val").rglob("*.png"))
    ratio = of_timm(VIT["name"])["crop_ratio"]
    answers = slow_logits(net, paths, ratio).argmax(1).tolist()
    right = sum(answer == NUMBER[path.parent.name] for answer, path in zip(answers, paths))
    val = told["sets"][0]
    assert (val["set"], val["correct_count"], val["samples_count"]) == ("val", right, 36) and right > 0
    assert val["protocol"]["resize"] == int(16 / ratio) and val["protocol"]["crop"] == 16
    assert len(val["protocol"]["subset"]) == 64 and val["protocol"]["mask"] == "none"
    assert told["metrics"]["acc_frac"] == right / 36 and "nine_gap_frac" in told["metrics"]
    assert [one["eps"] for one in told["attacks"]] == [1 / 255, 0.03]
    assert "pgd linf eps 1/255 " in shown and "pgd linf eps 7.65/255 " in shown
    assert told["model"]["parameters_count"] == sum(one.numel() for one in net.parameters())
    with (tmp_path / "sets.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["correct_count"]) for row in rows] == [one["correct_count"] for one in told["sets"]]
    lines = shown.splitlines()
    assert lines[0].split() == ["set", "images", "accuracy,", "%", "protocol"]
    assert (
        lines[1].split()[:3] == ["val", "36", f"{100 * right / 36:.2f}"]
        and val["protocol"]["subset"][:12] in lines[1]
    )
    assert (
        any(line.startswith("corrupted fog severity 1,3 ") for line in lines) and "ImageNet-9 gap: " in shown
    )
    assert (
        "set val: 988 of 1000 classes missing" in shown
        and str(place) not in (tmp_path / "robustness.json").read_text()
    )


def test_a_file_of_ours_says_itself_what_it_is(place: Path, tmp_path: Path) -> None:
    words = [
        "--set",
        f"val={place / 'val'}",
        "--on-missing-class",
        "skip",
        "--images",
        "12",
        "--crop-ratio",
        "0.9",
    ]
    assert run(tmp_path, "--model", str(place / "ours.safetensors"), *words) == 0
    told = read(tmp_path)
    assert told["protocol"]["size"] == 16 and told["protocol"]["crop_ratio"] == 0.9
    assert told["sets"][0]["samples_count"] == 12 and told["model"]["name"] == VIT["name"]


def test_prepared_test_images_are_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from relearn.runs import record

    what: dict[str, Any] = {"study": "poisoning", "paper": "zhu2022", "step": "prepare", "scale": "mini"}
    split = {"dataset": "digits", "pretrain_per_class": 10, "fine_tune_per_class": 1, "pool_per_class": 1}
    with record.Run(tmp_path / "data", **what, labels={}, seed=0, settings=split) as one:
        prepare.run(one, read_settings(prepare.Settings, split), {}, "cpu", "fp32")
    net = network(10, in_channels=1, size=8, patch_size=4, mean=[0.5], std=[0.5])
    vision.FILE.save(net, tmp_path / "net.safetensors")
    words = [
        "--model",
        str(tmp_path / "net.safetensors"),
        "--set",
        f"test={tmp_path / 'data/data.safetensors'}",
    ]
    assert run(tmp_path / "a", *words, "--images", "20", "--corruptions", "all", "--severities", "5") == 0
    assert [row["set"] for row in read(tmp_path / "a")["sets"]] == ["test"] + 15 * ["corrupted"]
    assert run(tmp_path / "b", *words, "--images", "20", "--corruptions", "fog", "--seed", "1") == 0
    again = [str(tmp_path / "b/sets.csv"), "--corruptions", "fog", "--seed", "1"]
    assert run(tmp_path / "c", *words, "--images", "20", "--reference", *again) == 0
    assert read(tmp_path / "c")["metrics"]["mce_frac"] == pytest.approx(1)
    assert run(tmp_path / "d", *words, "--reference", *again, "--severities", "1,3") == 2
    assert "found severities 1,2,3,4,5, allowed: those of --severities, 1,3" in capsys.readouterr().err


def test_bad_images_are_counted_and_listed(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    val = folder(tmp_path / "val", some_identifiers(range(3)), 3)
    torn = sorted(val.rglob("*.png"))[4]
    torn.write_bytes(torn.read_bytes()[:50])
    words = ["--model", str(place / "ours.safetensors"), "--set", f"val={val}", "--on-missing-class", "skip"]
    assert run(tmp_path / "a", *words) == 2
    fault = capsys.readouterr().err.strip().splitlines()[-1]
    assert fault.startswith("relearn robustness: ") and torn.name in fault
    assert run(tmp_path / "b", *words, "--on-bad-image", "skip") == 0
    assert "could not be decoded and were left out: 1, see bad_images.csv" in capsys.readouterr().out
    told = read(tmp_path / "b")
    assert told["sets"][0]["samples_count"] == 8 and told["sets"][0]["protocol"]["left_out"] == 1
    with (tmp_path / "b/bad_images.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["file"] == f"{torn.parent.name}/{torn.name}" and row["set"] == "val"


def test_a_wrong_call_is_one_line(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    val, state, ours = (str(place / name) for name in ("val", "state.pth", "ours.safetensors"))
    for words, code, said in (
        ([*NAMED, "--set", f"val={val}"], 2, "needs weights; allowed: --weights FILE, or --pretrained"),
        (
            ["--model", "resnet18", "--weights", state, "--set", f"val={val}"],
            2,
            "not weights of resnet18 for 1000 classes",
        ),
        (
            ["--model", "resnet8x", "--weights", state, "--set", f"val={val}"],
            2,
            "network: 'resnet8x' (allowed: a name",
        ),
        (["--model", "resnet8x", "--set", f"val={val}"], 2, "network: 'resnet8x' (allowed: a name"),
        (
            ["--model", state, "--set", f"val={val}"],
            2,
            "does not say what it holds; allowed: --model NAME --weights",
        ),
        (
            ["--model", ours, "--weights", state, "--set", f"val={val}"],
            2,
            "a file, and weights too; allowed: one",
        ),
        (["--model", "none.safetensors", "--set", f"val={val}"], 3, "none.safetensors: no such file"),
        ([*NAMED, "--weights", "none.pth", "--set", f"val={val}"], 3, "--weights none.pth: no such file"),
        (["--model", ours, "--set", "val=nowhere"], 3, "--set val: no folder or file nowhere"),
        (["--model", ours, "--set", "test=."], 2, "--set test: found a folder ., allowed: a file"),
        (["--model", ours, "--set", f"val={ours}"], 2, "ours.safetensors, allowed: a folder"),
        (
            ["--model", ours, "--set", f"val={val}"],
            2,
            "988 of 1000 classes missing, the first is 12 (n01532829)",
        ),
        (["--model", ours, "--set", f"val={val}", "--set", f"val={val}"], 2, "--set: a name twice"),
        (["--model", ours, "--set", f"c={val}"], 2, "is not a corruption"),
        (["--model", ours, "--set", f"nine={val}"], 2, "no folder original; allowed"),
        (["--model", ours, "--size", "24", "--set", f"val={val}"], 2, "protocol.size is 24; allowed: 16"),
        (
            ["--model", ours, "--interpolation", "nearest", "--set", f"val={val}"],
            2,
            "--interpolation 'nearest'; allowed",
        ),
        (["--model", ours], 2, "--set: found none, allowed: NAME=PLACE, at least once, with a name of val"),
        (
            ["--model", ours, "--set", f"val={val}", "--corruptions", "fogs"],
            2,
            "corruption 'fogs' is unknown; did you mean 'fog'? allowed: gaussian_noise",
        ),
        (
            ["--model", ours, "--set", f"val={val}", "--corruptions", "fog", "--severities", "6"],
            2,
            "--severities: found 6, allowed: 1 to 5",
        ),
        (["--model", ours, "--set", f"val={val}", "--pgd-eps", "0"], 2, "pgd.eps is [0.0]; allowed"),
    ):
        capsys.readouterr()
        assert run(tmp_path / "out", *words) == code, words
        told = capsys.readouterr().err.strip().splitlines()
        assert len(told) == 1 and said in told[0], told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--threads", "0"], 2, "--threads: found 0, allowed: at least 1"),
        (["--batch-size", "0"], 2, "--batch-size: found 0, allowed: at least 1"),
        (["--images", "-4"], 2, "--images: found -4, allowed: at least 0"),
        (["--classes", "0"], 2, "--classes: found 0, allowed: at least 1"),
        (["--size", "0"], 2, "--size: found 0, allowed: at least 1"),
        (["--crop-ratio", "-1"], 2, "--crop-ratio: found -1, allowed: above 0, at most 1"),
        (["--crop-ratio", "0"], 2, "--crop-ratio: found 0, allowed: above 0, at most 1"),
        (["--cropped-ratio", "nan"], 2, "--cropped-ratio: found nan, allowed: above 0, at most 1"),
        (["--severities", "1,9"], 2, "--severities: found 9, allowed: 1 to 5"),
        (["--pgd-steps", "0"], 2, "--pgd-steps: found 0, allowed: at least 1"),
        (
            ["--pgd-eps", "0.1", "--pgd-steps", "1"],
            2,
            "--pgd-steps: found 1, allowed: at least 2, or --pgd-unchecked: the checks add larger steps",
        ),
        (["--reference", "nowhere.csv"], 3, "--reference nowhere.csv: no such file"),
        (["--real-labels", "nowhere.json"], 3, "--real-labels nowhere.json: no such file"),
    ],
)
def test_wrong_numbers_are_refused_before_anything_is_loaded(
    words: list[str],
    code: int,
    says: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(robustness, "network", lambda args: pytest.fail("it loads"))
    threads = torch.get_num_threads()
    val = ["--model", str(place / "ours.safetensors"), "--set", f"val={place / 'val'}"]
    assert run(tmp_path / "out", *val, *words) == code
    said = capsys.readouterr().err
    assert said == f"relearn robustness: {says}\n" and not (tmp_path / "out").exists()
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ("mild,0.5", "severity: found 'mild', allowed: a number"),
        ("1,half", "accuracy_frac: found 'half', allowed: a number"),
        ("1", "accuracy_frac: found None, allowed: a number"),
    ],
)
def test_a_reference_without_numbers_is_one_line_with_its_place(
    cells: str, says: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sets.csv"
    file.write_text(f"set,corruption,severity,accuracy_frac\ntest,,,0.9\ncorrupted,fog,{cells}\n")
    words = ["--model", str(place / "ours.safetensors"), "--set", f"val={place / 'val'}"]
    assert run(tmp_path / "out", *words, "--severities", "1", "--reference", str(file)) == 2
    assert capsys.readouterr().err == f"relearn robustness: --reference {file}, line 3: {says}\n"


def test_a_file_is_no_folder(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    words = ["--model", str(place / "ours.safetensors"), "--set", f"val={place / 'val'}"]
    assert run(tmp_path / "file", *words) == 2
    said = capsys.readouterr().err
    assert said == f"relearn robustness: --out {tmp_path / 'file'}: found a file, allowed: a folder\n"


def test_an_unknown_device_leaves_no_folder(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", str(place / "ours.safetensors"), "--set", f"val={place / 'val'}", "--device", "tpu"]
    assert cli.main(["robustness", *words, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("relearn robustness: --device 'tpu'") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("word", ["v3=x", "val", "val=", "=x"])
def test_sets_of_other_names_are_refused(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--model", "resnet18", "--set", word) == 2
    assert (
        "allowed is name=place with a name of val, real, v2, c, a, r, nine, cifar_c, test"
        in capsys.readouterr().err
    )


def test_timms_own_protocol_is_the_default() -> None:
    wanted = {"size": 224, "crop_ratio": 0.9, "crop_mode": "center", "interpolation": "bicubic"}
    assert of_timm("vit_tiny_patch16_224") == wanted
    assert of_timm("no network") == {}


def test_timms_test_size_crop_ratio_and_crop_mode_are_the_default() -> None:
    """timm validates resnet50 at 288 pixels, and some checkpoints with squashed images."""
    assert (of_timm("resnet50")["size"], of_timm("resnet50")["crop_ratio"]) == (288, 1.0)
    squashed = of_timm("vit_base_patch16_clip_384.openai_ft_in12k_in1k")
    assert squashed["crop_mode"] == "squash"


def test_the_documented_command_measures_every_set(place: Path, tmp_path: Path) -> None:
    """docs/robustness.md gives no --corruptions: all 75 folders of ImageNet-C and mCE must be there all the same."""
    few = some_identifiers(range(2))
    for name in NAMES:
        for level in LEVELS:
            folder(tmp_path / "c" / name / str(level), few, size=(16, 16))
    words = ["--set", f"val={place / 'val'}", "--set", f"c={tmp_path / 'c'}", "--on-missing-class", "skip"]
    assert run(tmp_path / "out", *NAMED, "--weights", str(place / "state.pth"), *words) == 0
    told = read(tmp_path / "out")
    cells = {(row["corruption"], row["severity"]) for row in told["sets"] if row["set"] == "c"}
    assert cells == {(name, level) for name in NAMES for level in LEVELS}
    assert told["metrics"]["mce_frac"] > 0
    assert len([note for note in told["notes"] if note.startswith("set c: ")]) == 1, "one note for 75 folders"
    some = ["--set", f"c={tmp_path / 'c'}", "--on-missing-class", "skip", "--corruptions", "fog"]
    assert run(tmp_path / "some", *NAMED, "--weights", str(place / "state.pth"), *some) == 0
    assert {row["corruption"] for row in read(tmp_path / "some")["sets"]} == {"fog"}


def test_the_root_of_imagenet_is_no_set(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("train", "val"):
        folder(tmp_path / "imagenet" / part, some_identifiers(range(2)))
    words = ["--weights", str(place / "state.pth"), "--set", f"val={tmp_path / 'imagenet'}"]
    assert run(tmp_path / "out", *NAMED, *words) == 2
    assert "imagenet holds train and val; allowed: its folder val" in capsys.readouterr().err
