"""ImageNet-C's folders: every (corruption, severity) that is asked for, in groups or without, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from relearn.data.corruptions import LEVELS, NAMES
from relearn.data.imagenet_c import EXTRA, GROUPS, corrupted_folders


def made(path: Path, names=NAMES, levels=LEVELS) -> Path:
    for name in names:
        for level in levels:
            (path / name / str(level) / "n01440764").mkdir(parents=True)
    return path


def test_every_pair_is_its_own_folder(tmp_path: Path) -> None:
    found = corrupted_folders(made(tmp_path))
    assert list(found) == [(name, level) for name in NAMES for level in LEVELS]
    assert all(place == tmp_path / name / str(level) for (name, level), place in found.items())


def test_groups_of_the_archives_may_stand_in_between(tmp_path: Path) -> None:
    made(tmp_path / "noise", NAMES[:3])
    made(tmp_path / "extra", EXTRA)
    made(tmp_path, NAMES[3:])
    (tmp_path / ".cache").mkdir()
    (tmp_path / "README").write_text("no folder")
    found = corrupted_folders(tmp_path)
    assert list(found) == [(name, level) for name in NAMES for level in LEVELS]
    assert found["shot_noise", 2] == tmp_path / "noise/shot_noise/2" and found["fog", 5] == tmp_path / "fog/5"
    assert not set(EXTRA) & set(NAMES) and not set(GROUPS) & set(NAMES + EXTRA)


def test_some_of_them_in_the_usual_order(tmp_path: Path) -> None:
    made(tmp_path, ("snow", "fog", "shot_noise"), (1, 3, 5))
    found = corrupted_folders(tmp_path, names=("fog", "shot_noise"), severities=(5, 1))
    assert list(found) == [("shot_noise", 1), ("shot_noise", 5), ("fog", 1), ("fog", 5)]


def test_refusals(tmp_path: Path) -> None:
    made(tmp_path / "some", ("fog",), (1, 2))
    made(tmp_path / "odd", ("fogg",))
    for where, given, said in (
        ("some", {"names": ("fogs",)}, "corruption 'fogs' is unknown; did you mean 'fog'"),
        ("some", {"names": ("fog",), "severities": (0,)}, "severity is 0; allowed: 1, 2, 3, 4, 5"),
        ("some", {"names": ("fog",)}, "fog: no folder 3; allowed: severities 1, 2, 3, 4, 5"),
        ("some", {"names": ("fog", "snow"), "severities": (1,)}, "some: no folder snow; allowed: all of"),
        ("odd", {"names": ("fog",)}, "fogg: 'fogg' is not a corruption; did you mean 'fog'"),
    ):
        with pytest.raises(ValueError, match=said) as told:
            corrupted_folders(tmp_path / where, **given)
        assert "\n" not in str(told.value)
