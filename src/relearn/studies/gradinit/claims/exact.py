"""The predicates of zhu2022, chapter 4, that do not compare accuracies: gradients before training, costs, counts and equations."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

from relearn.report.cases import number
from relearn.report.comparisons import Comparison, Exact, Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, folders, having, select
from relearn.report.seeds import Sample, level
from relearn.report.verdicts import Above, Below
from relearn.studies.gradinit.claims.images import TABLE_4_4, TABLE_4_5, cost_ratio, of_start

STATISTICS = {"step": "gradient_statistics"}
WEIGHTS = ("norm", "linear")  # kinds of tensor that the figures show
LEAST_SHARE = 0.95  # of the layers
MOST_COST = 0.01  # of the training time
EPOCHS = 200  # in the published training
STD, RELATIVE = "gradient_std", "relative_std"
WORDS = {STD: "sigma(g)", RELATIVE: "sigma(g) / |E g|"}
MEASURED = {
    ("VGG-19", "kaiming", "gradinit"): (),
    ("VGG-19-BN", "kaiming", "gradinit"): (STD,),
    ("ResNet-110", "kaiming", "gradinit"): (),
    ("ResNet-110-BN", "kaiming", "gradinit"): (STD, RELATIVE),
    ("DenseNet-100", "kaiming", "gradinit"): (STD,),
    ("DenseNet-100-BN", "kaiming", "gradinit"): (STD,),
    ("timm-ResNet-50-BN", "kaiming", "gradinit"): (RELATIVE,),
    ("post_ln", "xavier", "gradinit"): (STD,),
    ("post_ln", "xavier", "gradinit_sgd"): (),
}
"""Network, initialisation before and after, as in figures 4.1 and 4.4 to 4.10; and the columns that decide: those that the paper says
fall. Of figures 4.6 (no normalisation) and 4.10 (most weights) it does not say so."""
EXCEPTED = re.compile(r"decoder\.\d+\.self_attention\.[qk]\.")
"""Weights that the caption of figure 4.9 excepts."""


def lower_gradient_variance(evidence: Evidence) -> Finding:
    """In at least 95% of the layers other than the last, sigma(g) falls on each network whose figure the paper describes so
    (:data:`MEASURED`); and so does sigma(g) / abs(E g), the ratio of figure 4.1, on its two ResNets.

    A layer is a weight of a linear map, a convolution or a normalisation, as in the figures; the last layer is the last linear map
    or convolution of an image network. Query and key projections of the self-attention in the Transformer's decoder do not count, as
    the paper excepts them. A sigma that is not finite counts as infinite.

    The other shares are also shown but do not decide. sigma alone falls with any rescaling that makes gradients smaller; the ratio
    does not depend on the scale.
    """
    parts: dict[str, Comparison | None] = {}
    beside = []
    for (network, start, ours), stated in MEASURED.items():
        for column, words in WORDS.items():
            name = f"{network}: share of layers with a smaller {words}, {ours} against {start}"
            shares, runs, notes, layers = _shares(evidence, network, start, ours, column)
            one = Sample(network, shares, runs)
            part = level(name, one, Above(LEAST_SHARE, strict=False), notes=notes, units=layers)
            if column in stated:
                parts[name] = part
            elif part:
                beside.append(replace(part, decides=False))
    return finding(parts, beside)


def _shares(
    evidence: Evidence, network: str, before: str, after: str, column: str
) -> tuple[dict[int, float], tuple[str, ...], list[str], int | None]:
    """The share of layers whose standard deviation falls, by seed; the runs; a note per seed; and the smallest number of layers."""
    pairs: dict[tuple[str, int], dict[str, Run]] = defaultdict(dict)
    for run in select(evidence.runs, STATISTICS, {"network": network, "initialisation": [before, after]}):
        pairs[run.labels.get("suite", ""), run.seed][run.labels["initialisation"]] = run
    found: dict[int, list[float]] = defaultdict(list)
    runs: list[str] = []
    notes = []
    counts = []
    for (_, seed), pair in sorted(pairs.items()):
        if set(pair) != {before, after}:
            continue
        first, second = (_deviations(pair[start], column) for start in (before, after))
        layers = [name for name in first if name in second]
        if not layers:
            continue
        fell = [name for name in layers if second[name] < first[name]]
        found[seed].append(len(fell) / len(layers))
        counts.append(len(layers))
        runs += [pair[start].folder for start in (before, after)]
        rest = [name for name in layers if name not in fell]
        more = f" and {len(rest) - 4} more" if len(rest) > 4 else ""
        not_in = f"; not in {', '.join(rest[:4])}{more}" if rest else ""
        notes.append(f"seed {seed}: {len(fell)} of {len(layers)}{not_in}")
    return (
        {seed: sum(own) / len(own) for seed, own in found.items()},
        tuple(runs),
        notes,
        min(counts, default=None),
    )


def _deviations(run: Run, column: str) -> dict[str, float]:
    """A column of layers.csv by layer, without the last linear layer of an image network and the layers that figure 4.9 excepts.

    The Transformer's output weights are its embedding's, which is no linear layer.
    """
    rows = [row for row in run.rows("layers.csv") if row["kind"] in WEIGHTS] if run.has("layers.csv") else []
    linear = (row["index"] for row in rows if row["kind"] == "linear")
    last = None if run.labels.get("task") == "translation" else max(linear, default=None)
    rows = [row for row in rows if row["index"] != last and not EXCEPTED.match(str(row["name"]))]
    return {str(row["name"]): number(row[column]) for row in rows}


def under_1_percent_of_training(evidence: Evidence) -> Finding:
    """GradInit takes less than 1% of the CPU or device time of 200 training epochs, on each network; paired by seed.

    Times differ from run to run by more than the distance of the networks from 1%, so the interval decides and no single run does.
    """
    parts: dict[str, Comparison | None] = {}
    missing: list[str] = []
    for network in TABLE_4_4 + TABLE_4_5:
        where = {"suite": "grid", "network": network, "initialisation": "gradinit", "recipe": "sgd"}
        start = of_start("initialise_s", network, "gradinit")
        name = f"{network}: seconds, GradInit / {EPOCHS} epochs"
        epoch = ("train_from_init.epoch_s", where)
        found, lacks = cost_ratio(name, evidence, start, epoch, Below(MOST_COST), EPOCHS)
        parts |= found
        missing += lacks
    return finding(parts, missing=missing)


def bn_magnifies(evidence: Evidence) -> Finding:
    """The measured variance of a gradient backpropagated through batch normalisation agrees with the corrected equation 4.6 in every case.

    A case is a batch size and an input variance; it holds if both agree within 4 standard errors. Nothing is trained, so every
    scale is at full size.
    """
    runs = having(select(evidence.runs, {"step": "check_batch_norm"}), "cases.csv")
    if not runs:
        return Finding(missing=["no runs for equation 4.6"])
    rows = [row for run in runs for row in run.rows("cases.csv")]
    wrong = sum(not row["printed_holds"] for row in rows)
    notes = (f"the printed bound fails in {wrong} of {len(rows)} cases (erratum)",)
    failures = sum(not row["holds"] for row in rows)
    return Finding([Exact("corrected equation 4.6", len(rows), failures, True, folders(runs), notes)])


def parameter_counts(evidence: Evidence) -> Finding:
    """The number of parameters of every network, rounded, equals the printed one; every scale builds the networks at full size."""
    runs = having(select(evidence.runs, {"step": "count_params"}), "counts.csv")
    if not runs:
        return Finding(missing=["no runs for the parameter counts"])
    rows = [row for row in runs[-1].rows("counts.csv") if row["published_millions"] is not None]
    wrong = [row for row in rows if not row["equal"]]
    notes = tuple(
        f"{row['network']}: {row['count']}, printed {row['published_millions']:g}M" for row in wrong
    )
    counted = {row["network"] for row in rows}
    lacking = [name for name in TABLE_4_4 + TABLE_4_5 if name not in counted]
    part = Exact("counts after rounding", len(rows), len(wrong), True, folders(runs[-1:]), notes)
    return Finding([part], [f"no count of {name}" for name in lacking])
