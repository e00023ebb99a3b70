"""The words that a page explains where it uses them: verdicts, kinds of empty cells, scales."""

from __future__ import annotations

#: verdict to one line; docs/verdicts.md has the rules in full
VERDICTS = {
    "reproduced": "the 95% interval lies wholly on the claimed side; for an exact claim, every case holds at full size",
    "direction": "the estimate lies on the claimed side, but the interval reaches over",
    "inconclusive": "the estimate lies on the other side, but the interval reaches over",
    "identical": "both sides of the comparison gave the same numbers in every run",
    "contradicted": "the interval lies wholly on the other side; for an exact claim, a case fails",
    "partial": "an exact claim that holds in every case, checked below the published size",
    "underpowered": "too few trials or seeds, or models below the stated quality, whatever the numbers say",
    "not_run": "no records of this scale, or no rule that judges it yet",
}
PROVISIONAL = "the claim also speaks of something that no run covers"

#: what stands in a cell in the place of a number
EMPTINESS = {
    "not run": "this scale has no run for the cell",
    "n/a": "the quantity does not exist for this row",
    "-": "the publication prints no number here, or there is nothing to compare it with",
    "no such attack": "a share of successful attacks, of which there were none",
    "no value": "the runs are there, but have no finite number",
    "diverged": "the training ended without a finite loss",
}
NUMBERS = (
    "A number is a mean with its standard deviation (in grids over seeds: its standard error) and, in brackets, "
    "how many victims or seeds stand behind it; a caption says where a cell is something else."
)

SCALES = {
    "mini": "small networks on digits and short texts, made to test the whole pipeline on two CPU cores",
    "small": "public data sets, mostly with networks of a quarter of the published width, made for two CPU cores",
    "medium": "public data sets and published networks with fewer epochs, made for one GPU",
    "paper": "the published protocol",
}
