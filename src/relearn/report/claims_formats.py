"""Claims with their verdicts as Markdown (with links to the runs) and as JSON (raw numbers)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from relearn.report import verdict_words as words
from relearn.report.claims import LOCAL, Claim, tally
from relearn.report.comparisons import Comparison, Exact
from relearn.report.layout import PIPELINE
from relearn.report.statistics import Interval
from relearn.report.table_formats import pipes
from relearn.report.verdicts import Below, Within, alike
from relearn.report.views.names import plural

NO_RUNS = "no runs for "
SHOWN = {"bleu": "BLEU", "nats": "nats", "bits": "bits per character"}  # units shown after an effect

SHARE = 0.1
"""The largest claimed ratio that is shown in percent."""

READING = (
    "- effect [95%]: the estimate and its 95% interval. A difference of shares is in percentage points. A ratio has no unit, but one that "
    "is claimed to be small is in %.",
    "- claimed: the range in which the effect lies if the paper is right.",
    "- n: the seeds, or the attacked targets and victims, behind the effect; with seeds, also the number of networks compared, if not one.",
    "- seed: one repetition with its own random numbers. target, victim: the image that an attack aims at, the network that it attacks.",
    "- shown only: a comparison that does not decide, such as a control; the paper need not claim anything about it.",
    "- needed: the number of seeds or targets with which the interval would lie on the claimed side in 80% of cases if the claimed effect "
    "were true. spread: the standard deviation between seeds or targets.",
    "- half-width: half the width of the 95% interval, as planned from the spread of earlier runs and as achieved.",
)
"""What the words of the page mean."""


def effect(part: Comparison | Exact | None) -> str:
    """The effect with its interval, fractions in percentage points; for an exact claim, the number of cases that hold."""
    if part is None:
        return ""
    if isinstance(part, Exact):
        return cases_hold(part.cases - part.failures, part.cases)
    ends = part.interval
    if part.unit != "fraction":
        return _with_interval(ends, "g", _factor(part), shown_in(part), part)
    if not part.difference:
        return _with_interval(ends, ".1f", 100, shown_in(part), part)
    # a margin of one point needs the second decimal, as does an interval narrower than the first one
    form = "+.2f" if isinstance(part.claimed, Within) or 0 < ends.high - ends.low < 0.001 else "+.1f"
    return _with_interval(ends, form, 100, shown_in(part), part)


def cases_hold(good: int, cases: int) -> str:
    """``5 of 6 cases hold``, ``1 of 1 case holds``."""
    return f"{good} of {cases} case{'s' * (cases > 1)} hold{'s' * (1 in (good, cases))}"


def shown_in(part: Comparison) -> str:
    """The unit in which an effect is shown: fractions as ``points`` or ``%``, a ratio without one unless it is a share."""
    if is_share(part):
        return "%"
    if part.unit == "fraction":
        return "points" if part.difference else "%"
    return SHOWN.get(part.unit, "")


def is_share(part: Comparison) -> bool:
    """Whether a ratio is a share of its right side, as it is where the claim is that it is small."""
    return part.unit == "ratio" and isinstance(part.claimed, Below) and part.claimed.threshold <= SHARE


def _factor(part: Comparison) -> int:
    return 100 if part.unit == "fraction" or is_share(part) else 1


def _with_interval(ends: Interval, form: str, factor: float, unit: str, part: Comparison) -> str:
    """``estimate [low, high] unit``; with one seed there is no interval: a ratio lies anywhere above 0. One end may be infinite."""
    estimate, low, high = (_number(factor * end, form) for end in (ends.estimate, ends.low, ends.high))
    if ends.high == math.inf and (ends.low == -math.inf or (part.unit == "ratio" and ends.low == 0)):
        why = "one seed, no interval" if len(part.seeds) == 1 else "no interval"
        return f"{estimate} {unit}".rstrip() + f" ({why})"
    return f"{estimate} [{low}, {high}] {unit}".rstrip()


def _number(value: float, form: str) -> str:
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    if form.endswith("g"):
        return three(value)
    text = format(value, form)
    return text if float(text) else format(0.0, form.removeprefix("+"))  # what rounds to zero has no sign


def three(value: float) -> str:
    """Three significant digits, without an exponent below a million."""
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e6 else f"{value:.3g}"


def format_claimed(part: Comparison | Exact | None) -> str:
    """The claimed range, in the unit in which the effect is shown."""
    if part is None:
        return ""
    if isinstance(part, Exact):
        return "all cases"
    side = part.claimed.times(_factor(part))
    return f"{side} {shown_in(part)}".rstrip()


def judged_as(part: Comparison | Exact) -> str:
    """What is claimed and the verdict on it; a comparison that does not decide, such as a control, is not itself the paper's claim."""
    decides = isinstance(part, Exact) or part.decides
    against = "claimed" if decides else "shown only, measured against"
    return f"{against} {format_claimed(part)}: {words.label(part.verdict)}"


