"""The fast reader gives what PyYAML's own gives, value by value and type by type, and makes no objects."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from relearn.report import yaml_file

from .conftest import FOLDERS

PAPER = Path(__file__).parents[2] / "params/paper.yaml"
SHIPPED = [*(path for folder in FOLDERS.values() for path in sorted(folder.glob("*.yaml"))), PAPER]


def told(value: Any) -> Any:
    """A value with the type of each part; the order of keys counts."""
    if isinstance(value, dict):
        return [(told(key), told(one)) for key, one in value.items()]
    return [told(one) for one in value] if isinstance(value, list) else (type(value), value)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_a_shipped_file_has_the_same_values(path: Path) -> None:
    assert told(yaml_file.read(path)) == told(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_types_are_distinguished() -> None:
    assert told({"a": 1}) != told({"a": True}) and told({"a": 1}) != told({"a": 1.0})


@pytest.mark.parametrize("text", ["a: !!python/name:os.getcwd", "a: [1", "a: b: c"])
def test_an_object_and_what_is_no_yaml_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(yaml.YAMLError):
        yaml_file.read(tmp_path / "a.yaml")


def test_an_empty_file_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    assert yaml_file.read(tmp_path / "a.yaml") is None
