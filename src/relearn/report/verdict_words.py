"""What each verdict means, one line a word: the only place where the words are explained.

``docs/verdicts.md``, ``claims.md``, the scoreboard, the forest plot and the report take the words from here.
"""

from __future__ import annotations

from collections.abc import Iterable

from relearn.report.verdicts import ORDER

MEANINGS = {
    "reproduced": "the whole 95% interval lies on the claimed side; exact: every case holds at full size",
    "direction": "the estimate lies on the claimed side, but the interval reaches to the other side",
    "inconclusive": "the estimate lies on the other side, but the interval reaches to the claimed side",
    "identical": "both sides gave the same numbers in every run, so the runs say nothing about the claim",
    "contradicted": "the whole interval lies on the other side; exact: a case fails",
    "partial": "exact: every case holds, at less than the published size",
    "underpowered": "too few trials, too weak models, or a setting in which the claimed effect cannot show",
    "not_run": "no records, or no predicate in this version",
}
"""By verdict, the strongest first."""
PROVISIONAL = "provisional"
PROVISIONAL_MEANS = "a part of what the claim speaks of was not run"
DECIDED = ("reproduced", "contradicted")
"""Verdicts that more trials of the same kind are not expected to change."""

assert set(ORDER) < set(MEANINGS)


def label(verdict: str) -> str:
    """The word as people read it: ``not run`` for ``not_run``."""
    return verdict.replace("_", " ")


def explained(verdicts: Iterable[str] | None = None, provisional: bool = False) -> list[tuple[str, str]]:
    """Word and meaning of these verdicts (default: of all), the strongest first.

    Args:
        verdicts: those that stand on the page; repeated ones are named once.
        provisional: whether the page has provisional verdicts, which then are explained last.

    Raises:
        KeyError: a verdict that is none.
    """
    wanted = set(MEANINGS if verdicts is None else verdicts)
    if unknown := wanted - set(MEANINGS):
        raise KeyError(f"verdict: found {', '.join(sorted(unknown))}, allowed: {', '.join(MEANINGS)}")
    lines = [(label(word), meaning) for word, meaning in MEANINGS.items() if word in wanted]
    return lines + [(PROVISIONAL, PROVISIONAL_MEANS)] * provisional


def markdown(verdicts: Iterable[str] | None = None, provisional: bool = False) -> str:
    """A table of words and meanings; the rows of ``docs/verdicts.md``."""
    rows = [f"| {word} | {meaning} |" for word, meaning in explained(verdicts, provisional)]
    return "\n".join(["| verdict | meaning |", "|---|---|", *rows])
