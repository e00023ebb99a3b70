"""ImageNet-9: the groups against the authors' own map where it is at hand, folders by their released names.

Reassessed labels: the official file as it is published, and each image's own classes wherever it lies.

The 200 classes of ImageNet-A and -R, and which classes a folder lacks.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from relearn.data import download, imagenet_real
from relearn.data.imagenet_classes import identifiers, label_by_class
from relearn.data.imagenet_folder import Listing
from relearn.data.imagenet_nine import NAMES, NONE, VARIANTS, group_of_class, variant
from relearn.data.imagenet_real import classes_of_files, load
from relearn.data.imagenet_subsets import classes_of, missing, name_of

FOLDERS = [f"{number:02d}_{name}" for number, name in enumerate(NAMES)]


def made(path: Path, folders=FOLDERS) -> Path:
    for number, name in enumerate(folders):
        (path / name).mkdir(parents=True)
        for each in range(1 + number % 2):
            Image.new("RGB", (4, 4)).save(path / name / f"{each}.JPEG")
    return path


def test_nine_groups_of_370_classes() -> None:
    groups = group_of_class()
    assert len(groups) == 1000 and set(groups) == {NONE, *range(9)}
    assert Counter(groups) == {NONE: 630, 0: 116, 1: 52, 2: 42, 3: 36, 4: 35, 5: 27, 6: 26, 7: 20, 8: 16}


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        ("n02085620", "dog"),  # Chihuahua
        ("n01530575", "bird"),  # brambling
        ("n02930766", "wheeled vehicle"),  # cab
        ("n01667114", "reptile"),  # mud turtle
        ("n02120079", "carnivore"),  # Arctic fox
        ("n02165105", "insect"),  # tiger beetle
        ("n02676566", "musical instrument"),  # acoustic guitar
        ("n02480855", "primate"),  # gorilla
        ("n01440764", "fish"),  # tench
        ("n03180011", None),  # desktop computer
    ],
)
def test_classes_whose_group_is_plain(identifier: str, name: str | None) -> None:
    group = group_of_class()[identifiers().index(identifier)]
    assert (NAMES[group] if group != NONE else None) == name


def test_the_groups_are_the_authors(mirror: Callable[..., Path]) -> None:
    told = json.loads(mirror("imagenet_meta", "in_to_in9.json").read_text())
    assert list(group_of_class()) == [told[str(number)] for number in range(1000)]


@pytest.mark.parametrize("inside", ["", "val"])
def test_a_variant_with_and_without_val(tmp_path: Path, inside: str) -> None:
    made(tmp_path / "mixed_rand" / inside)
    found = variant(tmp_path, "nine_rand")
    assert found.labels.tolist() == [0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8]
    assert all(FOLDERS[label] == path.parent.name for path, label in zip(found.files, found.labels.tolist()))


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "mixed_same", FOLDERS[:-1])
    made(tmp_path / "original", [*FOLDERS, "09_cat"])
    for name, said in (
        ("nine_same", "mixed_same: '08_fish' is missing; allowed: the nine folders 00_dog to 08_fish"),
        ("nine_original", "original: '09_cat' is no group; allowed"),
        ("nine_rand", "no folder mixed_rand; allowed: all of original, mixed_same, mixed_rand"),
        ("rand", "variant 'rand'; allowed: nine_original, nine_same, nine_rand"),
    ):
        with pytest.raises(ValueError, match=said):
            variant(tmp_path, name)
    assert list(VARIANTS.values()) == ["original", "mixed_same", "mixed_rand"]


def official(number: int, folder: str = "n0") -> Path:
    return Path(folder) / f"ILSVRC2012_val_{number:08d}.JPEG"


def written(path: Path, labels: object) -> Path:
    path.write_text(json.dumps(labels))
    return path


def test_the_official_file_comes_with_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    real = load()
    assert len(real) == 50_000 and sum(not one for one in real) == 3163
    assert real[0] == frozenset() and real[1] == {970, 795} and max(map(max, filter(None, real))) == 999


def test_another_copy_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = written(tmp_path / "other.json", [[1]])
    monkeypatch.setattr(imagenet_real, "file_of_timm", lambda name: other)
    asked = []
    monkeypatch.setattr(download, "fetch", lambda remote: asked.append(remote) or other)
    assert load() == (frozenset({1}),) and asked == [imagenet_real.FILE]
    assert imagenet_real.FILE.urls[0].startswith("https://raw.githubusercontent.com/google-research/")


def test_names_say_which_image_it_is(tmp_path: Path) -> None:
    real = load(written(tmp_path / "real.json", [[], [5, 6], [7], [8]]))
    files = [official(4, "a"), official(2, "b"), official(1, "c")]  # class by class, not by name
    assert classes_of_files(files, real) == (frozenset({8}), frozenset({5, 6}), frozenset())
    with pytest.raises(ValueError, match="image 5: no labels; allowed: 1 to 4"):
        classes_of_files([official(5)], real)
    with pytest.raises(ValueError, match="image 0: no labels"):
        classes_of_files([official(1), official(0)], real)


def test_files_of_other_names_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    real = load(written(tmp_path / "real.json", [[0], [1], [2]]))
    files = [Path("z/b.png"), Path("y/c.png"), Path("x/a.png")]
    assert classes_of_files(files, real) == (frozenset({1}), frozenset({2}), frozenset({0}))
    for wrong in (files[:2], [*files[:2], Path("w/b.png")], []):
        with pytest.raises(ValueError, match="allowed: names as ILSVRC2012_val_00000001"):
            classes_of_files(wrong, real)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"a": 1}, "a list with a list of class numbers"),
        ([], "a list with a list of class numbers"),
        ([[1], 2], "a list with a list of class numbers"),
        ([[1], [-2]], "-2 among the classes"),
        ([["1"]], "'1' among the classes"),
        ([[True]], "True among the classes"),
    ],
)
def test_what_is_no_list_of_classes_is_refused(tmp_path: Path, labels: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load(written(tmp_path / "real.json", labels))


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("[[1], ")
    with pytest.raises(ValueError, match=r"real.json: not a JSON text"):
        load(tmp_path / "real.json")


@pytest.mark.parametrize("name", ["a", "r"])
def test_two_hundred_classes(name: str) -> None:
    found = classes_of(name)
    assert len(found) == len(set(found)) == 200 and list(found) == sorted(found)
    assert found[0] >= 0 and found[-1] < 1000


def test_the_two_sets_differ() -> None:
    """Facts of the published lists: great white sharks are drawn and not adversarial, stingrays are both."""
    a, r = set(classes_of("a")), set(classes_of("r"))
    number = {one: place for place, one in enumerate(identifiers())}
    assert number["n01484850"] in r - a and number["n01498041"] in a & r and a != r
    with pytest.raises(ValueError, match="subset 'c'; allowed: a, r"):
        classes_of("c")


@pytest.mark.parametrize("name", ["a", "r"])
def test_the_numbers_are_the_published_ones(mirror: Callable[..., Path], name: str) -> None:
    told = (mirror("imagenet_meta") / f"imagenet_{name}_indices.txt").read_text().split()
    assert list(classes_of(name)) == [int(one) for one in told]


def test_missing_classes_are_reported_and_unknown_ones_refused() -> None:
    files = tuple(Path(f"set/{name}/1.png") for name in "ccb")
    images = Listing(files, torch.tensor([2, 2, 1]), ("a", "b", "c", "d"))
    assert missing(images, range(4)) == (0, 3) and missing(images, (2, 1)) == ()
    with pytest.raises(ValueError, match="set: class 'c' is not one of the set's 2"):
        missing(images, (0, 1))
    assert name_of(0, 1000) == "0 (n01440764)" and name_of(3, 10) == "3"


def test_real_folders_have_all_classes(mirror: Callable[..., Path]) -> None:
    images = label_by_class(mirror("imagenet_sample_derived"), classes=1000)
    assert missing(images, range(1000)) == ()
    kept = images.take([place for place in range(1000) if place not in (0, 7)])
    assert missing(kept, range(1000)) == (0, 7)
