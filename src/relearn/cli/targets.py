"""What can be requested by name: a paper, a chapter, a study, a table, a figure, a claim; and the runs that each needs.

========================  ======================================================================
``kim2020``               a paper: all runs of its studies
``chapter2``              a chapter of the dissertation
``poisoning``             a study
``table2.2``, ``fig4.4``  a table or figure; if several papers have one of that number, ``kim2020.table1``
``claim:NAME``            a claim of claims.yaml
========================  ======================================================================

`relearn plan` also accepts ``all``, ``study/step`` and paths; :func:`selection` translates for them.

A claim needs the runs that its predicate reads, and those of further steps that measure the required quality of these runs. A table or
figure needs the runs that its cells and points read and the runs that its definition selects. All are evaluated on planned runs
(:mod:`relearn.cli.planned_runs`). The tests compare the result with the runs that published results name.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.studies import STUDIES
from relearn.studies.study import Study, all_studies, load

if TYPE_CHECKING:
    from relearn.report.artefacts import Artefact
    from relearn.report.quantities import Evidence
    from relearn.studies.family import Family

KINDS = ("papers", "chapters", "studies", "tables", "figures", "claims")
CLAIM = "claim:"
ALL_OF_ITS_STEPS = "all runs of its steps: which of them it reads is known only after they finish"
NUMBERED = re.compile(r"(table|fig|sec)\d")  # of a paper; our own are named by their whole id
Plans = Mapping[str, Mapping[str, "Family"]]


@dataclass(frozen=True)
class Target:
    """Something that can be requested.

    Args:
        name: what the user types.
        kind: one of KINDS.
        studies: the studies whose runs it needs.
        id: of the artefact or claim; "" for whole studies.
        title: a readable title.
        check: whether it is the check of a theorem, which is not counted as a claim.
    """

    name: str
    kind: str
    studies: tuple[str, ...]
    id: str
    title: str
    check: bool = False


@cache
def targets() -> dict[str, Target]:
    """Every target by name, whole studies first."""
    studies, found = all_studies(), list[Target]()
    for paper in dict.fromkeys(study.paper for study in studies):
        mine = [study for study in studies if study.paper == paper]
        found.append(_whole(paper, "papers", mine))
    for number in dict.fromkeys(_chapter(study) for study in studies if study.chapter):
        found.append(_whole(number, "chapters", [study for study in studies if _chapter(study) == number]))
    found += [_whole(study.name, "studies", [study]) for study in studies]
    found += _artefacts(studies)
    claims = [
        (study.name, name, claim["says"], claim["kind"] == "check")
        for study in studies
        for name, claim in _entries(study, "claims").items()
    ]
    names = [name for _, name, *_ in claims]
    for study_name, name, says, check in claims:
        full = name if names.count(name) == 1 else f"{study_name}.{name}"
        found.append(Target(f"{CLAIM}{full}", "claims", (study_name,), name, says, check))
    return {target.name: target for target in found}


def with_whole_ids() -> dict[str, Target]:
    """As :func:`targets`, and every table and figure by its whole id, too, where its name is shorter."""
    known = targets()
    return known | {one.id: one for one in known.values() if one.kind in ("tables", "figures")}


def find(name: str) -> Target:
    """The target of this name; a claim may be given without ``claim:``, an artefact by its whole id.

    Raises:
        ValueError: no target or several have this name; the message lists the nearest.
    """
    known = targets()
    if not name:
        raise ValueError("found an empty name, allowed: one that `relearn list` names")
    for one in (name, f"{CLAIM}{name}"):
        if one in known:
            return known[one]
    meant = [one for one in known.values() if name in (one.id, one.id.partition(".")[2])]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise ValueError(f"found {name}, allowed: one of {', '.join(one.name for one in meant)}")
    near = nearest(name)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"found {name}, no target; {hint}`relearn list` names all")


def nearest(name: str) -> list[str]:
    """Up to three similar names."""
    from difflib import get_close_matches

    known = {one.lower(): one for one in targets()}
    known |= {one.removeprefix(CLAIM): known[one] for one in list(known) if one.startswith(CLAIM)}
    found = get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    return list(dict.fromkeys(known[one] for one in found))


def records(target: Target, plans: Plans) -> tuple[list[str], bool]:
    """The records from which the target is computed, without their ancestors, and whether they are known run by run.

    Args:
        target: one of :func:`targets`.
        plans: for each of its studies, the families of its plan by step.
    """
    from relearn.cli.planned_runs import asked_by, planned

    runs = [run for name in target.studies for run in planned(plans[name].values())]
    if not target.id:
        return [run.path for run in runs], True
    (study,) = (load(name) for name in target.studies)
    if target.kind == "claims":
        section = study.part("claims")
        predicate = section.PREDICATES.get(target.id)
        if predicate is None:
            return [], True
        found, exact = asked_by(predicate, runs)
        judged, _ = asked_by(partial(_judge, predicate, section.power), runs)
        own = needed([run.path for run in found], plans)
        steps = {run.step for run in runs if run.path in own}
        return [run.path for run in (*found, *(run for run in judged if run.step not in steps))], exact
    artefact, call = _artefact_reader(study, target.id)
    found, exact = asked_by(call, runs)
    wanted = [*artefact.where, *(row.reference for row in artefact.rows if row.reference)]
    selected = [run for run in runs if any(run.matches(where) for where in wanted)]
    if not exact:
        found = [run for run in found if run.step in {one.step for one in selected}] or found
    paths = {run.path for run in (*found, *selected)}
    return [run.path for run in runs if run.path in paths], exact


def records_at(scale: str, target: Target, plans: Plans) -> tuple[list[str], bool]:
    """As :func:`records`.

    Raises:
        ValueError: no run of the target is planned at this scale.
    """
    found, exact = records(target, plans)
    if not found:
        raise ValueError(
            f"found {target.name}: no run of it is planned at scale {scale}; allowed: another --scale"
        )
    return found, exact


def selection(words: Iterable[str], values: Mapping[str, Any]) -> list[str]:
    """The words with every name of a paper, chapter, table, figure or claim replaced by the folders of its runs.

    ``all``, studies and whatever has a slash (``study/step``, paths) are left to
    :func:`relearn.forecast.planned.with_ancestors`.

    Args:
        words: what the user typed.
        values: the parameters in force.

    Raises:
        ValueError: no target or several have the name, or none of its runs is planned at this scale.
    """
    found: list[str] = []
    planned: Plans | None = None
    for word in words:
        if word == "all" or word in STUDIES or "/" in word:
            found.append(word)
            continue
        try:
            target = find(word)
        except ValueError as error:
            raise ValueError(
                f"target: {error}; allowed as well: all, study/step, a file or folder of a run"
            ) from None
        planned = planned or plans(values)
        paths, exact = records_at(values["scale"], target, planned)
        if not exact:
            print(f"{target.name}: {ALL_OF_ITS_STEPS}", file=sys.stderr)
        found += map(posixpath.dirname, paths)
    return found


def plans(values: Mapping[str, Any]) -> Plans:
    """The families of every study, by study and step.

    Args:
        values: the parameters in force.
    """
    return {study.name: study.part("plan").plan(values, values["scale"]) for study in all_studies()}


def needed(found: Iterable[str], plans: Plans) -> list[str]:
    """These records and those of all runs that they depend on, directly or not."""
    from relearn.forecast.planned import reached

    runs = {
        family.pattern.format(**cell): (family, cell)
        for families in plans.values()
        for family in families.values()
        for cell in family.runs
    }

    def before(folder: str) -> list[str]:
        family, cell = runs[folder]
        paths = (path for paths in family.inputs_of(**cell).values() for path in paths)
        return [one for one in map(posixpath.dirname, paths) if one in runs]

    return [f"{folder}/record.json" for folder in reached(map(posixpath.dirname, found), before)]


def seconds_left(found: Iterable[str], plans: Plans, seconds: Mapping[str, float]) -> float:
    """The forecast time of the missing records among these and their dependencies.

    Args:
        found: records.
        plans: of every study.
        seconds: the forecast of each run, by folder; a run without forecast counts as 0.
    """
    missing = [path for path in needed(found, plans) if not Path(path).is_file()]
    return sum(seconds.get(posixpath.dirname(path), 0.0) for path in missing)


def _judge(predicate: Callable[[Any], Any], power: Callable[[Any, Any], Any], evidence: Evidence) -> None:
    """Read what a verdict reads: the predicate's runs, and those that say whether a comparison has the required quality."""
    from relearn.report.comparisons import Comparison

    for part in predicate(evidence).parts:
        if isinstance(part, Comparison) and part.decides:
            with suppress(Exception):  # numbers that are all 1 may be impossible for it
                power(part, evidence)


