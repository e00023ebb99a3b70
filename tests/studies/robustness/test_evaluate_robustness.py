"""withstand: every table recomputed image by image from the network, what mCE is relative to, networks that know nothing."""

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.data.arrays import load_prepared
from relearn.data.corruptions import NAMES, corrupt
from relearn.data.corruptions.severities import SIZE
from relearn.measures.imagenet_mce import ALEXNET
from relearn.methods.pgd import pgd
from relearn.models import vision
from relearn.runs import record
from relearn.steps import list_imagenet as folder_step
from relearn.studies import parameters
from relearn.studies.robustness.plan import plan
from relearn.studies.robustness.steps import evaluate_robustness as withstand
from relearn.studies.robustness.steps.image_sets import Protocol, Row, hash_of_pixels
from relearn.studies.robustness.steps.metrics import metrics_of

from ...steps.recorded import made_by
from ...steps.vision_runs import Runs
from .networks import NOTHING, PROTOCOL, VIT, folder, network, some_identifiers

SETTINGS: dict[str, Any] = {
    **NOTHING,
    "images": 60,
    "corruptions": ["fog", "gaussian_noise", "frost"],
    "severities": [1, 4],
    "pgd": {"eps": [4 / 255, 16 / 255], "steps": 3, "restarts": 2, "images": 20, "checks": False},
}


