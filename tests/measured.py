"""Numbers of a page and the records behind them.

A comment behind a paragraph or table names them, a line each; the page's text just before it holds the values as written here::

    <!-- records results/published/small
    median finetune.held_out_score_frac encoder=roberta task=sst2 method=vanilla: 67.6%
    -->

A line is a rule (``each``: the values of all seeds in their order; median, mean, min, max, or ``one``: there is one run), a metric with
its step, labels of the runs, and the value. ``%`` multiplies by 100. The value is compared at the digits that it has,
halves rounded up.
"""

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path

from relearn.report.runs import Run, load

ROOT = Path(__file__).resolve().parents[1]
MARKER = re.compile(r"<!-- records (?P<root>\S+)\n(?P<lines>.*?)-->", re.DOTALL)
LINE = re.compile(r"(?P<rule>\w+) (?P<step>\w+)\.(?P<metric>\w+)(?P<labels>(?: \S+=\S+)*): (?P<value>.+)")
RULES: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "each": list,
    "one": lambda values: list(values) if len(values) == 1 else [],
    **{
        rule.__name__: (lambda values, rule=rule: [rule(values)])  # type: ignore[misc]
        for rule in (statistics.median, statistics.mean, min, max)
    },
}


@dataclass(frozen=True)
class Number:
    """A value of a page: where it is written, what the records say, and whether the page's text has it."""

    line: str
    written: str
    measured: str
    in_text: bool

    @property
    def fault(self) -> str:
        """Why the page is wrong; "" where it is right."""
        if self.written != self.measured:
            return f"{self.line}: the records say {self.measured or 'nothing'}"
        return "" if self.in_text else f"{self.line}: not in the text before it"


def numbers(text: str) -> list[Number]:
    """Every value that a page's comments name.

    Raises:
        ValueError: a line that is none of the above.
    """
    found, start = [], 0
    for marker in MARKER.finditer(text):
        before = re.sub(r"\s+", " ", text[start : marker.start()])
        start = marker.end()
        for line in marker["lines"].strip().splitlines():
            parts = LINE.fullmatch(line)
            if not parts or parts["rule"] not in RULES:
                raise ValueError(f"{line}: no line of a comment on records")
            labels = dict(word.split("=", 1) for word in parts["labels"].split())
            known = _values(marker["root"], parts["step"], parts["metric"], labels)
            values = RULES[parts["rule"]](known) if known else []
            written = parts["value"]
            bare = written.removesuffix("%").strip()
            text_has = re.search(rf"(?<![\d.]){re.escape(bare)}(?!\.?\d)", before) is not None
            found.append(Number(line, written, _like(written, values), text_has))
    return found


def _like(written: str, values: Sequence[float]) -> str:
    """The values in the form of ``written``."""
    factor, bare = (100, written[:-1]) if written.endswith("%") else (1, written)
    digits = len(bare.split()[0].partition(".")[2])
    unit = Decimal(1).scaleb(-digits)
    rounded = (Decimal(f"{factor * value:.9f}").quantize(unit, ROUND_HALF_UP) for value in values)
    return " ".join(map(str, rounded)) + (written[len(bare) :] if values else "")


def _values(root: str, step: str, metric: str, labels: dict[str, str]) -> list[float]:
    runs = [run for run in _runs(root) if run.step == step and labels.items() <= dict(run.labels).items()]
    known = [(run.seed, run.metrics.get(metric)) for run in runs]
    return [value for _, value in sorted((seed, value) for seed, value in known if value is not None)]


@cache
def _runs(root: str) -> list[Run]:
    scale = "small" if Path(root).name.startswith("small") else "mini"
    return load(ROOT / root, scale)[0]