def _artefact_reader(study: Study, name: str) -> tuple[Artefact, Callable[[Evidence], Any]]:
    """The definition of a table or figure, and a function that reads its runs."""
    from relearn.report import artefacts, table

    artefact = _all_artefacts()[name]

    def call(evidence: Evidence) -> None:
        whole = artefacts.expand_rows(artefact, evidence.runs)
        if whole.kind == "table":
            table.build(whole, evidence)
        else:
            import_module(study.figures[str(whole.renderer)]).points(whole, evidence)

    return artefact, call


def _artefacts(studies: Iterable[Study]) -> list[Target]:
    found = [
        (kind, study.name, name, entry["title"])
        for study in studies
        for kind in ("tables", "figures")
        for name, entry in _entries(study, kind).items()
    ]
    short = [name.partition(".")[2] for _, _, name, _ in found]
    return [
        Target(rest if short.count(rest) == 1 and NUMBERED.match(rest) else name, kind, (study,), name, title)
        for (kind, study, name, title), rest in zip(found, short)
    ]


def _entries(study: Study, kind: str) -> dict[str, Any]:
    from relearn.report import yaml_file

    file = study.reported / f"{kind}.yaml"
    found = yaml_file.read(file) if file.is_file() else {}
    return {name: entry for name, entry in found.items() if not name.startswith("_")}


@cache
def _all_artefacts() -> dict[str, Artefact]:
    from relearn.report import artefacts

    return artefacts.load({study.name: study.reported for study in all_studies()})


def _whole(name: str, kind: str, studies: list[Study]) -> Target:
    title = "; ".join(study.title for study in studies)
    return Target(name, kind, tuple(study.name for study in studies), "", title)


def _chapter(study: Study) -> str:
    digits = re.sub(r"\D", "", study.chapter)
    return f"chapter{digits}"
