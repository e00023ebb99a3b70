"""Texts that explain terms on a page: kinds of empty cells, and scales; for verdicts see verdict_words."""

from __future__ import annotations

#: texts that replace a number in a cell, with their meanings
EMPTINESS = {
    "not run": "this scale has no run for the cell",
    "n/a": "the quantity does not exist for this row",
    "-": "the publication prints no number here, or there is nothing to compare it with",
    "no such attack": "a share of the successful attacks, but no attack succeeded",
    "no value": "the runs exist, but did not measure this or have no finite number",
    "diverged": "the training ended without a finite loss",
}
NUMBERS = (
    "A number is a mean with its standard deviation (in grids over seeds: its standard error) and, in brackets, "
    "the number of victims or seeds; captions state exceptions."
)

SCALES = {
    "mini": "small networks on digits and short texts, made to test the whole pipeline on two CPU cores",
    "small": "public data sets, mostly with networks of a quarter of the published width, made for two CPU cores",
    "medium": "public data sets and published networks with fewer epochs, made for one GPU",
    "paper": "the published protocol",
}