class Digits(Runs):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.classify("lips", "lipsformer")
        self.model = self.root / "lips/model.safetensors"

    def withstand(
        self, name: str, settings: dict[str, Any], model: Path | None = None, **inputs: Path
    ) -> dict:
        given = {"data": self.data, "network": model or self.model} | inputs
        return self.step("evaluate_robustness", name, settings, {"network": name}, 3, **given)

    def images(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """At equal distances."""
        images, labels = load_prepared(self.data).test()
        kept = [number * len(images) // count for number in range(count)]
        return images[kept], labels[kept]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    digits = Digits(tmp_path_factory.mktemp("digits"))
    digits.withstand("w", SETTINGS)
    return digits


def right(net, images: torch.Tensor, labels: torch.Tensor) -> int:
    with torch.no_grad():
        return sum(
            int(net(one[None].float() / 255).argmax()) == label for one, label in zip(images, labels.tolist())
        )


def test_every_row_is_the_slow_count(runs: Digits) -> None:
    net, (images, labels) = runs.net("lips"), runs.images(60)
    wanted = {("test", "", ""): right(net, images, labels)}
    for name in ("fog", "gaussian_noise", "frost"):
        for level in (1, 4):
            each = [torch.from_numpy(corrupt(one[None].numpy(), name, level, seed=3))[0] for one in images]
            wanted["corrupted", name, str(level)] = right(net, torch.stack(each), labels)
    rows = runs.rows("w", "sets.csv")
    told = {(row["set"], row["corruption"], row["severity"]): int(row["correct_count"]) for row in rows}
    assert told == wanted and len(set(wanted.values())) > 2
    assert {row["samples_count"] for row in rows} == {"60"}
    assert all(float(row["accuracy_frac"]) == int(row["correct_count"]) / 60 for row in rows)
    metrics = record.read(runs.root / "w")["metrics"]
    corrupted = [value for key, value in wanted.items() if key[0] == "corrupted"]
    assert record.read(runs.root / "w")["outcome"] == "ok"
    assert metrics["acc_frac"] == wanted["test", "", ""] / 60
    assert metrics["corruption_acc_frac"] == pytest.approx(sum(corrupted) / 6 / 60)
    assert "mce_frac" not in metrics, "there is no reference"


def test_the_protocol_says_whose_images_and_how_they_were_made(runs: Digits) -> None:
    rows = {
        (row["set"], row["corruption"], row["severity"]): row["protocol"]
        for row in runs.rows("w", "sets.csv")
    }
    subset = hash_of_pixels(*runs.images(60))[:12]
    assert rows["test", "", ""] == f"test images of digits; mask none; subset {subset}"
    for key, words in rows.items():
        assert subset in words
        assert (
            ("CIFAR-10-C's constants, seed 3" in words)
            == (f"lengths times 8/{SIZE}" in words)
            == (key[0] != "test")
        )
        assert ("texture synthesised" in words) == (key[1] == "frost")


def test_attacks_are_pgds_own(runs: Digits) -> None:
    net, (images, labels) = runs.net("lips"), runs.images(60)
    kept = [number * 60 // 20 for number in range(20)]
    rows = runs.rows("w", "attacks.csv")
    for row, eps in zip(rows, (4 / 255, 16 / 255), strict=True):
        made = pgd(
            net, images[kept], labels[kept], eps=eps, step_size=2.5 * eps / 3, steps=3, restarts=2, seed=3
        )
        assert float(row["eps"]) == eps and row["samples_count"] == "20"
        assert float(row["accuracy_frac"]) == pytest.approx(1 - float(made.fooled.double().mean()))
        assert hash_of_pixels(images[kept], labels[kept])[:12] in row["protocol"]
    metrics = record.read(runs.root / "w")["metrics"]
    assert metrics["pgd_acc_frac"] == metrics["pgd_eps_16_255_acc_frac"] == float(rows[1]["accuracy_frac"])
    assert float(rows[1]["accuracy_frac"]) < float(rows[0]["accuracy_frac"])


def test_mce_is_relative_to_the_given_network(runs: Digits, tmp_path: Path) -> None:
    settings = SETTINGS | {"pgd": None}
    same = runs.withstand("same", settings, reference=runs.root / "w/sets.csv")
    assert same["metrics"]["mce_frac"] == pytest.approx(1.0)
    assert any(
        "mce_frac: of set corrupted, relative to sets.csv of another network" in one for one in same["notes"]
    )
    rows = runs.rows("w", "sets.csv")
    half = tmp_path / "sets.csv"  # a network with twice the distance from perfect on fog alone
    with half.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        for row in rows:
            error = 1 - float(row["accuracy_frac"])
            row["accuracy_frac"] = str(1 - error / 2) if row["corruption"] == "fog" else row["accuracy_frac"]
            table.writerow(row)
    assert runs.withstand("half", settings, reference=half)["metrics"]["mce_frac"] == pytest.approx(
        (2 + 1 + 1) / 3
    )
    with pytest.raises(ValueError, match="only one of network and reference has frost"):
        runs.withstand("less", settings | {"corruptions": ["fog", "gaussian_noise"]}, reference=half)
    with pytest.raises(ValueError, match="a reference, and no corrupted images"):
        runs.withstand("none", settings | {"corruptions": []}, reference=half)
    half.write_text("set,corruption,severity,accuracy_frac\ntest,,,0.5\n")
    with pytest.raises(ValueError, match=r"sets.csv: no rows of set corrupted; allowed"):
        runs.withstand("other_set", settings, reference=half)


def test_a_reference_that_diverged_or_is_perfect_gives_no_mce(tmp_path: Path) -> None:
    how, path = Protocol("made up"), tmp_path / "sets.csv"
    rows = [Row("corrupted", 10, 5, how, name, 1) for name in ("fog", "snow")]
    for text, said in (
        ("", "no mce_frac: .* which diverged"),
        ("corrupted,fog,1,1.0\ncorrupted,snow,1,0.5\n", "no mce_frac: .* which makes no errors under fog"),
    ):
        path.write_text(f"set,corruption,severity,accuracy_frac\n{text}")
        metrics, notes = metrics_of(rows, path)
        assert "mce_frac" not in metrics and re.search(said, notes[0])
    path.write_text("set,corruption,severity,accuracy_frac\ncorrupted,fog,2,0.5\ncorrupted,snow,1,0.5\n")
    with pytest.raises(
        ValueError, match=r"sets.csv: fog: severities \[2\]; allowed: \[1\], as of this network"
    ):
        metrics_of(rows, path)
    released = [Row("c", 10, 5, how, name, level) for name in ALEXNET for level in range(1, 6)]
    lines = "".join(f"c,{row.corruption},{row.severity},0.75\n" for row in released)
    path.write_text(f"set,corruption,severity,accuracy_frac\n{lines}")
    metrics, notes = metrics_of(released, path)
    assert metrics["reference_mce_frac"] == pytest.approx(2) and metrics["mce_frac"] < 1 and len(notes) == 2


def test_mce_of_the_released_files_is_relative_to_alexnet_and_wants_all_of_them() -> None:
    how = Protocol("made up")
    rows = [
        Row("c", 1000, 1000 - round(1000 * mean / 2), how, name, level)
        for name, mean in ALEXNET.items()
        for level in range(1, 6)
    ]
    metrics, notes = metrics_of(rows)
    assert metrics["mce_frac"] == pytest.approx(0.5, abs=1e-3) and "AlexNet" in notes[0]
    assert metrics["c_acc_frac"] == metrics["corruption_acc_frac"]
    other = [replace(row, severity=(row.severity or 0) - 1) for row in rows]  # five severities, but others
    assert all("mce_frac" not in metrics_of(some)[0] for some in (rows[1:], rows[5:], other))
    generated = [Row("corrupted", 1000, 500, how, row.corruption, row.severity) for row in rows]
    metrics, notes = metrics_of(generated)
    assert "mce_frac" not in metrics and not notes, "AlexNet's errors belong to the released files"


def test_metrics_of_the_derived_sets() -> None:
    how = Protocol("made up")
    shares = {
        "test": 90,
        "val": 80,
        "a": 30,
        "a_unmasked": 20,
        "nine_original": 95,
        "nine_same": 70,
        "nine_rand": 55,
    }
    metrics, _ = metrics_of([Row(name, 100, count, how) for name, count in shares.items()])
    assert metrics.pop("acc_frac") == 0.9 and metrics.pop("nine_gap_frac") == pytest.approx(0.15)
    assert metrics == {f"{name}_acc_frac": count / 100 for name, count in shares.items() if name != "test"}
    assert metrics_of([Row("val", 100, 80, how)])[0]["acc_frac"] == 0.8


def test_networks_that_know_nothing(runs: Digits, tmp_path: Path) -> None:
    net = runs.net("lips")
    with torch.no_grad():
        net.head.weight.zero_()
        net.head.bias.zero_()
    vision.FILE.save(net, tmp_path / "nothing.safetensors")
    done = runs.withstand(
        "nothing", SETTINGS | {"pgd": None, "corruptions": []}, tmp_path / "nothing.safetensors"
    )
    assert done["outcome"] == "not_converged" and 0 < done["metrics"]["acc_frac"] < 0.3
    with torch.no_grad():
        net.head.bias[0] = torch.nan
    vision.FILE.save(net, tmp_path / "broken.safetensors")
    done = runs.withstand("broken", SETTINGS, tmp_path / "broken.safetensors")
    assert done["outcome"] == "diverged" and "not finite" in done["outcome_reason"] and not done["metrics"]
    assert runs.rows("broken", "sets.csv") == runs.rows("broken", "attacks.csv") == []


@pytest.mark.parametrize(("corruptions", "folder"), [([], ""), (["fog"], ""), ([], "imagenet-c")])
def test_without_corrupted_images_no_run_reads_the_reference(corruptions: list[str], folder: str) -> None:
    params = parameters.load(Path(__file__).parents[3] / "params.yaml", scale="mini")
    own = params["robustness"]["withstand"]
    own |= {"corruptions": corruptions, "sets": own["sets"] | {"c": folder}}
    reads = plan(params, "mini")["evaluate_robustness"].inputs["reference"]
    for name in own["networks"]:
        needed = name != own["reference"] and (corruptions or folder)
        assert len(reads(network=name, seed="0")) == bool(needed)


def test_all_corruptions_and_checks_of_the_attack(runs: Digits) -> None:
    settings = NOTHING | {"images": 10, "corruptions": "all", "severities": [2]}
    settings["pgd"] = {"eps": [8 / 255], "steps": 4, "restarts": 1, "images": 10, "checks": True}
    done = runs.withstand("all", settings)
    rows = [row for row in runs.rows("all", "sets.csv") if row["set"] == "corrupted"]
    assert [row["corruption"] for row in rows] == list(NAMES)
    assert "masked_gradient_flags_count" in done["metrics"] and "masked gradients" in " ".join(done["notes"])


def test_folders_of_the_mirror_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network with its own file; val is corrupted and attacked; acc_frac is that of val."""
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path))
    folder(tmp_path / "imagenet/val", some_identifiers(range(6)), 2)
    net = network(seed=1)
    with torch.no_grad():
        net.head.bias[2] += 1e4
    vision.FILE.save(net, tmp_path / "net.safetensors")
    settings = NOTHING | {
        "sets": {"val": "imagenet/val"},
        "protocol": PROTOCOL,
        "corruptions": ["fog"],
        "pgd": {"eps": [1 / 255], "steps": 1, "restarts": 1, "images": 6, "checks": False},
    }

    def step(name: str, changed: dict[str, Any], weights: str = "net.safetensors") -> dict:
        given = {"network": [tmp_path / weights]}
        return made_by(withstand, tmp_path / name, settings | changed, inputs=given, study="robustness")

    metrics = step("a", {"sets": {"val": "imagenet/val", "v2": ""}})["metrics"]
    assert metrics["parameters_count"] == sum(one.numel() for one in net.parameters())
    assert metrics["acc_frac"] == metrics["val_acc_frac"] == metrics["corruption_acc_frac"] == 2 / 12
    assert metrics["pgd_acc_frac"] == 1 / 6 and metrics["pgd_count"] == 6
    torch.save(net.trunk.state_dict(), tmp_path / "state.pth")
    named = {**VIT, "classes": 1000, "average": False}
    assert step("b", {"network": named}, "state.pth")["metrics"]["acc_frac"] == 2 / 12
    for changed, weights, said in (
        ({"network": {**named, "depth": 2}}, "state.pth", "state.pth: not weights of vit_tiny_patch16_224"),
        ({}, "state.pth", "state.pth: does not say what network it holds"),
        ({"network": named, "protocol": None}, "state.pth", "protocol is null; allowed with network"),
        ({"sets": {"val": "elsewhere"}}, "net.safetensors", "sets.val: elsewhere: no such folder here"),
        ({"sets": {}}, "net.safetensors", "sets is empty and there is no data"),
        ({"pgd": {"eps": [0.1]}}, "net.safetensors", "the key pgd.steps is missing; found in pgd: eps"),
        ({"corruptions": "fog"}, "net.safetensors", "corruptions: found 'fog', allowed: all or a list"),
        ({"corruptions": ["fogs"]}, "net.safetensors", "corruption 'fogs' is unknown"),
        ({"severities": [6]}, "net.safetensors", "severity is 6"),
        ({"mask": True}, "net.safetensors", "the key mask is unknown; allowed: images, "),
    ):
        with pytest.raises(ValueError, match=said) as told:
            step("c", changed, weights)
        assert "\n" not in str(told.value)


def test_a_listed_folder_is_val(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of `relearn folder` replaces its val; files that it has not listed are refused."""
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path))
    for part in ("train", "val"):
        folder(tmp_path / "mine" / part, ["a", "b", "c"], 2)
    listed = {"dataset": "mine", "sha256": None}
    made_by(folder_step, tmp_path / "listing", listed, study="robustness", step="list_imagenet")
    net = network(3)
    with torch.no_grad():
        net.head.bias[1] += 1e4
    vision.FILE.save(net, tmp_path / "net.safetensors")
    given = {"network": [tmp_path / "net.safetensors"], "data": [tmp_path / "listing/listing.json"]}
    settings = NOTHING | {"sets": {"val": "", "a": ""}, "protocol": PROTOCOL}

    def step(name: str) -> dict:
        return made_by(withstand, tmp_path / name, settings, inputs=given, study="robustness")

    assert step("w")["metrics"]["acc_frac"] == 2 / 6
    next((tmp_path / "mine/val/a").iterdir()).rename(tmp_path / "mine/val/a/other.png")
    with pytest.raises(ValueError, match=r"mine: found other files than in .*listing.json"):
        step("x")


def test_a_network_for_other_images_is_refused(runs: Digits, tmp_path: Path) -> None:
    vision.FILE.save(network(10), tmp_path / "net.safetensors")
    said = "network vit_tiny_patch16_224: for 3 x 16 x 16 pixels and 10 classes; the data have 1 x 8 x 8 pixels and 10"
    with pytest.raises(ValueError, match=said):
        runs.withstand("other", SETTINGS, tmp_path / "net.safetensors")
