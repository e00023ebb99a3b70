"""Every claim of claims.yaml with its verdict, judged from the finding of its predicate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from relearn.report import yaml_file
from relearn.report.comparisons import Comparison, Exact, Finding
from relearn.report.quantities import Evidence
from relearn.report.verdicts import ORDER, alike, weakest

Power = Callable[[Comparison], list[str]]  # why a comparison is underpowered; empty if it is not


@dataclass(frozen=True)
class Section:
    """The predicates of one study by claim, and ``power``: what a comparison lacks in trials and model quality.

    ``looks`` is by claim the number of times at which its design let units be added to undecided ones, and 1 for the first.
    """

    predicates: Mapping[str, Callable[[Evidence], Finding]]
    power: Callable[[Comparison, Evidence], list[str]]
    looks: Mapping[str, int] = field(default_factory=dict)


LOCAL = "more victims would decide"
"""Ends the reason of a verdict that is provisional because it holds for these victims only."""
TERMS = "_terms"
"""Optional key of ``claims.yaml`` beside the claims: abbreviations and names of the study's results with their meanings."""
KEYS = {"kind", "source", "says", "predicate"}
FORMERLY, CORRECTED = "formerly", "corrected"
"""Optional: the claim's name in results that were published before it was renamed."""
KINDS = ("exact", "trained", "check")


@dataclass(frozen=True)
class Claim:
    """One statement of a paper and its verdict from the records of this scale.

    ``main`` is the deciding comparison: the weakest one. ``numbers_say`` is the verdict regardless of the number of
    trials and the models' quality. ``missing`` names the parts of the claim that no run covers, the networks or tasks whose runs lack
    power beside others that do not, and deciding parts that hold for these victims only; if there are any, the verdict is provisional.
    ``lacking`` gives, for each part, the reasons why it is underpowered, if any. ``beside`` has lines on what would decide the claim
    and on its design; ``data`` has the same, and the cost, as plain values. ``corrected`` names the errata of a statement that is judged
    in a corrected form.
    """

    section: str
    id: str
    kind: str
    source: str
    says: str
    predicate: str
    verdict: str
    numbers_say: str | None = None
    main: Comparison | Exact | None = None
    parts: tuple[Comparison | Exact, ...] = ()
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    lacking: tuple[tuple[str, ...], ...] = ()
    beside: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    corrected: str = ""

    @property
    def apart(self) -> dict[str, str]:
        """Verdict of each network or task alone, if the deciding parts cover several: the name before the colon in a part's name.

        A claim about all of them is only as good as its weakest part, which hides how the others did.
        """
        found: dict[str, list[str]] = {}
        for part, lacks in zip(self.parts, self.lacking):
            if isinstance(part, Comparison) and part.decides and (head := subject(part)):
                found.setdefault(head, []).append("underpowered" if lacks else part.verdict)
        words = {
            head: "underpowered" if "underpowered" in verdicts else weakest(verdicts)
            for head, verdicts in found.items()
        }
        return words if len(words) > 1 else {}

    @property
    def provisional(self) -> bool:
        return bool(self.parts and self.missing)

    @property
    def runs(self) -> list[str]:
        return sorted({run for part in self.parts for run in part.runs})

    def count(self) -> dict[str, int]:
        """Targets, victims, their pairs, seeds and trials behind the deciding comparison; or networks, seeds and trials; or cases."""
        if isinstance(self.main, Exact):
            return {"cases": self.main.cases}
        if self.main is None:
            return {}
        victims, seeds, targets = (len(set(column)) for column in zip(*self.main.keys))
        if self.main.over == "seeds":
            return {"networks": victims, "seeds": seeds, "trials": len(self.main.keys)}
        return {
            "targets": targets,
            "victims": victims,
            "pairs": len(self.main.pairs),
            "seeds": seeds,
            "trials": len(self.main.keys),
        }


def subject(part: Comparison) -> str:
    """The network or task that a comparison is about, the name before the colon in its own; "" if it names none."""
    head, colon, _ = part.name.partition(": ")
    return head if colon else ""


def load(folders: Mapping[str, Path]) -> dict[str, dict[str, dict[str, str]]]:
    """The claims as written in each study's ``claims.yaml``: study, id, then kind, source, says, predicate.

    Raises:
        ValueError: naming the file and the claim, for a missing or unknown key or an unknown kind.
    """
    claims: dict[str, dict[str, dict[str, str]]] = {}
    for study, folder in folders.items():
        path = folder / "claims.yaml"
        claims[study] = {name: entry for name, entry in yaml_file.read(path).items() if name != TERMS}
        for name, entry in claims[study].items():
            if set(entry) - {FORMERLY, CORRECTED} != KEYS or entry["kind"] not in KINDS:
                allowed = f"{', '.join(sorted(KEYS))}, perhaps {FORMERLY} and {CORRECTED}; kind one of {', '.join(KINDS)}"
                raise ValueError(f"{path}: {name}: found {entry}, allowed: {allowed}")
    return claims


