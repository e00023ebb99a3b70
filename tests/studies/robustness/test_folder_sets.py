"""ImageNet's derived sets: every row against a slow count image by image, masks, missing classes, images that cannot be decoded."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from relearn.data import imagenet_nine
from relearn.data.corruptions import NAMES, corrupt
from relearn.data.imagenet_classes import identifiers, label_by_class
from relearn.data.imagenet_subsets import classes_of
from relearn.runs.settings import read
from relearn.studies.robustness.steps import folder_sets
from relearn.studies.robustness.steps.folder_pixels import Decoding
from relearn.studies.robustness.steps.image_sets import NotFinite, Row, hash_of_files, hash_of_pixels

from .networks import PROTOCOL, folder, network, slow_logits, some_identifiers

MIRROR = Path(os.environ.get("RELEARN_MIRROR", ""), "imagenet_sample_derived")
NUMBER = {name: number for number, name in enumerate(identifiers())}
GROUPS = [f"{number:02d}_{name}" for number, name in enumerate(imagenet_nine.NAMES)]


@pytest.fixture(scope="module")
def net():
    return network()


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A few classes of each set."""
    path = tmp_path_factory.mktemp("sets")
    few = some_identifiers(range(3, 15))
    found = {
        "val": folder(path / "val", few, 2),
        "v2": folder(path / "v2", [str(number) for number in range(12)], 2, seed=1),
        "a": folder(path / "a", some_identifiers(classes_of("a")[:9]), 6, seed=2),
        "r": folder(path / "r", some_identifiers(classes_of("r")[:9]), 6, seed=3),
    }
    for place, name in enumerate(("fog", "snow")):
        for level in (1, 5):
            folder(path / "c" / name / str(level), few, seed=10 * place + level, size=(16, 16))
    for place, variant in enumerate(imagenet_nine.VARIANTS.values()):
        folder(path / "nine" / variant / "val", GROUPS, 6, seed=20 + place, size=(16, 16))
    return {**found, "c": path / "c", "nine": path / "nine"}


@pytest.fixture(autouse=True)
def answers_that_are_often_right(monkeypatch: pytest.MonkeyPatch, net) -> None:
    """Of 1,000 classes a random network would hit none: classes beyond the first 60 or so get small logits."""
    with torch.no_grad():
        net.head.bias.copy_(torch.where(torch.arange(1000) < 60, 0.0, -20.0))


def measured(net, sets: dict[str, Path], images: int = 0, real: Path | None = None, **protocol: Any) -> Any:
    settings = read(Decoding, {**PROTOCOL, **protocol})
    found = folder_sets.Found()
    folder_sets.check(sets, settings, classes=net.description["classes"], size=net.description["size"])
    every = folder_sets.listed(
        sets,
        settings,
        classes=net.description["classes"],
        images=images,
        names=("fog", "snow"),
        severities=(1, 5),
        found=found,
    )
    folder_sets.evaluate(net, every, settings, found, real_labels=real)
    return found


def rows(found: Any) -> dict[tuple[str, str | None, int | None], Row]:
    return {(row.set, row.corruption, row.severity): row for row in found.rows}


def files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.png"), key=lambda path: (NUMBER.get(path.parent.name, -1), path))


