"""The written analyses quote the published numbers: every interval in them is one of their claim's."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pandas
import pytest

from relearn.report import analysis
from relearn.studies.study import all_studies

PUBLISHED = Path(__file__).resolve().parents[1] / "results/published"
NUMBER = r"[-+]?(?:\d[\d,]*(?:\.\d+)?(?:e-?\d+)?|∞)"
#: an interval; one of other runs names their commit in parentheses right behind it
INTERVAL = re.compile(rf"\[({NUMBER}), ({NUMBER})\](?! \([0-9a-f]{{7,10}}\))")


def value(text: str) -> float:
    return float(text.replace(",", "").replace("∞", "inf"))


def half_a_digit(text: str) -> float:
    return 0.5 * 10.0 ** -len(text.partition(".")[2]) + 1e-9


def agree(text: tuple[str, str], found: tuple[float, float]) -> bool:
    """Whether the words round the published bounds; "falls by" may turn both signs."""
    low, high = found
    return any(
        all(
            value(word) == bound or abs(value(word) - bound) <= half_a_digit(word)
            for word, bound in zip(text, pair)
        )
        for pair in (found, (-high, -low))
    )


def published(folder: Path) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Study and claim → all of its intervals: of its parts, in their unit and in percent, and those in notes and in claims.md."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for claim in json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]:
        if claim["verdict"] == "not run":
            continue
        bounds = found.setdefault((claim["section"], claim["id"]), [])
        for part in claim["parts"]:
            if part["low"] is not None and part["high"] is not None:
                bounds += [(part["low"], part["high"]), (100 * part["low"], 100 * part["high"])]
        words = json.dumps(claim, ensure_ascii=False)
        bounds += [(value(low), value(high)) for low, high in INTERVAL.findall(words)]
    return found


def quoted() -> Iterator[tuple[tuple[str, str], str, str]]:
    for (study, claim, scale), entry in analysis.load(
        {one.name: one.reported for one in all_studies()}
    ).items():
        yield (study, claim), scale, f"{entry.text} {entry.experiment}"


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_every_interval_of_an_analysis_is_published(scale: str) -> None:
    known = published(PUBLISHED / scale)
    if scale == "small":
        known = {**published(PUBLISHED / "small_0.7"), **known}
    wrong, checked = [], 0
    for claim, of_scale, text in quoted():
        for interval in INTERVAL.findall(text) if of_scale == scale else ():
            checked += 1
            if not any(agree(interval, bounds) for bounds in known.get(claim, ())):
                wrong.append(
                    f"{claim[1]} ({scale}): [{', '.join(interval)}] is no interval of its claims.json"
                )
    assert not wrong, "\n".join(wrong)
    assert checked > 0


def test_a_number_that_no_run_has_is_found() -> None:
    assert agree(("10", "32.5"), (9.8, 32.5))
    assert agree(("0.5", "1.6"), (-1.61, -0.53))  # "falls by"
    assert not agree(("10", "32.5"), (5.0, 27.5))
    assert agree(("-∞", "0"), (-math.inf, 0.2)) and not agree(("0", "∞"), (0.0, 1.0))
    assert INTERVAL.findall("now [1, 2], before [3, 4] (eeb7e1b2)") == [("1", "2")]


def test_shares_of_gradinit_at_small_are_those_of_the_records() -> None:
    """How many seeds take less than 1% of 200 epochs."""
    runs = pandas.read_parquet(PUBLISHED / "small/runs.parquet")
    cell = runs["folder"].str.extract(
        r"^runs/gradinit/(\w+)/grid/(VGG-19(?:-BN)?)/gradinit/(?:sgd/)?seed(\d+)$"
    )
    runs = runs.assign(step=cell[0], network=cell[1], of=cell[2]).dropna(subset=["of"])
    below = []
    for network in ("VGG-19", "VGG-19-BN"):
        own = runs[runs["network"] == network].set_index("of")
        seconds = own[own["step"] == "initialise"]["metrics.initialise_s"]
        share = seconds / (200 * own[own["step"] == "train_from_init"]["metrics.epoch_s"])
        below.append(f"{(share < 0.01).sum()} of {len(share)}")
    told = " ".join(_texts("gradinit")["under_1_percent_of_training"].split())
    assert f"Below 1% lie {below[0]} and {below[1]} seeds" in told


def _texts(study: str) -> dict[str, str]:
    from relearn.report import yaml_file

    (folder,) = (one.reported for one in all_studies() if one.name == study)
    analyses = yaml_file.read(folder / "analysis.yaml")
    return {claim: scales["small"]["text"] for claim, scales in analyses.items() if "small" in scales}