def terms(folders: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """The terms that each study's claims use, with their meanings; see :data:`TERMS`."""
    return {study: yaml_file.read(folder / "claims.yaml").get(TERMS, {}) for study, folder in folders.items()}


def judge_all(
    claims: Mapping[str, Mapping[str, Mapping[str, str]]],
    evidence: Mapping[str, Evidence],
    sections: Mapping[str, Section],
) -> list[Claim]:
    """A verdict for every claim, in the file's order; ``not_run`` without a predicate or without runs.

    Args:
        claims: as returned by ``load``.
        evidence: by study; claims of a study without evidence are not run.
        sections: the predicates of each study.
    """
    judged = []
    for section, entries in claims.items():
        known, study = evidence.get(section), sections.get(section)
        for name, entry in entries.items():
            predicate = study.predicates.get(name) if study else None
            if predicate and known:
                finding = predicate(known)
            else:
                finding = Finding(missing=["no predicate in this version" if not predicate else "no runs"])
            power = partial(_power, study, known)
            looks = study.looks.get(name, 1) if study else 1
            fields: dict[str, Any] = {key: entry[key] for key in KEYS} | judge(finding, power, looks)
            judged.append(Claim(section=section, id=name, corrected=entry.get(CORRECTED, ""), **fields))
    return judged


def _power(study: Section | None, evidence: Evidence | None, comparison: Comparison) -> list[str]:
    return study.power(comparison, evidence) if study and evidence else []


def judge(finding: Finding, power: Power, looks: int = 1) -> dict[str, Any]:
    """Verdict, deciding comparison and reasons of one finding, as fields of Claim.

    If the claim is about several networks or tasks, one whose comparisons lack power counts as one that was not run: the
    others decide, and it is named among what is missing. Otherwise a single comparison that lacks power makes the claim
    underpowered.

    Args:
        finding: the result of the predicate.
        power: what a comparison lacks in trials and model quality, by the rules of its section.
        looks: see :class:`Section`; the comparisons that decide are corrected for them.
    """
    empty = [part for part in finding.parts if isinstance(part, Exact) and not (part.cases or part.failures)]
    parts = tuple(
        part.looked_at(looks) if isinstance(part, Comparison) and part.decides else part
        for part in finding.parts
    )
    missing = (*finding.missing, *(f"{part.name}: every case is vacuous" for part in empty))
    if not any(part not in empty if isinstance(part, Exact) else part.decides for part in parts):
        return {"verdict": "not_run", "missing": missing, "reasons": missing}
    exact = [part for part in parts if isinstance(part, Exact)]
    if exact:
        words = [part.verdict for part in exact]
        worst = next(word for word in ("contradicted", "partial", "reproduced") if word in words)
        main = exact[words.index(worst)]
        return {"verdict": worst, "numbers_say": worst, "main": main, "parts": parts, "missing": missing}
    compared = [part for part in parts if isinstance(part, Comparison) and part.decides]
    lacking = tuple(
        tuple(power(part)) if isinstance(part, Comparison) and part.decides else () for part in parts
    )
    reasons = tuple(dict.fromkeys(reason for lacks in lacking for reason in lacks))
    weak: dict[str, list[str]] = {}
    for part, lacks in zip(parts, lacking):
        if isinstance(part, Comparison) and lacks:
            known = weak.setdefault(subject(part), [])
            known += (reason for reason in lacks if reason not in known)
    strong = [part for part in compared if subject(part) not in weak]
    if weak and strong and all(map(subject, compared)):
        compared, reasons = strong, ()
        missing += tuple(f"{name}: {'; '.join(alike(lacks))}" for name, lacks in weak.items())
    # a count, such as multiply-adds, contradicts nothing by chance
    among = max(1, sum(part.among for part in compared if part.units is not None or part.interval.steps))
    counted = {id(part): replace(part, among=among) for part in compared}
    parts, compared = tuple(counted.get(id(part), part) for part in parts), list(counted.values())
    says = weakest(part.verdict for part in compared)
    deciding = [part for part in compared if part.verdict == says]
    local = [part for part in deciding if part.of_these_victims]
    # reproduced needs every part, but a single part contradicts
    if says != "contradicted" or local == deciding:
        missing += tuple(
            f"{part.name}: {part.verdict} for these victims, not decided if victims are drawn, too; {LOCAL}"
            for part in local
        )
    return {
        "verdict": "underpowered" if reasons else says,
        "numbers_say": says,
        "main": next(part for part in compared if part.verdict == says),
        "parts": parts,
        "reasons": reasons,
        "missing": missing,
        "lacking": lacking,
    }


def tally(claims: Sequence[Claim]) -> dict[str, int]:
    """Number of claims with each verdict, strongest verdict first; provisional ones are counted separately.

    Checks of theorems are left out: they can only fail through a bug, so they say nothing about the paper.
    """
    words = [
        f"{claim.verdict} (provisional)" if claim.provisional else claim.verdict
        for claim in claims
        if claim.kind != "check"
    ]
    counts = Counter(words)
    order = [*reversed(ORDER), "partial", "underpowered", "not_run"]
    ranked = [name for word in order for name in (word, f"{word} (provisional)")]
    return {word: counts[word] for word in ranked if counts[word]}