def test_every_row_is_the_slow_count(net, sets: dict[str, Path]) -> None:
    found = measured(net, sets)
    told = {key: (row.correct_count, row.samples_count) for key, row in rows(found).items()}
    wanted: dict[tuple[str, str | None, int | None], tuple[int, int]] = {}

    def count(name: str, place: Path, ratio: float, mask=None, **where: Any) -> None:
        paths = sorted(place.rglob("*.png"))
        logits = slow_logits(net, paths, ratio)
        right = 0
        for z, path in zip(logits.tolist(), paths):
            among = range(1000) if mask is None else mask
            answer = max(among, key=lambda c: z[c])
            if name.startswith("nine"):
                right += imagenet_nine.group_of_class()[answer] == int(path.parent.name[:2])
            else:
                right += answer == NUMBER.get(
                    path.parent.name, int(path.parent.name) if name == "v2" else None
                )
        wanted[name, where.get("corruption"), where.get("severity")] = (right, len(paths))

    count("val", sets["val"], 0.8)
    count("v2", sets["v2"], 0.8)
    for name in ("a", "r"):
        count(name, sets[name], 0.8, classes_of(name))
        count(f"{name}_unmasked", sets[name], 0.8)
    for corruption in ("fog", "snow"):
        for level in (1, 5):
            where = {"corruption": corruption, "severity": level}
            count("c", sets["c"] / corruption / str(level), 1.0, **where)
    for name, variant in imagenet_nine.VARIANTS.items():
        count(name, sets["nine"] / variant / "val", 1.0)
    assert told == wanted
    assert sum(right for right, _ in wanted.values()) > 10, "a count of noughts would prove little"


def test_the_mask_decides(net, sets: dict[str, Path]) -> None:
    """A class outside the mask has the largest logit of every image, one inside the next: right for that class's 6 images."""
    inside, outside = classes_of("a")[4], 0
    assert outside not in classes_of("a")
    with torch.no_grad():
        net.head.bias[inside] += 1e4
        net.head.bias[outside] += 2e4
    found = rows(measured(net, {"a": sets["a"]}))
    assert (found["a", None, None].correct_count, found["a_unmasked", None, None].correct_count) == (6, 0)


def test_the_protocol_of_each_number(net, sets: dict[str, Path]) -> None:
    found = rows(measured(net, sets))
    val, fog, masked = found["val", None, None], found["c", "fog", 1], found["a", None, None]
    assert (val.protocol.resize, val.protocol.crop, val.protocol.interpolation) == (20, 16, "bicubic")
    assert (fog.protocol.resize, fog.protocol.crop) == (16, 16), "published as crops"
    assert masked.protocol.mask == "200 classes" and found["a_unmasked", None, None].protocol.mask == "none"
    assert "resize 20, crop 16, bicubic, mask 200 classes; subset " in str(masked.protocol)
    assert fog.protocol.subset != found["c", "fog", 5].protocol.subset
    assert val.protocol.subset == hash_of_files(label_by_class(sets["val"], classes=1000))
    other = rows(measured(net, {"c": sets["c"]}, cropped_ratio=0.8))["c", "fog", 1]
    assert other.protocol.resize == 20


def test_real_labels_go_with_the_names(net, sets: dict[str, Path], tmp_path: Path) -> None:
    labels = [[] if n % 4 == 0 else [n % 60, (7 * n + 3) % 60, (5 * n) % 60] for n in range(24)]
    (tmp_path / "real.json").write_text(json.dumps(labels))
    paths = files(sets["val"])
    answers = slow_logits(net, paths).argmax(1).tolist()
    allowed = [labels[int(path.stem[-8:]) - 1] for path in paths]
    wanted = sum(answer in classes for answer, classes in zip(answers, allowed) if classes)
    for given in ({"val": sets["val"], "real": sets["val"]}, {"real": sets["val"]}):
        found = rows(measured(net, given, real=tmp_path / "real.json"))
        row = found["real", None, None]
        assert (row.correct_count, row.samples_count) == (wanted, 18)
        assert {key[0] for key in found} == set(given)


@pytest.fixture
def torn(sets: dict[str, Path], tmp_path: Path) -> Iterator[tuple[dict[str, Path], list[Path]]]:
    """val with three images that cannot be decoded; labels of ReaL for all 24."""
    place = folder(tmp_path / "val", some_identifiers(range(3, 15)), 2)
    bad = [files(place)[number] for number in (0, 8, 17)]
    for path in bad:
        path.write_bytes(b"no image")
    yield {"val": place, "real": place}, bad


