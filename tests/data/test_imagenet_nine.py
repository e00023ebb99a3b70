"""ImageNet-9: the groups against the authors' own map where it is at hand, folders by their released names."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from relearn.data.imagenet_classes import identifiers
from relearn.data.imagenet_nine import NAMES, NONE, VARIANTS, group_of_class, variant

MAP = Path(os.environ.get("RELEARN_MIRROR", ""), "imagenet_meta", "in_to_in9.json")
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


@pytest.mark.skipif(not MAP.is_file(), reason="RELEARN_MIRROR names no folder with the authors' map")
def test_the_groups_are_the_authors() -> None:
    told = json.loads(MAP.read_text())
    assert list(group_of_class()) == [told[str(number)] for number in range(1000)]


@pytest.mark.parametrize("inside", ["", "val"])
def test_a_variant_with_and_without_val(tmp_path: Path, inside: str) -> None:
    made(tmp_path / "mixed_rand" / inside)
    found = variant(tmp_path, "nine_rand")
    assert found.labels.tolist() == [0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8]
    assert all(FOLDERS[label] == path.parent.name for path, label in zip(found.files, found.labels.tolist()))


def test_refusals(tmp_path: Path) -> None:
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
