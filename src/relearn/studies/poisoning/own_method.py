"""A method of the user's own in the study's pipeline: the jobs that measure it, from the study's own plan.

The verbs `relearn evaluate-filter` and `relearn evaluate-poisons` add one entry, OWN, to the plan of a scale that has been run,
and run only the jobs of that entry. Networks, other poisons and clean victims are those of the results folder, so the numbers compare
with its records trial by trial.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relearn.report import runs
from relearn.report.comparisons import DIFFERENCE, Comparison, paired_difference
from relearn.report.leaderboard import Row, rows
from relearn.report.quantities import Evidence
from relearn.report.verdicts import Above, widened
from relearn.runs.code_version import code_version
from relearn.studies.family import Family
from relearn.studies.poisoning.plan import plan
from relearn.studies.poisoning.plan.poisons import WHITE_BOX
from relearn.studies.poisoning.study import STUDY

OWN = "own"
"""Label of the user's attack or defence."""
UNKNOWN = "transfer"
"""Knowledge in the records of the user's poisons if the user does not state it: the one that is relative to no victim."""
STEPS = ("filter", "train")


@dataclass(frozen=True)
class Job:
    """One run: its folder, its words for the command line, and the input files that it lacks."""

    folder: Path
    words: tuple[str, ...]
    missing: tuple[str, ...]