def test_bad_images_are_left_out_counted_and_listed(net, torn, tmp_path: Path) -> None:
    sets, bad = torn
    good = [path for path in files(sets["val"]) if path not in bad]
    answers = slow_logits(net, good).argmax(1).tolist()
    # of each image what the network answers, so that a shift by one image shows
    labels = [[999] for _ in range(24)]
    for path, answer in zip(good[:-4], answers):
        labels[int(path.stem[-8:]) - 1] = [answer]
    (tmp_path / "real.json").write_text(json.dumps(labels))
    with pytest.raises(ValueError, match="not an image that can be decoded"):
        measured(net, sets, real=tmp_path / "real.json")
    found = measured(net, sets, real=tmp_path / "real.json", on_bad_image="skip")
    assert [one.file for one in found.bad] == [f"{path.parent.name}/{path.name}" for path in bad]
    right = sum(answer == NUMBER[path.parent.name] for answer, path in zip(answers, good))
    told = rows(found)
    assert (told["val", None, None].correct_count, told["val", None, None].samples_count) == (right, 21)
    assert (told["real", None, None].correct_count, told["real", None, None].samples_count) == (17, 21)
    assert len(set(answers)) > 2
    assert told["val", None, None].protocol.left_out == 3
    assert "3 images left out" in str(told["val", None, None].protocol)


def test_all_images_bad_is_an_error(net, torn) -> None:
    sets, _ = torn
    for path in files(sets["val"]):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="set val: none of 24 images can be decoded"):
        measured(net, {"val": sets["val"]}, on_bad_image="skip")


def test_missing_classes_fail_or_are_noted(net, sets: dict[str, Path]) -> None:
    for name, said in (
        (
            "val",
            r"val: set val: 988 of 1000 classes missing, the first is 0 \(n01440764\); allowed: all of them",
        ),
        ("a", r"a: set a: 191 of 200 classes missing, the first is \d+ \(n\d{8}\)"),
    ):
        with pytest.raises(ValueError, match=said) as told:
            measured(net, {name: sets[name]}, on_missing_class="fail")
        assert "\n" not in str(told.value)
    found = measured(net, sets)
    assert "set r: 191 of 200 classes missing, the first is " in " ".join(found.notes)
    assert not any(str(sets["val"].parent) in note for note in found.notes), "no absolute path"


def test_a_class_outside_a_set_is_refused(net, sets: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=r"val: class 'n01\d+' is not one of the set's 200"):
        measured(net, {"a": sets["val"]})


def test_evenly_spread_images(net, sets: dict[str, Path]) -> None:
    found = rows(measured(net, {"val": sets["val"], "c": sets["c"]}, images=4))
    assert {row.samples_count for row in found.values()} == {4}
    images = label_by_class(sets["val"], classes=1000).evenly_spaced(4)
    assert images.labels.tolist() == [3, 6, 9, 12]
    assert found["val", None, None].protocol.subset == hash_of_files(images)
    assert len(images.evenly_spaced(0)) == len(images.evenly_spaced(9)) == 4


def test_a_hash_says_which_images(sets: dict[str, Path], tmp_path: Path) -> None:
    place = folder(tmp_path / "x", ["a", "b"], 2)
    images = label_by_class(place, classes=2)
    whole = hash_of_files(images)
    assert whole == hash_of_files(label_by_class(folder(tmp_path / "y", ["a", "b"], 2), classes=2)), (
        "not the place"
    )
    assert whole != hash_of_files(images.take([0, 1, 2])) != hash_of_files(images.take([0, 1, 3]))
    path = images.files[0]
    path.write_bytes(path.read_bytes() + b" ")
    assert whole != hash_of_files(images)
    pixels, labels = torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1])
    assert (
        len({hash_of_pixels(*one) for one in ((pixels, labels), (pixels + 1, labels), (pixels, labels + 1))})
        == 3
    )
    assert hash_of_pixels(pixels, labels) != hash_of_pixels(pixels.reshape(2, 4, 1, 1), labels)