CHECKED = {"reproduced": "holds", "partial": "holds at a smaller size", "contradicted": "fails"}


def word(claim: Claim) -> str:
    if claim.kind == "check" and claim.verdict in CHECKED:
        return f"check: {CHECKED[claim.verdict]}"
    return words.label(claim.verdict, claim.provisional, claim.corrected)


def numbers(claim: Claim) -> str:
    """``20 targets x 4 victims, 1 seed``; with the number of pairs if attacks on some of them do not count."""
    count = claim.count()
    if "cases" in count:
        return plural(count["cases"], "case")
    if not count:
        return ""
    seeds = plural(count["seeds"], "seed")
    if "networks" in count:
        return seeds + (f", {count['networks']} networks" if count["networks"] > 1 else "")
    return f"{pairs(count)}, {seeds}"


def pairs(count: Mapping[str, int]) -> str:
    """``20 targets x 4 victims``, or ``23 pairs of 16 targets and 4 victims`` if some are missing."""
    targets, victims = count["targets"], count["victims"]
    if count.get("pairs", targets * victims) < targets * victims:
        return f"{count['pairs']} pairs of {targets} targets and {victims} victims"
    return f"{targets} targets x {victims} victims"


def remarks(claim: Claim) -> list[str]:
    """Why the verdict is what it is, beyond the numbers; settings that have changed since; one line on what would decide the claim."""
    lines = [f"underpowered: {'; '.join(alike(claim.reasons))}"] if claim.parts and claim.reasons else []
    if claim.verdict == "underpowered" and claim.numbers_say:
        lines.append(f"otherwise the verdict by the numbers would be: {claim.numbers_say}")
    if claim.apart:
        lines.append(words.each_alone(claim.apart))
    return [
        *lines,
        *lacking(claim.missing),
        *claim.data.get("outdated", ()),
        *(line for line in claim.beside if _decides(line)),
    ]


def _decides(line: str) -> bool:
    """Whether a line beside a claim says what would decide it; such lines stand before the comparisons, the others behind them."""
    return line.startswith(("to decide it: ", "to be solved first, "))


def background(claim: Claim) -> list[str]:
    """The lines that stand behind the comparisons: what each of them needs, and the design."""
    return [line for line in claim.beside if not _decides(line)]


def lacking(missing: Iterable[str]) -> list[str]:
    """``missing: no runs for A, B: what`` and ``missing: A; B: why`` once for all that lack the same; ``limited`` to the given victims."""
    items = list(dict.fromkeys(missing))
    unmade = _by_name(
        item.removeprefix(NO_RUNS).partition(": ")[::2] for item in items if item.startswith(NO_RUNS)
    )
    together: dict[str, list[str]] = {}  # what the same networks or tasks lack
    for what, names in unmade.items():
        together.setdefault(", ".join(names), []).extend([what] * bool(what))
    found = [
        NO_RUNS + ": ".join(filter(None, (names, "; ".join(kinds)))) for names, kinds in together.items()
    ]
    parts = _by_name(item.rpartition(": ")[::2] for item in items if not item.startswith(NO_RUNS))
    found += [": ".join(filter(None, (_named(names), why))) for why, names in parts.items()]
    return [
        f"limited: {item.removesuffix(f'; {LOCAL}')}" if item.endswith(LOCAL) else f"missing: {item}"
        for item in found
    ]


