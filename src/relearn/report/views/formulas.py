"""Typesets plain-text formulas as HTML: Greek letters, powers, indices and roots."""

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
    """The text as escaped HTML, with its formulas typeset.

    ``|W^Q|_2 <= sqrt(N) eps^(-1/2)`` becomes ``|W<sup>Q</sup>|<sub>2</sub> ≤ √(N) ε<sup>-1/2</sup>``. Identifiers
    (``spectral_init``) stay unchanged, because an index has at most two letters and follows a short symbol.
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
    """A power in brackets; a letter keeps its brackets, because it is a running index: P^(i)."""
    return f"<sup>({found[1]})</sup>" if found[1].isalpha() else f"<sup>{found[1]}</sup>"