def test_wrong_arguments_are_refused(net, sets: dict[str, Path]) -> None:
    ten = network(classes=10)
    for one, given, protocol, said in (
        (net, {"v3": sets["v2"]}, {}, "set 'v3' is unknown; allowed: val, real, v2, c, a, r, nine"),
        (ten, {"a": sets["a"]}, {}, "set a: the network has 10 classes; allowed: ImageNet's 1000"),
        (net, {"val": sets["val"]}, {"size": 24}, "protocol.size is 24; allowed: 16, of the network"),
        (net, {"val": sets["val"]}, {"mask": 1}, "the key mask is unknown; allowed: size"),
        (
            net,
            {"val": sets["val"]},
            {"on_bad_image": "hide"},
            "on_bad_image: found 'hide', allowed: fail, skip",
        ),
        (net, {"c": sets["val"]}, {}, "is not a corruption"),
    ):
        with pytest.raises(ValueError, match=said):
            measured(one, given, **protocol)
    with pytest.raises(ValueError, match="protocol is null; allowed with sets"):
        folder_sets.check(sets, None, classes=1000, size=16)
    broken = network()
    with torch.no_grad():
        broken.head.bias[3] = torch.nan
    with pytest.raises(NotFinite, match="vit_tiny_patch16_224: logits that are not finite"):
        measured(broken, {"val": sets["val"]})


@pytest.mark.skipif(not MIRROR.is_dir(), reason="RELEARN_MIRROR names no folder with images of ImageNet")
def test_real_images_as_every_set(net, tmp_path: Path) -> None:
    """The 1,000 real images replace the other sets: 200 classes as A and R, the dogs and birds … as ImageNet-9."""
    for name in ("a", "r"):
        (tmp_path / name).mkdir()
        for one in some_identifiers(classes_of(name)):
            (tmp_path / name / one).symlink_to(MIRROR / one)
    groups = imagenet_nine.group_of_class()
    for place, variant in enumerate(imagenet_nine.VARIANTS.values()):
        for group, label in enumerate(GROUPS):
            (tmp_path / "nine" / variant / label).mkdir(parents=True)
            numbers = [number for number in range(1000) if groups[number] == group][place::8]
            for one in some_identifiers(numbers):
                (path,) = (MIRROR / one).iterdir()
                (tmp_path / "nine" / variant / label / path.name).symlink_to(path)
    few = some_identifiers(range(0, 1000, 125))
    for name in ("fog", "snow"):
        for level in (1, 5):
            for one in few:
                (source,) = (MIRROR / one).iterdir()
                image = np.asarray(Image.open(source).convert("RGB").resize((32, 32))).transpose(2, 0, 1)
                (tmp_path / "c" / name / str(level) / one).mkdir(parents=True)
                made = corrupt(image[None], name, level)[0].transpose(1, 2, 0)
                Image.fromarray(made).save(tmp_path / "c" / name / str(level) / one / "0.png")
    sets = {"val": MIRROR, **{name: tmp_path / name for name in ("a", "r", "nine")}}
    found = measured(net, sets, on_missing_class="fail", batch_size=64, images=200)
    found.rows += measured(net, {"c": tmp_path / "c"}).rows
    told = rows(found)
    assert [told[name, None, None].samples_count for name in ("val", "a", "r")] == [200] * 3
    assert len(told) == 1 + 2 + 2 + 3 + 4 and set(NAMES) >= {"fog", "snow"}
    for name, place, mask in (
        ("a", tmp_path / "a", classes_of("a")),
        ("a_unmasked", tmp_path / "a", range(1000)),
    ):
        paths = [next((place / one).iterdir()) for one in some_identifiers(classes_of("a"))]
        logits = slow_logits(net, paths)
        allowed = torch.tensor(list(mask))
        answers = allowed[logits[:, allowed].argmax(1)].tolist()
        right = sum(answer == NUMBER[path.parent.name] for answer, path in zip(answers, paths))
        assert told[name, None, None].correct_count == right
    paths = sorted((tmp_path / "nine/mixed_same").rglob("*.jpg"))
    assert len(paths) <= 200
    answers = slow_logits(net, paths, 1.0).argmax(1).tolist()
    right = sum(groups[answer] == int(path.parent.name[:2]) for answer, path in zip(answers, paths))
    assert told["nine_same", None, None].correct_count == right > 0