def _by_name(pairs: Iterable[tuple[str, ...]]) -> dict[str, list[str]]:
    """The names by what is said of them."""
    found: dict[str, list[str]] = {}
    for name, what in pairs:
        found.setdefault(what, []).append(name)
    return found


def _named(names: Sequence[str]) -> str:
    """The names as a list, with the end that all of them share, such as ``: without seed 0``, once."""
    heads = [name.rpartition(": ")[::2] for name in names]
    ends = {end for _, end in heads}
    if len(names) > 1 and len(ends) == 1 and all(head for head, _ in heads):
        return f"{_named([head for head, _ in heads])}: {ends.pop()}"
    return "; ".join(names)


def markdown(
    claims: Sequence[Claim],
    scale: str,
    link: Callable[[str], str] = PIPELINE.run,
    why: Mapping[tuple[str, str], Sequence[str]] = MappingProxyType({}),
    terms: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> str:
    """All claims: one table per section, then the details of each claim that has a verdict.

    Args:
        link: maps a run's folder to its link; empty if it has none.
        why: paragraphs on the cause of a verdict, by section and id.
        terms: by section, the terms that its claims use, with their meanings.
    """
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in tally(claims).items())
    checks = [claim for claim in claims if claim.kind == "check"]
    head = f"{len(claims) - len(checks)} claims{f': {counts}' if counts else ''}."
    if checks:
        several = f"{len(checks)} checks of theorems" if len(checks) > 1 else "a check of a theorem"
        head += f" Not counted: {several}."
    lines = [f"# Claims, scale {scale}", "", head, ""]
    provisional = any(claim.provisional for claim in claims)
    lines += [words.markdown((claim.verdict for claim in claims), provisional), ""]
    lines += [*READING, "", "docs/verdicts.md explains the intervals and the requirements of a verdict.", ""]
    for section in dict.fromkeys(claim.section for claim in claims):
        group = [claim for claim in claims if claim.section == section]
        lines += [f"## {section}", ""]
        if all(claim.verdict == "not_run" for claim in group):
            lines += [f"Not run: {', '.join(claim.id for claim in group)}.", ""]
            continue
        if terms.get(section):
            lines += [*(f"- {name}: {meaning}" for name, meaning in terms[section].items()), ""]
        lines += [
            "| claim | says | effect [95%] | claimed | n | verdict |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for claim in group:
            cells = (
                f"`{claim.id}`",
                claim.says,
                effect(claim.main),
                format_claimed(claim.main),
                numbers(claim),
                word(claim),
            )
            lines.append(pipes(*cells))
        lines.append("")
        for claim in group:
            lines += _details(claim, link, why.get((claim.section, claim.id), ()))
    return "\n".join(lines)


def _details(claim: Claim, link: Callable[[str], str], why: Sequence[str]) -> list[str]:
    lines = [
        f"### {claim.id}: {word(claim)}",
        "",
        f"{claim.says} ({claim.source}). Decided by: {claim.predicate}.",
    ]
    for paragraph in why if claim.parts else ():
        lines += ["", paragraph]
    lines += ["", *(f"- {line}" for line in remarks(claim))]
    for part in claim.parts:
        method = part.method if isinstance(part, Comparison) else "exact"
        if isinstance(part, Comparison) and part.spared:
            method = (
                f"corrected for {part.among} comparisons, the interval reaches the claimed side; {method}"
            )
        lines.append(f"- {part.name}: {effect(part)}, {judged_as(part)} ({method})")
        lines += [f"  - {note}" for note in part.notes]
    lines += [f"- {line}" for line in background(claim)]
    if claim.runs:
        lines += ["", f"<details><summary>{plural(len(claim.runs), 'run')}</summary>", ""]
        linked = [run for run in claim.runs if link(run)]
        lines += [f"- [{run}]({link(run)})" for run in linked]
        lines += [f"- `{run}`" for run in folded(run for run in claim.runs if run not in linked)]
        lines += ["", "</details>"]
    return [*lines, ""]


def folded(runs: Iterable[str]) -> list[str]:
    """Runs that differ in one name only as one, as a shell writes it: ``a/{x,y}/seed{0,1,2}``; the last names come first."""
    paths: list[tuple[str, ...]] = [tuple(run.split("/")) for run in dict.fromkeys(runs)]
    for place in range(max(map(len, paths), default=0) - 1, -1, -1):
        found: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            here = path[place] if place < len(path) else ""
            found.setdefault((*path[:place], "", *path[place + 1 :]) if here else path, []).append(here)
        paths = [
            (*key[:place], _braces(names), *key[place + 1 :]) if names[0] else key
            for key, names in found.items()
        ]
    return ["/".join(path) for path in paths]


def _braces(names: Sequence[str]) -> str:
    """``seed{0,1}`` for seeds, ``{x,y}`` for other names, and a single name as it is."""
    if len(names) == 1:
        return names[0]
    start = "seed" if all(re.fullmatch(r"seed\d+", name) for name in names) else ""
    ends = [name[len(start) :] for name in names]
    return f"{start}{{{','.join(sorted(ends, key=int) if start else ends)}}}"


def as_json(claims: Sequence[Claim], scale: str) -> str:
    """The claims as JSON with raw numbers and the meanings of the verdicts; one line per claim, so that versions can be compared."""
    lines = ",\n".join(
        json.dumps({**_to_dict(claim), **claim.data}, separators=(",", ":")) for claim in claims
    )
    return f'{{"scale": {json.dumps(scale)},\n"words": {json.dumps(words.MEANINGS)},\n"claims": [\n{lines}\n]}}\n'


def _to_dict(claim: Claim) -> dict[str, Any]:
    """The claim as plain values; the runs of a part are positions in the claim's own list, sorted and unfolded."""
    at = {run: place for place, run in enumerate(claim.runs)}
    main = _part(claim.main) if claim.main else {}
    named = {name: getattr(claim, name) for name in ("section", "id", "kind", "source", "says", "predicate")}
    return {
        **named,
        "verdict": claim.verdict,
        "numbers_say": claim.numbers_say,
        "provisional": claim.provisional,
        "apart": claim.apart,
        "n": claim.count(),
        "shown": effect(claim.main),
        "claimed_side": format_claimed(claim.main),
        **{name: value for name, value in main.items() if name != "says"},
        "parts": [{**_part(part), "runs": [at[run] for run in part.runs]} for part in claim.parts],
        "reasons": list(claim.reasons),
        "missing": list(claim.missing),
        "runs": folded(claim.runs),
    }


def _part(part: Comparison | Exact) -> dict[str, Any]:
    found: dict[str, Any]
    interval: dict[str, Any]
    if isinstance(part, Exact):
        found = {
            "effect": part.failures / part.cases if part.cases else None,
            "unit": "fraction of cases that fail",
        }
        interval = {"low": None, "high": None, "method": "exact"}
    else:
        ends = part.interval
        found = {"effect": ends.estimate, "unit": part.unit}
        low, high = (end if math.isfinite(end) else None for end in (ends.low, ends.high))
        interval = {"low": low, "high": high, "method": part.method}
    decides = isinstance(part, Exact) or part.decides
    decision = {"says": part.verdict, "decides": decides, "notes": list(part.notes)}
    return {"comparison": part.name, **found, **interval, **decision}
