"""1,000 mutations of params.yaml: each is refused in lines that say where and what, or accepted, and then it fits and plans.

Seeded, so that every run of the tests tries the same files. Most mutations change values of the file as it was read, which
leaves keys and lines as they are; one in eight changes a byte of its text.
"""

import copy
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from relearn.params import forecast_memory
from relearn.params import reading as params
from relearn.params import strict_yaml as spelling
from relearn.params.strict_yaml import KeyPath, Source, read
from relearn.runs.record import canonical
from relearn.studies import parameters

ROOT = Path(__file__).resolve().parents[2]
FILE = "params.yaml"
MUTATIONS, PLANNED, SEED = 1000, 40, 15
BYTES = 8
"""One mutation in so many changes a byte."""
PLACE = re.compile(rf"{re.escape(FILE)}:\d+: (?P<key>.+?): (?P<text>.+)")
SAID = re.compile(r"(found .+|missing|unknown key), .*allowed( here)?: .+")
UNREADABLE = re.compile(rf"{re.escape(FILE)}(:\d+)?: (not readable as YAML: .+|found .+, allowed: .+)")

Values = dict[str, Any]
Tried = list[tuple[str, Values | None, list[str], Values]]


def places(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every value that is no section: lists, their members and single values."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from places(below, (*path, name))
    else:
        yield path
        for index, below in enumerate(value if isinstance(value, list) else ()):
            yield from places(below, (*path, index))


def at(values: Any, path: KeyPath) -> Any:
    for part in path:
        values = values[part]
    return values


def put(values: Values, path: KeyPath, value: Any) -> None:
    at(values, path[:-1])[path[-1]] = value


def huge(draw: random.Random, value: Any) -> Any:
    return draw.choice(
        [2**31, 2**53, 2**64, 2**64 - 1, 10 ** draw.randint(4, 40), 10.0 ** draw.randint(3, 300)]
    )


def grown(draw: random.Random, value: Any) -> Any:
    """A digit too many, or several."""
    return value * 10 ** draw.randint(1, 5) if number(value) else huge(draw, value)


def negative(draw: random.Random, value: Any) -> Any:
    return -value if number(value) and value else -draw.randint(1, 10**6)


def of_another_type(draw: random.Random, value: Any) -> Any:
    return draw.choice(["word", "7", "", True, [], [1], {}, {"a": 1}, 0.5, 7, str(value)])


def fraction(draw: random.Random, value: Any) -> Any:
    return value * draw.choice([0.5, 1.0, 1.5, 3.3]) if number(value) else draw.random()


def tiny(draw: random.Random, value: Any) -> Any:
    return draw.choice([0, 1, 0.0, 1.0e-300, -1.0e-300, 2])


def listed(draw: random.Random, value: Any) -> Any:
    """A list emptied, doubled, turned around, cut, or far too long."""
    if not isinstance(value, list):
        return [value]
    return draw.choice([[], value * 2, value[::-1], value[:1], value[1:], value * 1000])


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


KINDS: tuple[Callable[[random.Random, Any], Any], ...] = (
    *(huge, grown, negative, of_another_type, fraction, tiny, listed),
)


def mutated(draw: random.Random, source: Source) -> tuple[str, Source]:
    """The name of a mutation and the file with it."""
    values = copy.deepcopy(source.values)
    known = [path for path in places(values) if path != ("scale",)]
    kind: Any = draw.choice([*KINDS, "swapped", "products"])
    if kind == "swapped":
        first, second = draw.sample(known, 2)
        if first[: len(second)] != second and second[: len(first)] != first:
            one, other = at(values, first), at(values, second)
            put(values, first, other)
            put(values, second, one)
    elif kind == "products":  # several sizes of one section
        sizes = Counter(path[:end] for path in known if whole(at(values, path)) for end in (2, 3))
        section = draw.choice([path for path, count in sizes.items() if count > 2])
        for path in known:
            if path[: len(section)] == section and whole(at(values, path)) and draw.random() < 0.6:
                put(values, path, at(values, path) * 2 ** draw.randint(0, 12))
    else:
        path = draw.choice(known)
        put(values, path, kind(draw, at(values, path)))
    name = kind if isinstance(kind, str) else kind.__name__
    lines = dict(source.lines)
    for path in places(values):  # what is new stands where its section or list stands
        for end in range(1, len(path) + 1):
            lines.setdefault(path[:end], lines[path[: end - 1]])
    return name, Source(source.file, values, lines)


def with_another_byte(draw: random.Random, text: bytes) -> bytes:
    """One byte of a line that is no comment, mostly of a value, is another one."""
    while True:
        place = draw.randrange(len(text))
        line = text[text.rfind(b"\n", 0, place) + 1 : place]
        if b"#" not in line and (text[place : place + 1].isdigit() or draw.random() < 0.1):
            break
    new = draw.choice([draw.choice(b"0123456789"), draw.choice(b"0123456789"), draw.randrange(256)])
    return text[:place] + bytes([new]) + text[place + 1 :]


@pytest.fixture(scope="module")
def tried() -> Tried:
    """For each mutation its name, what is in force where it is accepted, the problems, and what the file says."""
    draw, found = random.Random(SEED), Tried()
    text = (ROOT / FILE).read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        source = read(FILE)
        # The same parser in C: a text is read in a tenth of the time.
        patch.setattr(yaml, "SafeLoader", yaml.CSafeLoader)
        for number in range(MUTATIONS):
            if number % BYTES:
                name, file = mutated(draw, source)
            else:
                name, file = "byte", params_of(with_another_byte(draw, text))
            patch.setattr(params, "read", lambda path, file=file: file)
            try:
                found.append((name, parameters.load(FILE, scale="mini"), [], file.values))
            except params.ParamsError as error:
                found.append((name, None, error.problems, file.values))
    return found


def params_of(text: bytes) -> Source:
    source: Source = spelling._parsed.__wrapped__(FILE, text)
    return source


def test_mutations_are_of_every_kind_and_fare_both_ways(tried: Tried) -> None:
    kinds = Counter(name for name, *_ in tried)
    assert sum(kinds.values()) == MUTATIONS
    assert set(kinds) == {*(kind.__name__ for kind in KINDS), "swapped", "products", "byte"}
    assert min(kinds.values()) > 50
    accepted = Counter(name for name, values, *_ in tried if values is not None)
    assert PLANNED < accepted.total() < MUTATIONS / 2, accepted


def test_a_refusal_is_lines_with_file_line_key_found_and_allowed(tried: Tried) -> None:
    """What is no YAML any more has no key: such a line says the file and what is wrong there."""
    for name, values, problems, _ in tried:
        if values is not None:
            continue
        assert problems
        for line in problems:
            assert "\n" not in line
            place = PLACE.fullmatch(line)
            whole = place is not None and SAID.fullmatch(place["text"]) is not None
            assert whole or (name == "byte" and UNREADABLE.fullmatch(line)), (name, line)


def test_what_is_accepted_is_what_the_file_says_and_fits(tried: Tried) -> None:
    """Numbers as they were written, that every step can be given as JSON, and forecasts within the limit."""
    forecasts = 0
    for name, values, _, written in tried:
        if values is None:
            continue
        assert params.leaves({**values, "scale": written["scale"]}) == params.leaves(written), name
        assert json.loads(canonical(values)) == values
        for need in parameters.needs(values):
            assert 0 <= need.bytes <= forecast_memory.LIMIT, (name, need)
            forecasts += 1
    assert forecasts > 500


@pytest.mark.parametrize(
    ("section", "doublings"),
    [
        ("gradinit.translation.network", 7),
        ("long_short.prepare_lra.text", 10),
        ("long_short.encoder", 8),
        ("long_short.convert_roberta", 6),
    ],
)
def test_sizes_that_are_in_range_one_by_one_are_refused_for_their_memory(
    section: str, doublings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sizes of a section, doubled until the forecast refuses them; half of that is accepted."""
    monkeypatch.chdir(ROOT)
    source = read(FILE)
    path = tuple(section.split("."))

    def load(factor: int) -> None:
        values = copy.deepcopy(source.values)
        for key in places(values):
            if key[: len(path)] == path and whole(at(values, key)):
                put(values, key, at(values, key) * factor)
        file = Source(source.file, values, source.lines)
        with monkeypatch.context() as patch:
            patch.setattr(params, "read", lambda path: file)
            parameters.load(FILE, scale="mini")

    load(2 ** (doublings - 1))
    with pytest.raises(params.ParamsError) as refused:
        load(2**doublings)
    assert all("at this size" in line for line in refused.value.problems)


SIZES = {"layers", "dim", "ffn", "heads"}
PLAN = """\
import json, sys
from pathlib import Path
from relearn.cli import jobs
counts = []
for text in json.load(sys.stdin):
    Path("params.yaml").write_text(text)
    counts.append([[job.step, job.settings] for job in jobs.plan() if job.record])
json.dump(counts, open("plans.json", "w"))
"""


@pytest.mark.slow
def test_what_is_accepted_plans(tried: Tried, tmp_path: Path) -> None:
    """Of the accepted files a sample, by Snakemake itself: each file has its jobs with their settings, whose sizes fit."""
    accepted = [(name, written) for name, values, _, written in tried if values is not None]
    chosen = random.Random(SEED).sample(accepted, PLANNED)
    for part in ("Snakefile", "workflow", "params", "src"):
        (tmp_path / part).symlink_to(ROOT / part)
    texts = [yaml.safe_dump(written, sort_keys=False) for _, written in chosen]
    done = subprocess.run(
        [sys.executable, "-c", PLAN],
        cwd=tmp_path,
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    plans = json.loads((tmp_path / "plans.json").read_text())
    assert len(plans) == PLANNED
    fitted = set()
    for (name, _), plan in zip(chosen, plans):
        assert len(plan) > 100, name
        for step, settings in plan:
            for own in (settings, settings.get("config") or {}):
                if set(own) >= SIZES:
                    # one step takes several depths
                    sizes: Any = {
                        key: max(own[key]) if isinstance(own[key], list) else own[key] for key in SIZES
                    }
                    tensors = forecast_memory.transformer(
                        **sizes,
                        length=settings.get("max_length") or 1,
                        batch=settings.get("batch_size") or 1,
                        full=False,
                    )
                    assert sum(tensor.bytes for tensor in tensors) <= forecast_memory.LIMIT, (step, name)
                    fitted.add(step)
    assert {"language", "clock", "understand", "predict"} <= fitted
