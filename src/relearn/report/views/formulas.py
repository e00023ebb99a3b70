"""Formulas that are written in plain text, as a page shows them: Greek letters, powers and indices, roots."""

from __future__ import annotations

import re
from html import escape

from markupsafe import Markup

GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "eps": "ε",
    "epsilon": "ε",
    "eta": "η",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "phi": "φ",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "theta": "θ",
}
SIGNS = {"&lt;=": "≤", "&gt;=": "≥", "-&gt;": "→", "+-": "±"}
LETTERS = r"(?<![A-Za-z])(?:sum|max|min|prod|Lip|[A-Za-z]{1,2}|[Ͱ-Ͽ]{1,2})~?"
INDEX = re.compile(rf"({LETTERS}|[|)\]]|</sup>)_(inf|max|min|in|out|[A-Za-z0-9]{{1,2}})(?![A-Za-z0-9_])")
GROUP = re.compile(r"\^\(([^()]*)\)")
POWER = re.compile(r"\^(-?[A-Za-z0-9]+(?:,[a-z])?|[Ͱ-Ͽ])")
ROOT = re.compile(r"(?<![A-Za-z])sqrt(?=[( ])\s?")


def markup(text: str) -> Markup:
    """The text as HTML, escaped, with its formulas set.

    ``|W^Q|_2 <= sqrt(N) eps^(-1/2)`` becomes ``|W<sup>Q</sup>|<sub>2</sub> ≤ √(N) ε<sup>-1/2</sup>``. Names of the
    code (``spectral_init``) stay as they are: an index is at most two letters behind a short symbol.
    """
    made = escape(text, quote=False)
    for old, new in SIGNS.items():
        made = made.replace(old, new)
    for name, letter in GREEK.items():
        made = re.sub(rf"(?<![A-Za-z]){name}(?![A-Za-z])", letter, made)
    made = ROOT.sub("√", made)
    made = GROUP.sub(_group, made)
    made = POWER.sub(r"<sup>\1</sup>", made)
    made = INDEX.sub(lambda found: f"{found[1]}<sub>{'∞' if found[2] == 'inf' else found[2]}</sub>", made)
    return Markup(made)


def _group(found: re.Match[str]) -> str:
    """A power in brackets; the brackets stay around a letter, which numbers something: P^(i)."""
    return f"<sup>({found[1]})</sup>" if found[1].isalpha() else f"<sup>{found[1]}</sup>"
