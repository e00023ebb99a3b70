"""ListOps: nested operations on lists of digits and their result (Nangia and Bowman 2018; Tay et al. 2021, section 3.1).

``[MAX 2 9 [MIN 4 7 ] 0 ]`` is 9. The network reads the words and predicts the result, one of ten classes.

A tree is drawn from its root at depth 1. Above ``max_depth`` a node is an operator with probability
``operator_frac`` and a digit otherwise; at ``max_depth`` it is a digit. Digits, operators and the number of an operator's
arguments, 2 to ``max_args``, are uniform. The length of a tree is its number of words: 1 for a digit, 2 for an operator
(``[MAX`` and ``]``) plus the lengths of its arguments. A tree is kept if ``min_length`` < length < ``max_length`` and it is not a
duplicate. The published set has 96,000, 2,000 and 2,000 trees with the defaults used here.

================  =====================================================
operator          result
================  =====================================================
MIN, MAX          smallest, largest argument
MED               median; the mean of the middle two, rounded down
SM                sum modulo 10
================  =====================================================

The published generator fixes no seed and splits a Python set in its arbitrary order; here a seed determines the trees
and their order, train first, then valid, then test. Its printed form has round brackets around every binary branch,
which the arena's reader removes; networks never see them, so they are omitted here.

The arena's reader at commit 6d5e5ca keeps letters and digits only: it drops the closing brackets as well, so that two different trees can
give the same words (at cd31e5c it renames them first, and they stay). The dissertation's numbers are of this form: its table 5.1 prints
a mean length of 888, which trees have without their closing brackets (``closing`` = False); with them they are a sixth longer (erratum
Z14). Whether a tree is kept is decided by its length with the brackets in both cases.

Values: digits are 0 to 9, then MIN 10, MAX 11, MED 12, SM 13 and, with ``closing``, the closing bracket 14.

:func:`read` reads the released tables ``basic_{train,val,test}.tsv``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.data.evenly_spaced import evenly_spaced_rows
from relearn.data.lra import PARTS
from relearn.data.lra.release import part_of
from relearn.data.lra.samples import Samples, Task

OPERATORS = ("MIN", "MAX", "MED", "SM")
FIRST, CLOSE = 10, 14
VALUES, CLASSES = 15, 10
DATASETS = ("generated", "lra_release")
FOLDER = "listops-1000"
FILES = {part: f"basic_{'val' if part == 'valid' else part}.tsv" for part in PARTS}
HEAD = b"Source\tTarget"
PUBLISHED = {"train": 96_000, "valid": 2_000, "test": 2_000}
TRIES = 100_000  # consecutive rejected trees before giving up
_WORDS = (*"0123456789", *(f"[{name}" for name in OPERATORS), "]")
_VALUE = {word.encode(): value for value, word in enumerate(_WORDS)}


def make(
    samples: Mapping[str, int],
    *,
    seed: int = 0,
    min_length: int = 500,
    max_length: int = 2000,
    max_depth: int = 10,
    max_args: int = 10,
    operator_frac: float = 0.25,
    closing: bool = True,
) -> Task:
    """The task with the given numbers of trees in train, valid and test; 0 is the published number.

    ``closing``: whether closing brackets are part of a sequence; see the module.

    Raises:
        ValueError: a number out of range, or lengths that such trees almost never have.
    """
    counts = {part: samples[part] or number for part, number in PUBLISHED.items()}
    if min(counts.values()) < 0:
        raise ValueError(f"samples is {min(counts.values())}; allowed: 0 (as published) or more")
    rows, labels = trees(
        sum(counts.values()),
        seed=seed,
        min_length=min_length,
        max_length=max_length,
        max_depth=max_depth,
        max_args=max_args,
        operator_frac=operator_frac,
    )
    if not closing:
        rows = [row.replace(bytes([CLOSE]), b"") for row in rows]
    parts: dict[str, Any] = {}
    start = 0
    for part, count in counts.items():
        parts[part] = Samples(rows[start : start + count], labels[start : start + count])
        start += count
    source = {"from": "relearn.data.lra.listops", "seed": seed, "closing": closing}
    return Task("listops", "generated", VALUES - (not closing), CLASSES, **parts, source=source)


def released(samples: Mapping[str, int], folder: Path, *, closing: bool = True) -> Task:
    """The task of the arena's own tables, with the given numbers of evenly spaced trees; 0 is all.

    Args:
        samples: number per part.
        folder: the archive, see :mod:`relearn.data.lra.release`.
        closing: see the module.

    Raises:
        ValueError: a file that is not such a table. OSError: it cannot be read.
    """
    place = part_of(folder, FOLDER)
    parts: dict[str, Any] = {
        part: read(place / FILES[part], samples[part], closing=closing) for part in PARTS
    }
    source = {"from": "the arena's tables of ListOps", "closing": closing}
    return Task("listops", "lra_release", VALUES - (not closing), CLASSES, **parts, source=source)


def read(path: Path, wanted: int = 0, *, closing: bool = True) -> Samples:
    """The trees of one table, or ``wanted`` of them, evenly spaced. The table has a header line, then a tree and its result in each line.

    Raises:
        ValueError: another header, a line with other columns, an unknown word, or a result that is not a digit.
        OSError: the file cannot be read.
    """
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    if lines[0].rstrip(b"\r") != HEAD:
        raise ValueError(
            f"{path}: line 1: {lines[0].decode(errors='replace')[:20]!r}; allowed: Source and Target, with a tab between"
        )
    kept = Samples([], [])
    for number, line in evenly_spaced_rows(list(enumerate(lines[1:], 2)), wanted):
        columns = line.rstrip(b"\r").split(b"\t")
        if len(columns) != 2 or len(columns[1]) != 1 or not columns[1].isdigit():
            raise ValueError(f"{path}: line {number}: allowed: a tree and a digit, with a tab between")
        written = columns[0].replace(b"(", b" ").replace(b")", b" ").split()
        if not written or (odd := next((word for word in written if word not in _VALUE), None)) is not None:
            found = odd.decode(errors="replace")[:20] if written and odd else ""
            raise ValueError(
                f"{path}: line {number}: {found!r}; allowed: {', '.join(_WORDS)}, round brackets"
            )
        row = bytes(_VALUE[word] for word in written)
        kept.rows.append(row if closing else row.replace(bytes([CLOSE]), b""))
        kept.labels.append(int(columns[1]))
    return kept


def trees(
    count: int,
    *,
    seed: int = 0,
    min_length: int = 500,
    max_length: int = 2000,
    max_depth: int = 10,
    max_args: int = 10,
    operator_frac: float = 0.25,
) -> tuple[list[bytes], list[int]]:
    """``count`` different trees in the order drawn: (values, results).

    Raises:
        ValueError: a number out of range, or lengths that such trees almost never have.
    """
    if not 0 <= min_length < max_length - 1:
        raise ValueError(
            f"min_length, max_length: {min_length}, {max_length}; allowed: from 0, with a number between the two"
        )
    if max_depth < 1 or max_args < 2:
        raise ValueError(f"max_depth, max_args: {max_depth}, {max_args}; allowed: from 1 and from 2")
    if not 0 < operator_frac <= 1:
        raise ValueError(f"operator_frac is {operator_frac}; allowed: above 0, at most 1")
    grow = _grower(random.Random(f"listops {seed}").random, max_length, max_depth, max_args, operator_frac)
    found: dict[bytes, int] = {}
    misses = 0
    while len(found) < count:
        row = bytearray()
        result = grow(row, 1)
        kept = bytes(row)
        if min_length < len(kept) < max_length and kept not in found:
            found[kept] = result
            misses = 0
        elif (misses := misses + 1) >= TRIES:
            raise ValueError(
                f"min_length, max_length: {min_length}, {max_length}; allowed: lengths that more than one in {TRIES} "
                f"trees of depth {max_depth} with {max_args} arguments have, after {len(found)} of {count}"
            )
    return list(found), list(found.values())


def apply(operator: int, arguments: Sequence[int]) -> int:
    """The result of one operator, by its value 10 to 13, on digits; see the module."""
    if operator == 10:
        return min(arguments)
    if operator == 11:
        return max(arguments)
    if operator == 12:
        ordered, middle = sorted(arguments), len(arguments) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
    return sum(arguments) % 10


def words(row: bytes) -> str:
    """The values in readable form: ``[MAX 2 9 ]``."""
    return " ".join(_WORDS[value] for value in row)


def _grower(
    draw: Callable[[], float], max_length: int, max_depth: int, max_args: int, operator_frac: float
) -> Callable[[bytearray, int], int]:
    def grow(row: bytearray, depth: int) -> int:
        """Append a node and its subtree; returns its result. A row that is too long is left unfinished."""
        if depth >= max_depth or draw() >= operator_frac:
            digit = int(10 * draw())
            row.append(digit)
            return digit
        operator = FIRST + int(4 * draw())
        row.append(operator)
        arguments = []
        for _ in range(2 + int((max_args - 1) * draw())):
            arguments.append(grow(row, depth + 1))
            if len(row) >= max_length:
                return 0
        row.append(CLOSE)
        return apply(operator, arguments)

    return grow
