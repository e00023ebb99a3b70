"""A strict reader of style sheets: what a browser would drop is an error here.

It knows the part of CSS Syntax Level 3 that a plain sheet needs: rules, declarations, at-rules that hold rules, strings, comments.
"""

import re
from collections.abc import Iterator

TOKEN = re.compile(
    r"""(?P<space>(?:\s|/\*.*?\*/)+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[-\w.#%@+*]+)
    |(?P<mark>[{}():;,/>\[\]])""",
    re.VERBOSE | re.DOTALL,
)
Rules = dict[str, dict[str, str]]


def parse(text: str) -> Rules:
    """Return selector → property → value; a rule inside an at-rule is named ``@media print body``.

    Raises:
        ValueError: what no browser would accept as meant, with its line: a string that holds a newline, a letter that begins
            nothing, a declaration without property or value, a bracket that is never closed.
    """
    tokens = list(_tokens(text))
    rules: Rules = {}
    end = _block(tokens, 0, "", rules)
    if end != len(tokens):
        raise ValueError("a } that closes nothing")
    return rules


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: {text[at : at + 20]!r}")
        yield " " if found.lastgroup == "space" else found[0]
        at = found.end()


def _block(tokens: list[str], at: int, above: str, rules: Rules) -> int:
    """Read rules up to the } that ends their block, or the end of the sheet."""
    while at < len(tokens) and tokens[at] != "}":
        head, at = _until(tokens, at, "{")
        selector = f"{above} {head}".strip()
        if head.startswith("@"):
            at = _block(tokens, at, selector, rules)
        else:
            at = _declarations(tokens, at, rules.setdefault(selector, {}))
        if at == len(tokens):
            raise ValueError(f"{selector}: no }} at its end")
        at += 1
        while at < len(tokens) and tokens[at] == " ":
            at += 1
    return at


def _declarations(tokens: list[str], at: int, into: dict[str, str]) -> int:
    while at < len(tokens) and tokens[at] != "}":
        if tokens[at] in " ;":
            at += 1
            continue
        name, at = _until(tokens, at, ":")
        depth, value = 0, ""
        while at < len(tokens) and (depth or tokens[at] not in ";}"):
            depth += (tokens[at] == "(") - (tokens[at] == ")")
            value += tokens[at]
            at += 1
        if not re.fullmatch(r"-{0,2}[a-z][a-z-]*", name) or not value.strip() or "{" in value or ":" in value:
            raise ValueError(f"{name}: {value.strip()}")
        into[name] = value.strip()
    return at


def _until(tokens: list[str], at: int, mark: str) -> tuple[str, int]:
    """The text in front of the next mark, and the place behind it."""
    try:
        end = tokens.index(mark, at)
    except ValueError:
        raise ValueError(f"{''.join(tokens[at : at + 9])}: no {mark} behind it") from None
    if not {";", "{", "}"}.isdisjoint(tokens[at:end]):
        raise ValueError(f"{''.join(tokens[at:end]).strip()}: found in front of {mark}")
    return "".join(tokens[at:end]).strip(), end + 1
