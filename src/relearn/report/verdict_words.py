"""The meaning of each verdict in one line: the only place where the verdicts are explained.

``docs/verdicts.md``, ``claims.md``, the scoreboard, the forest plot and the report take these texts from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from relearn.report.verdicts import ORDER

MEANINGS = {
    "reproduced": "the whole 95% interval lies on the claimed side; exact: every case holds at full size",
    "direction": "the estimate lies on the claimed side, but the interval reaches to the other side",
    "inconclusive": "the estimate lies on the other side, but the interval reaches to the claimed side",
    "identical": "both sides gave the same numbers in every run, so the runs say nothing about the claim",
    "contradicted": "the whole interval lies on the other side; exact: a case fails",
    "partial": "exact: every case holds, but below the published size",
    "underpowered": "too few trials, too weak models, or a setting in which the claimed effect cannot show",
    "not_run": "no runs, or no rule to judge them in this version",
}
"""By verdict, the strongest first."""
COLOURS = {
    "reproduced": "#029E73",
    "direction": "#0173B2",
    "inconclusive": "#DE8F05",
    "identical": "#DE8F05",
    "contradicted": "#D55E00",
    "partial": "#029E73",
    "underpowered": "#7A7A7A",
    "not_run": "#949494",
}
"""Colour of each verdict's mark (seaborn's colour-blind palette); the page's badges have tints of it."""
PROVISIONAL = "provisional"
PROVISIONAL_MEANS = (
    "a part of the claim was not run, or was run with too few trials or too weak models, "
    "or the result holds for these victims only"
)
DECIDED = ("reproduced", "contradicted")
"""Verdicts that more trials of the same kind are not expected to change."""

assert set(ORDER) < set(MEANINGS)


HOLDS = ("reproduced", "partial")
"""Verdicts of exact claims of which every case holds."""


def label(name: str, provisional: bool = False, corrected: str = "") -> str:
    """A verdict or a claim for display: ``not run`` for ``not_run``; ``reproduced (provisional)``; ``reproduced as corrected (Q9)``.

    Args:
        corrected: the errata that correct what was printed, if a corrected statement is judged.
    """
    as_corrected = f" as corrected ({corrected})" if corrected and name in HOLDS else ""
    return name.replace("_", " ") + as_corrected + f" ({PROVISIONAL})" * provisional


def each_alone(apart: Mapping[str, str]) -> str:
    """The verdicts of a claim's networks or tasks, whose names may contain commas, on one line."""
    return "each alone: " + "; ".join(f"{name}: {label(verdict)}" for name, verdict in apart.items())


def mixed(colour: str, other: str, share: float) -> str:
    """A colour with a share of another one, each as ``#rrggbb``."""
    pairs = [(int(colour[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round((1 - share) * one + share * two):02x}" for one, two in pairs)


def style_sheet() -> str:
    """The badges of the verdicts, light and dark, as CSS."""
    sides = {"": (("#ffffff", 0.84), ("#000000", 0.62)), "dark": (("#171717", 0.7), ("#ffffff", 0.74))}
    blocks = []
    for side, (paper, ink) in sides.items():
        made = [
            f"--{word.replace('_', '')}{kind}: {mixed(colour, *to)};"
            for word, colour in COLOURS.items()
            for kind, to in (("", paper), ("ink", ink))
        ]
        block = f":root {{ {' '.join(made)} }}"
        blocks.append(f"@media (prefers-color-scheme: {side}) {{ {block} }}" if side else block)
    blocks += [
        f".{word} {{ background: var(--{name}); color: var(--{name}ink); }}"
        for word, name in ((word, word.replace("_", "")) for word in COLOURS)
    ]
    return "\n".join([*blocks, ""])


def explanations(verdicts: Iterable[str] | None = None, provisional: bool = False) -> list[tuple[str, str]]:
    """Verdicts and their meanings (default: all), strongest verdict first.

    Args:
        verdicts: the verdicts on the page; may contain repetitions.
        provisional: whether the page has provisional verdicts, which are then explained last.

    Raises:
        KeyError: an unknown verdict.
    """
    wanted = set(MEANINGS if verdicts is None else verdicts)
    if unknown := wanted - set(MEANINGS):
        raise KeyError(f"verdict: found {', '.join(sorted(unknown))}, allowed: {', '.join(MEANINGS)}")
    lines = [(label(word), meaning) for word, meaning in MEANINGS.items() if word in wanted]
    return lines + [(PROVISIONAL, PROVISIONAL_MEANS)] * provisional


def markdown(verdicts: Iterable[str] | None = None, provisional: bool = False) -> str:
    """A table of verdicts and meanings, as in ``docs/verdicts.md``."""
    rows = [f"| {word} | {meaning} |" for word, meaning in explanations(verdicts, provisional)]
    return "\n".join(["| verdict | meaning |", "|---|---|", *rows])
