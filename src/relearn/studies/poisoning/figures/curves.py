"""zhu2022, figure 2.3: attack loss during crafting on substitutes and on victims, with and without Dropout."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures.style import COLOURS, apply_style, empty_figure, not_run
from relearn.report.quantities import Evidence
from relearn.report.runs import having, select

FIELDS = ("attack", "dropout", "network", "iteration", "loss", "seeds", "runs")
NOTE = "thin lines: one watched victim each"
WITHOUT = "_no_dropout"  # suffix of attacks crafted on substitutes without Dropout
WATCH = "watch_"  # prefix of column names in history.csv, followed by the victim's architecture
SUBSTITUTES, VICTIMS = "substitutes", "victims"  # the second is the mean over the watched victims
DASHED = (0, (4, 2))
COLOUR = {SUBSTITUTES: COLOURS["feature_collision"], VICTIMS: COLOURS["convex_polytope"]}


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per attack, network and iteration: the loss, averaged over seeds and, for substitutes, over networks."""
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
        attack, dropout = row.id.removesuffix(WITHOUT), int(not row.id.endswith(WITHOUT))
        for (network, iteration), losses in values.items():
            mean = sum(losses) / len(losses)
            found.append(dict(zip(FIELDS, (attack, dropout, network, iteration, mean, len(losses), folders))))
    return found


def draw(artefact: Artefact, points: list[dict[str, Any]]) -> Any:
    """Draw one panel per attack: solid lines with Dropout, dashed lines without."""
    from matplotlib.lines import Line2D
    from seaborn import despine

    attacks = [row for row in artefact.rows if not row.id.endswith(WITHOUT)]
    with apply_style():
        figure = empty_figure(3.7)
        grid = figure.subplots(1, len(attacks))
        for axes, row in zip(grid, attacks):
            here = [point for point in points if point["attack"] == row.id]
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
