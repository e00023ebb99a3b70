"""zhu2022, figure 2.3: attack loss during crafting on substitutes and on victims, with and without Dropout."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.comparisons import paired_difference
from relearn.report.figures.style import COLOURS, MUTED, SMALL, apply_style, empty_figure, not_run, number
from relearn.report.quantities import Evidence
from relearn.report.runs import having, select
from relearn.report.verdicts import Below
from relearn.studies.poisoning.claims.victim_loss import victim_losses

FIELDS = ("attack", "dropout", "network", "iteration", "loss", "low", "high", "targets", "seeds", "runs")
BARS = "with - without Dropout: mean final loss of the watched victims, bootstrap 95% interval over targets"
DIFFERENCE = "with - without"  # in place of a network: the row of a panel's difference
WITHOUT = "_no_dropout"  # suffix of attacks crafted on substitutes without Dropout
WATCH = "watch_"  # prefix of column names in history.csv, followed by the victim's architecture
SUBSTITUTES, VICTIMS = "substitutes", "victims"  # the second is the mean over the watched victims
DASHED = (0, (4, 2))
COLOUR = {SUBSTITUTES: COLOURS["feature_collision"], VICTIMS: COLOURS["convex_polytope"]}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per attack, network and iteration: the loss, averaged over targets and seeds and, for substitutes, over networks.

    For each attack with and without Dropout one more row: the difference of the victims' final losses, paired by victim, seed and target.
    """
    found = []
    for row in artefact.rows:
        values: dict[tuple[str, int], list[float]] = defaultdict(list)
        runs = having(select(evidence.runs, *artefact.where, row.where), "history.csv")
        for run in runs:
            if run.diverged:
                continue
            for line in run.rows("history.csv"):
                watched = {
                    k.removeprefix(WATCH): v for k, v in line.items() if k.startswith(WATCH) and v is not None
                }
                if watched:
                    watched[VICTIMS] = sum(watched.values()) / len(watched)
                for network, loss in {SUBSTITUTES: line["loss_mean"], **watched}.items():
                    if loss is not None:
                        values[network, line["iteration"]].append(float(loss))
        folders = " ".join(run.folder for run in runs)
        targets = max((len(run.trials) for run in runs if run.has("trials.csv")), default=None)
        attack, dropout = row.id.removesuffix(WITHOUT), int(not row.id.endswith(WITHOUT))
        for (network, iteration), losses in values.items():
            mean = sum(losses) / len(losses)
            known = (attack, dropout, network, iteration, mean, None, None, targets, len(losses), folders)
            found.append(dict(zip(FIELDS, known)))
    return found + [one for row in artefact.rows for one in _difference(row.id, evidence)]


def _difference(attack: str, evidence: Evidence) -> list[dict[str, Any]]:
    left, right = (victim_losses(evidence, name) for name in (attack, attack + WITHOUT))
    both = paired_difference(attack, left, right, Below(0.0), unit="loss")
    if both is None:
        return []
    mean, targets = both.interval, len({target for _, _, target in both.keys})
    ends = (mean.low, mean.high) if math.isfinite(mean.low) else (None, None)
    known = (attack, None, DIFFERENCE, None, mean.estimate, *ends, targets, None, " ".join(both.runs))
    return [dict(zip(FIELDS, known))]


def note(_: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """The thin lines, and how many targets are behind each line: the paper shows one."""
    counts = sorted({point["targets"] for point in points if point["targets"]})
    several = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "several"
    return f"mean over {several} targets, the paper: one target; thin lines: one watched victim each"


NOTE = note


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw one panel per attack: solid lines with Dropout, dashed lines without."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    attacks = [row for row in artefact.rows if not row.id.endswith(WITHOUT)]
    with apply_style():
        figure = empty_figure(3.7)
        grid = figure.subplots(1, len(attacks))
        for axes, row in zip(grid, attacks):
            here = [p for p in points if p["attack"] == row.id and p["network"] != DIFFERENCE]
            axes.set_title(row.title)
            axes.set_xlabel("Iteration")
            despine(ax=axes, left=True)
            if not here:
                not_run(axes)
                continue
            for network in dict.fromkeys(point["network"] for point in here):
                for dropout in (1, 0):
                    line = [p for p in here if (p["network"], p["dropout"]) == (network, dropout)]
                    xs, ys = ([point[name] for point in line] for name in ("iteration", "loss"))
                    axes.plot(xs, ys, ls="-" if dropout else DASHED, **_stroke(network))
            for point in points:
                if (point["attack"], point["network"]) == (row.id, DIFFERENCE):
                    told = number(point["loss"], point["low"], point["high"])
                    place: Any = {"transform": axes.transAxes, "ha": "right", "va": "top"}
                    axes.text(
                        0.99,
                        0.98,
                        f"victims, {DIFFERENCE} Dropout:\n{told}",
                        fontsize=SMALL,
                        color=MUTED,
                        **place,
                    )
            axes.set_yscale("log")
            for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
                formatted(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "125" else "")
        grid[0].set_ylabel("Loss (log scale)")
        handles = [
            Line2D([], [], color=COLOUR[network], lw=1.8, ls=style, label=f"{title}, crafted {how} Dropout")
            for network, title in ((SUBSTITUTES, "Substitutes"), (VICTIMS, "Watched victims, mean"))
            for dropout, how, style in ((1, "with", "-"), (0, "without", DASHED))
            if any((point["network"], point["dropout"]) == (network, dropout) for point in points)
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, handlelength=2.8)
    return figure


def _stroke(network: str) -> dict[str, Any]:
    if network in COLOUR:
        return {"color": COLOUR[network], "lw": 1.8, "zorder": 4}
    return {"color": COLOUR[VICTIMS], "lw": 0.8, "alpha": 0.4, "zorder": 3}
