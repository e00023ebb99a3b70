"""Pathfinder's released folders: text under the suffix of an array, images by number; what is wrong is named."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from relearn.data.lra import PARTS, pathfinder, task

ALL = dict.fromkeys(PARTS, 0)


def released(folder: Path, files: int = 2, each: int = 10, side: int = 32) -> Path:
    """The layout of the arena's archive; image k of file n has the grey value 10 n + k, and label k modulo 2."""
    root = folder / "lra_release/lra_release/pathfinder32/curv_contour_length_14"
    (root / "metadata").mkdir(parents=True)
    for number in range(files):
        (root / "imgs" / str(number)).mkdir(parents=True)
        lines = []
        for place in range(each):
            grey = np.full((side, side), 10 * number + place, np.uint8)
            Image.fromarray(grey).save(root / "imgs" / str(number) / f"sample_{place}.png")
            lines.append(f"imgs/{number} sample_{place}.png {place} {place % 2} 1.0 14 4 2\n")
        (root / "metadata" / f"{number}.npy").write_text("".join(lines))
    return root


def read(folder: Path, **samples: int):
    return task.make("pathfinder", "lra_release", samples=ALL | samples, max_length=1024, folder=folder)


def test_eight_tenths_are_for_training_then_a_tenth_each(tmp_path: Path) -> None:
    root = released(tmp_path)
    for folder in (tmp_path / "lra_release", tmp_path / "lra_release/lra_release", root):
        made = read(folder)
        values = {part: [row[0] for row in getattr(made, part).rows] for part in PARTS}
        assert values == {"train": list(range(16)), "valid": [16, 17], "test": [18, 19]}
        assert all(len(row) == 1024 and set(row) == {row[0]} for row in made.train.rows)
        assert made.train.labels == [0, 1] * 8 and (made.values, made.classes) == (256, 2)
    assert [row[0] for row in read(tmp_path / "lra_release", train=4).train.rows] == [0, 4, 8, 12]


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """10 behind 9, not behind 1."""
    made = read(released(tmp_path, files=11).parents[1])
    assert [row[0] for row in made.test.rows] == list(range(99, 110))


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    root = released(tmp_path)
    line = root / "metadata/0.npy"
    before = line.read_text()
    for text, said in (
        ("imgs/0 sample_0.png 0\n", r"0.npy: line 1: 'imgs/0 sample_0.png 0'; allowed: folder, name, number"),
        ("imgs/0 sample_0.png 0 2 1\n", r"line 1: .*; allowed: folder"),
        (before.replace("sample_3.png", "sample_x.png"), r"sample_x.png: not an image that can be decoded"),
    ):
        line.write_text(text)
        with pytest.raises(ValueError, match=said) as fault:
            read(root)
        assert "\n" not in str(fault.value)
    with pytest.raises(
        ValueError, match=r"no metadata/<number>\.npy; allowed: pathfinder32/curv_contour_length_14"
    ):
        read(tmp_path)
    with pytest.raises(ValueError, match="64 x 64 pixels; allowed: 32 x 32"):
        read(released(tmp_path / "wide", side=64))
    with pytest.raises(
        ValueError, match=r"dataset lra_release: no folder; required: \$RELEARN_MIRROR/lra_release"
    ):
        task.make("pathfinder", "lra_release", samples=ALL, max_length=1024)


def test_curves_of_the_published_form_fit() -> None:
    """14 dashes and 5 distractors of 4, as the arena's builder states, in 32 x 32 pixels."""
    form = pathfinder.Form(**pathfinder.PUBLISHED_FORM)
    made = pathfinder.scenes(8, np.random.default_rng(0), form)
    assert [curve.shape[1] - 1 for curve in made.curves] == [14, 14, 4, 4, 4, 4, 4]
    assert made.labels.tolist() == [0, 1] * 4
