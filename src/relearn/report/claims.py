"""Every claim of claims.yaml with its verdict: the predicate's finding, judged as its head defines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from relearn.report import yaml_file
from relearn.report.comparisons import Comparison, Exact, Finding
from relearn.report.quantities import Evidence
from relearn.report.verdicts import ORDER, weakest
from relearn.studies.freelb import claims as claims_freelb
from relearn.studies.gradinit import claims as claims_gradinit
from relearn.studies.l2_attention import claims as claims_l2_attention
from relearn.studies.layer_scale import claims as claims_layer_scale
from relearn.studies.lipsformer import claims as claims_lipsformer
from relearn.studies.long_short import claims as claims_long_short
from relearn.studies.lrformer import claims as claims_lrformer
from relearn.studies.poisoning import claims as claims_poisoning
from relearn.studies.robustness import claims as claims_robustness

Power = Callable[[Comparison], list[str]]  # why a comparison is underpowered; empty if it is not


@dataclass(frozen=True)
class Section:
    """The predicates of one study by claim, and what its comparisons lack in trials and model quality."""

    predicates: Mapping[str, Callable[[Evidence], Finding]]
    power: Callable[[Comparison, Evidence], list[str]]


#: by section of claims.yaml, which is named as the study
SECTIONS = {
    "poisoning": Section(claims_poisoning.PREDICATES, claims_poisoning.power),
    "freelb": Section(claims_freelb.PREDICATES, claims_freelb.power),
    "gradinit": Section(claims_gradinit.PREDICATES, claims_gradinit.power),
    "l2_attention": Section(claims_l2_attention.PREDICATES, claims_l2_attention.power),
    "lipsformer": Section(claims_lipsformer.PREDICATES, claims_lipsformer.power),
    "lrformer": Section(claims_lrformer.PREDICATES, claims_lrformer.power),
    "layer_scale": Section(claims_layer_scale.PREDICATES, claims_layer_scale.power),
    "long_short": Section(claims_long_short.PREDICATES, claims_long_short.power),
    "robustness": Section(claims_robustness.PREDICATES, claims_robustness.power),
}
KEYS = {"kind", "source", "says", "predicate"}


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, and what this scale's records say to it.

    ``main`` is the comparison that decides: the weakest one. ``numbers_say`` is the verdict without regard to
    the number of trials and the models' quality. ``missing`` names what the claim also speaks of and no run
    covers: with it, the verdict is provisional.
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

    @property
    def provisional(self) -> bool:
        return bool(self.parts and self.missing)

    @property
    def runs(self) -> list[str]:
        return sorted({run for part in self.parts for run in part.runs})

    def count(self) -> dict[str, int]:
        """Targets, victims, their pairs, seeds and trials behind the deciding comparison, or networks and seeds."""
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


def load(path: str | Path) -> dict[str, dict[str, dict[str, str]]]:
    """The claims as written: section, id, then kind, source, says, predicate.

    Raises:
        ValueError: naming file, section and claim, for a missing or an unknown key.
    """
    claims: dict[str, dict[str, dict[str, str]]] = yaml_file.read(path)
    for section, entries in claims.items():
        for name, entry in entries.items():
            if set(entry) != KEYS or entry["kind"] not in ("exact", "trained"):
                allowed = ", ".join(sorted(KEYS))
                raise ValueError(f"{path}: {section}.{name}: found {entry}, allowed: {allowed}")
    return claims


def judge_all(
    claims: Mapping[str, Mapping[str, Mapping[str, str]]], evidence: Mapping[str, Evidence]
) -> list[Claim]:
    """A verdict for every claim, in the file's order; ``not_run`` without a predicate or without runs.

    Args:
        claims: as ``load`` gives them.
        evidence: by study, which is named as the section; a section without evidence has no predicate to run.
    """
    judged = []
    for section, entries in claims.items():
        known, study = evidence.get(section), SECTIONS.get(section)
        for name, entry in entries.items():
            predicate = study.predicates.get(name) if study else None
            if predicate and known:
                finding = predicate(known)
            else:
                finding = Finding(missing=["no predicate in this version" if not predicate else "no runs"])
            power = partial(_power, study, known)
            fields: dict[str, Any] = {**entry, **judge(finding, power)}
            judged.append(Claim(section=section, id=name, **fields))
    return judged


def _power(study: Section | None, evidence: Evidence | None, comparison: Comparison) -> list[str]:
    return study.power(comparison, evidence) if study and evidence else []


def judge(finding: Finding, power: Power) -> dict[str, Any]:
    """Verdict, deciding comparison and reasons of one finding, as fields of Claim.

    Args:
        finding: what the predicate says.
        power: what a comparison lacks in trials and model quality, by the rules of its section.
    """
    parts = tuple(finding.parts)
    missing = tuple(finding.missing)
    if not any(isinstance(part, Exact) or part.decides for part in parts):
        return {"verdict": "not_run", "missing": missing, "reasons": missing}
    exact = [part for part in parts if isinstance(part, Exact)]
    if exact:
        words = [part.verdict for part in exact]
        worst = next(word for word in ("contradicted", "partial", "reproduced") if word in words)
        main = exact[words.index(worst)]
        return {"verdict": worst, "numbers_say": worst, "main": main, "parts": parts, "missing": missing}
    compared = [part for part in parts if isinstance(part, Comparison) and part.decides]
    says = weakest(part.verdict for part in compared)
    reasons = list(dict.fromkeys(reason for part in compared for reason in power(part)))
    return {
        "verdict": "underpowered" if reasons else says,
        "numbers_say": says,
        "main": next(part for part in compared if part.verdict == says),
        "parts": parts,
        "reasons": tuple(reasons),
        "missing": missing,
    }


def tally(claims: Sequence[Claim]) -> dict[str, int]:
    """How many claims have each verdict, strongest first; provisional ones are counted apart."""
    words = [f"{claim.verdict} (provisional)" if claim.provisional else claim.verdict for claim in claims]
    counts = Counter(words)
    order = [*reversed(ORDER), "partial", "underpowered", "not_run"]
    ranked = [name for word in order for name in (word, f"{word} (provisional)")]
    return {word: counts[word] for word in ranked if counts[word]}