def with_filter(
    params: Mapping[str, Any], attacks: Sequence[str], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters of a scale with OWN as the defence against these attacks."""
    changed = copy.deepcopy(dict(params))
    own = changed["poisoning"]
    own["filter"][OWN] = dict(arguments)
    own["studies"]["transfer"] = {attack: [OWN] for attack in attacks}
    return changed


def with_poisons(params: Mapping[str, Any], defences: Sequence[str], eps: float) -> dict[str, Any]:
    """The parameters of a scale with OWN as an attack that meets these defences."""
    changed = copy.deepcopy(dict(params))
    own = changed["poisoning"]
    own["craft"]["attacks"][OWN] = {"eps": eps}
    own["studies"]["transfer"] = {OWN: list(defences)}
    return changed


def jobs(
    params: Mapping[str, Any],
    scale: str,
    results: Path,
    out: Path,
    machine: Sequence[str] = (),
    victims: Sequence[str] = (),
    knowledge: str = UNKNOWN,
) -> list[Job]:
    """The jobs of OWN in the order in which they must run.

    Args:
        params: of :func:`with_filter` or :func:`with_poisons`.
        results: the results folder of the scale, whose files are read.
        out: folder for the new runs, laid out like ``results``.
        machine: more words, such as ``--device cpu``.
        victims: only these; default all.
        knowledge: of the attacker, in the records of the user's poisons.
    """
    families = plan(params, scale)
    found = []
    for name in STEPS:
        for run in families[name].runs:
            wanted = OWN in (run["attack"], run["defence"]) and run["setting"] == "transfer"
            if wanted and (not victims or run["victim"] in victims):
                where = (Path("results", scale), results, out)
                found.append(_job(families[name], run, *where, machine, knowledge))
    return found


def _job(
    family: Family,
    run: Mapping[str, str],
    planned: Path,
    results: Path,
    out: Path,
    machine: Sequence[str],
    knowledge: str = UNKNOWN,
) -> Job:
    labels = {key: value for key, value in run.items() if key != "seed"}

    def place(path: str) -> Path:
        below = Path(path).relative_to(planned)
        return (out if OWN in below.parts else results) / below

    folder = place(family.pattern.format(**run))
    inputs = {
        name: [place(path) for path in paths]
        for name, paths in family.inputs_of(seed=run.get("seed"), **labels).items()
    }
    modules = [STUDY.steps[family.step], *family.modules_of(**labels)]
    settings = dict(family.settings_of(**labels))
    if labels.get("attack") == OWN and settings.get("knowledge") is not None:
        settings["knowledge"] = knowledge  # the plan's is that of attacks on this project's substitutes
    words = ["poisoning", family.step, "--settings", json.dumps(settings)]
    words += ["--code", code_version(*modules), "--scale", family.scale, "--seed", run.get("seed", "0")]
    for name, paths in inputs.items():
        words += ["--input", name, *map(str, paths)]
    for name, value in family.labels_of(**labels).items():
        words += ["--label", f"{name}={value}"]
    words += [*machine, "--out", str(folder)]
    lacking = [
        str(path)
        for paths in inputs.values()
        for path in paths
        if results in path.parents and not path.is_file()
    ]
    return Job(folder, tuple(words), tuple(lacking))


def boards(
    results: Path, out: Path, scale: str, made: Iterable[Job], attacks: Iterable[str] | None = None
) -> list[tuple[str, list[Row]]]:
    """Title and rows of the study's leaderboards with the new runs among the recorded ones.

    Args:
        made: the jobs whose runs below ``out`` count; earlier runs there are of another filter or of other poisons.
        attacks: only these cells of the board of defences; None: only the cell OWN, with the board of attacks.
    """
    together = _together(results, out, scale, made)
    found = []
    for board in STUDY.part("claims").BOARDS:
        if board.method == "attack" and attacks is not None:
            continue
        of_board = rows(board, STUDY.name, scale, together)
        cells = {OWN} if attacks is None else set(attacks)
        kept = [row for row in of_board if not board.cell or row.cell in cells]
        found.append((board.title, kept))
    return found


def differences(
    results: Path, out: Path, scale: str, made: Iterable[Job], attacks: Iterable[str] | None
) -> list[tuple[Comparison, list[str]]]:
    """OWN minus each recorded rival, paired by victim, seed and target, and the reasons why a difference is underpowered.

    For a defence (``attacks`` given): its success net of the control minus another's, against each attack. For an
    attack: its success on undefended victims, net of the control, minus another attack's; attacks that know the victim's
    weights are no rivals. The intervals are widened for the number of differences (:func:`relearn.report.verdicts.widened`).
    """
    evidence = Evidence(_together(results, out, scale, made))
    where = {"setting": "transfer"}
    labels = [
        run.labels for run in evidence.runs if run.step == "train" and run.labels["setting"] == "transfer"
    ]
    if attacks is None:
        met = {one["attack"] for one in labels} - {OWN, "clean"}
        rivals = sorted(attack for attack in met if not attack.startswith(WHITE_BOX))
        pairs = [
            (
                "attack_success_net",
                {"attack": OWN, "defence": "none"},
                {"attack": rival, "defence": "none"},
                rival,
            )
            for rival in rivals
        ]
    else:
        pairs = [
            (
                "defence_success_net",
                {"attack": attack, "defence": OWN},
                {"attack": attack, "defence": rival},
                f"{rival}, against {attack}",
            )
            for attack in attacks
            for rival in sorted({one["defence"] for one in labels if one["attack"] == attack} - {OWN})
        ]
    parts = [
        paired_difference(
            f"own - {name}",
            evidence.trials(quantity, {**where, **mine}),
            evidence.trials(quantity, {**where, **other}),
            Above(0.0),
            bounds=DIFFERENCE,
        )
        for quantity, mine, other, name in pairs
    ]
    found = [part for part in parts if part is not None]
    power = STUDY.part("claims").power
    # any of them is read as a result of its own, so that each must also hold on the claimed side at this confidence
    return [
        (replace(part, interval=widened(part.interval, len(found))), power(part, evidence)) for part in found
    ]


def removed(out: Path, scale: str, made: Iterable[Job]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Attack and defence → shares of poisons and of clean points removed, and the mean MCC, over the new runs' trials."""
    evidence = Evidence(_made(out, scale, made))
    cells = {(run.labels["attack"], run.labels["defence"]) for run in evidence.runs if run.step == "filter"}
    found = {}
    for attack, defence in sorted(cells):
        where = {"attack": attack, "defence": defence}
        means = []
        for name in ("poisons_removed", "clean_removed", "mcc"):
            values = [trial.value for trial in evidence.trials(name, where)]
            means.append(sum(values) / len(values))
        found[attack, defence] = (means[0], means[1], means[2])
    return found


def _made(out: Path, scale: str, jobs: Iterable[Job]) -> list[runs.Run]:
    """The runs of these jobs; ``out`` may hold those of an earlier call, with other poisons or another filter."""
    folders = {job.folder for job in jobs}
    return [run for run in runs.load(out, scale)[0] if out / run.folder in folders]


def _together(results: Path, out: Path, scale: str, made: Iterable[Job]) -> list[runs.Run]:
    recorded = [run for run in runs.load(results, scale)[0] if OWN not in run.labels.values()]
    return [*(run for run in recorded if run.study == STUDY.name), *_made(out, scale, made)]
