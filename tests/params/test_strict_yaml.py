"""One file that every YAML reader takes alike: PyYAML (Snakemake's) and ruamel (DVC's) are the slow truth."""

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError as RuamelError

from relearn.params.strict_yaml import dotted, parse_scalar, read

ROOT = Path(__file__).resolve().parents[2]
FILES = [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))]


def by_pyyaml(text: str) -> object:
    return yaml.safe_load(text)


def by_ruamel(text: str) -> object:
    return YAML(typ="safe", pure=True).load(text)


def same(one: object, other: object) -> bool:
    """Equal in value and in type, at every depth."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "params.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_our_files_mean_the_same_to_all_three_readers(path: Path) -> None:
    source = read(path)
    assert source.problems == []
    text = path.read_text()
    assert same(source.values, by_pyyaml(text))
    assert same(source.values, by_ruamel(text))


tokens = st.one_of(
    st.text("0123456789.eE+-_:xobn~ ainfNIF", min_size=1, max_size=9),
    st.integers().map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(["yes", "no", "on", "off", "y", "n", "Y", "True", "false", "NULL", "Null", "null", "~"]),
    st.sampled_from([".nan", ".Inf", "1e3", "2026-11-20", "0o17", "=", "<<", "nan", "inf", "e5", "0x"]),
    st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./ -", min_size=1, max_size=6),
)


@given(tokens)
def test_what_is_accepted_is_read_alike_by_both_engines(text: str) -> None:
    """Soundness: an unquoted scalar that passes means to PyYAML and to ruamel what it means to us."""
    value, hint = parse_scalar(text)
    if not hint:
        assert same([value], by_pyyaml(f"[{text}]"))
        assert same([value], by_ruamel(f"[{text}]"))


@pytest.mark.parametrize("text", ["1e-3", "yes", "010", "off", "1:30", "0o17", "1e3", "2.0e3"])
def test_the_readers_really_disagree(text: str) -> None:
    """The negative control: without our rule these pass, with two meanings."""
    assert parse_scalar(text)[1]
    assert not same(by_pyyaml(text), by_ruamel(text))


@given(st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False))
def test_ordinary_numbers_pass(whole: int, number: float) -> None:
    assert parse_scalar(str(whole)) == (whole, "")
    value, hint = parse_scalar(f"{number:.17e}")
    assert (value, hint) == (number, "")


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("1e-3", "1.0e-3"),
        ("1E5", "1.0e+5"),
        ("2.5e3", "2.5e+3"),
        (".5", "0.5"),
        ("1.", "1.0"),
        ("+1", "1"),
        ("+0.5", "0.5"),
        ("-.5", "-0.5"),
        ("1_000", "1000"),
        ("0x1F", "31"),
        ("0b11", "3"),
        ("0o17", "15"),
    ],
)
def test_the_hint_is_a_spelling_that_passes_and_has_the_same_value(text: str, instead: str) -> None:
    assert parse_scalar(text)[1] == instead
    value, hint = parse_scalar(instead)
    assert hint == ""
    assert value == (float(text) if any(mark in text for mark in ".eE") and "x" not in text else int(text, 0))


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("010", "10 (no leading zero)"),
        ("yes", "true or false"),
        ("No", "true or false"),
        ("ON", "true or false"),
        ("off", "true or false"),
        ("y", "true or false"),
        ("N", "true or false"),
        (".nan", "a finite number"),
        ("-.inf", "a finite number"),
        ("1.0e+999", "a finite number"),
        ("1:30", "quote any other text"),
        ("2026-11-20", "quote any other text"),
        ("~", "a value"),
        ("null", "a value"),
        ("", "a value"),
        ("9" * 5000, "reasonable length"),
    ],
)
def test_a_refused_scalar_is_named_with_file_line_and_key(tmp_path: Path, text: str, allowed: str) -> None:
    path = written(tmp_path, f"# a comment\na:\n  b: [1, {text}]\n" if text else "# a comment\na:\n  b:\n")
    key = "a.b[1]" if text else "a.b"
    (problem,) = read(path).problems
    assert str(problem).startswith(f"{path}:3: {key}: found {text or 'nothing'}, allowed: ")
    assert allowed in str(problem)


@pytest.mark.parametrize("text", ["'yes'", '"1e-3"', "'010'", '"2026-11-20"', "|\n  yes\n", "''"])
def test_quotes_make_text_of_anything(tmp_path: Path, text: str) -> None:
    source = read(written(tmp_path, f"a: {text}\n"))
    assert source.problems == []
    assert source.values == by_pyyaml(f"a: {text}\n")


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "a: found a second time (first in line 1), allowed: once"),
        ("a: {b: 1, b: 1}\n", 1, "a.b: found a second time"),
        ("a:\n\tb: 1\n", 2, "found a tab, allowed: spaces"),
        ("a:\t1\n", 1, "found a tab"),
        (b"\xef\xbb\xbfa: 1\n", 1, "found a byte order mark"),
        ("a: 1\n".encode("utf-16"), 1, "found a byte order mark"),
        (b"a: 1\nb: \xff\n", 2, "found the byte 0xff, allowed: UTF-8"),
        ("", 0, "found an empty file"),
        ("# nothing\n", 0, "found an empty file"),
        ("---\n", 0, "found an empty file"),
        ("- 1\n- 2\n", 1, "found a sequence, allowed: a mapping"),
        ("just words\n", 1, "found a scalar, allowed: a mapping"),
        ("a: [1, 2\nb: 3\n", 2, "not readable as YAML"),
        ("a: 1\n  b: 2\n", 2, "not readable as YAML"),
        ("a: 1\n---\nb: 2\n", 2, "not readable as YAML"),
        ("a: &x 1\nb: *x\n", 1, "found a YAML anchor"),
        ("a: !!float 1e-3\n", 1, "found a YAML tag"),
        ("a: !!python/object/apply:os.getcwd []\n", 1, "found a YAML tag"),
        ("%YAML 1.1\n---\na: 1\n", 1, "found a YAML directive"),
        ("? [a, b]\n: 1\n", 1, "found a sequence as a key"),
        (b"a: \x00\n", 0, "not readable as YAML"),
        ("a: " + "[" * 600 + "]" * 600 + "\n", 0, "nested too deep"),
    ],
)
def test_a_faulty_file_is_refused_in_one_line(
    tmp_path: Path, text: str | bytes, line: int, found: str
) -> None:
    path = written(tmp_path, text)
    problems = [str(problem) for problem in read(path).problems]
    assert problems[0].startswith(f"{path}:{line}: {found}" if line else f"{path}: ")
    assert found in problems[0]
    assert "\n" not in problems[0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "no.yaml", tmp_path):
        (problem,) = read(path).problems
        assert str(problem).startswith(f"{path}: cannot be read (")


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    source = read(written(tmp_path, b"a: 1\r\nb:\r\n  c: word\r\n"))
    assert (source.problems, source.values) == ([], {"a": 1, "b": {"c": "word"}})


def test_every_key_knows_its_line(tmp_path: Path) -> None:
    source = read(written(tmp_path, "a: 1\nb:\n  c: [1,\n    2]\n  d: {e: 3}\n"))
    lines = {dotted(path): line for path, line in source.lines.items()}
    expected = {"a": 1, "b": 2, "b.c": 3, "b.c[0]": 3, "b.c[1]": 4, "b.d": 5, "b.d.e": 5}
    assert {key: lines[key] for key in expected} == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_refused_decimal_gets_a_hint_of_equal_value(number: float) -> None:
    hint = parse_scalar(repr(number))[1]
    if hint:
        assert parse_scalar(hint) == (number, "")
        assert math.isfinite(number)


def test_the_other_reader_fails_on_a_repeated_key() -> None:
    """Why a repeated key is our fault to report: one engine takes the last value, the other stops."""
    assert by_pyyaml("a: 1\na: 2\n") == {"a": 2}
    with pytest.raises(RuamelError):
        by_ruamel("a: 1\na: 2\n")


def test_a_second_reading_is_as_good_as_the_first(tmp_path: Path) -> None:
    """What is parsed is kept by the bytes: an edit is seen, and what one reader changes no other one sees."""
    path = written(tmp_path, "a: {b: [1, 2]}\nc: 1e3\n")
    first = read(path)
    first.values["a"]["b"].append(3)
    first.lines.clear()
    first.problems.clear()
    second = read(path)
    assert second.values["a"] == {"b": [1, 2]} and second.lines["a", "b"] == 1
    assert [str(one).partition(",")[0] for one in second.problems] == [f"{path}:2: c: found 1e3"]
    written(tmp_path, "a: {b: [1, 4]}\nc: 1000\n")
    assert read(path).values == {"a": {"b": [1, 4]}, "c": 1000} and read(path).problems == []
