"""How many test samples decide whether accuracy falls less, with a few seeds: against simulated tables of seeds by samples."""

import math
from dataclasses import replace

import numpy as np
import pytest

from relearn.report import power
from relearn.report.designs import Measure
from relearn.report.statistics import mean_spread, student_mean_of_table
from relearn.studies.long_short.claims.perturbed import Falls, fall_less

from ...report.test_undecided import DESIGN, claim, found

SEEDS, OF_SAMPLES, NOISE = 5, 0.7, 0.4


def table(rng, samples, of_seeds, mean=0.0):
    """Values of SEEDS seeds (rows) at the same samples, with three known standard deviations."""
    rows, columns, single = (rng.normal(size=shape) for shape in ((SEEDS, 1), (1, samples), (SEEDS, samples)))
    return mean + of_seeds * rows + OF_SAMPLES * columns + NOISE * single


def compared(values):
    sides = [
        Falls(
            f"train_lra/{name}/retrieval",
            dict(enumerate(map(dict, map(enumerate, rows)))),
            {seed: f"runs/{seed}" for seed in range(SEEDS)},
            (),
        )
        for name, rows in (("dynamic", values), ("linformer", np.zeros_like(values)))
    ]
    return fall_less("fall", *sides)


def test_only_the_part_of_the_samples_falls_with_their_number():
    rng = np.random.default_rng(0)
    of_seeds, few, many = 0.15, 50, 400
    units = [compared(table(rng, few, of_seeds)).units for _ in range(1_000)]
    assert np.mean([one.fixed for one in units]) == pytest.approx(of_seeds**2 / SEEDS, rel=0.1)
    later = [table(rng, many, of_seeds) for _ in range(300)]
    variance = np.mean(
        [t.mean(axis=1).var(ddof=1) / SEEDS + t.mean(axis=0).var(ddof=1) / many for t in later]
    )
    falling = np.array([one.inflation * mean_spread(one.values)[1] ** 2 for one in units])
    fixed = np.array([one.fixed for one in units])
    assert np.mean(fixed + falling / many) == pytest.approx(variance, rel=0.1)
    # the rule of before: the spread between the seeds, too, falls with the samples
    assert np.mean(fixed + falling / few) * few / many < variance / 2


def test_seeds_that_do_not_differ_leave_nothing():
    rng = np.random.default_rng(1)
    noise = [compared(table(rng, 50, 0.0)).units for _ in range(200)]
    # the means of the seeds do differ, by the noise of 50 samples
    assert np.mean([one.fixed for one in noise]) < 0.3 * NOISE**2 / 50 / SEEDS
    alike = np.tile(table(rng, 50, 0.0)[0], (SEEDS, 1))
    assert compared(alike).units.fixed == 0.0
    one_seed = fall_less(
        "fall",
        *[Falls("a/b/c", {0: dict(enumerate(row))}, {0: "runs/0"}, ()) for row in (alike[0], 0 * alike[0])],
    )
    assert not isinstance(one_seed.units, power.Crossed) and one_seed.units.inflation == 1


def test_no_number_of_samples_decides_what_the_seeds_leave_open():
    """Seeds that differ by 0.2, and an effect of -0.2: the old rule names a number of samples, with which few tables decide."""
    rng = np.random.default_rng(3)
    part = compared(table(rng, 200, 0.2))
    assert part.verdict != "reproduced"
    design = replace(DESIGN, unit="samples", measures=(Measure("table", claimed=-0.2),))
    one = found(claim(part), design)
    assert one.need is None and "so no number of samples decides" in one.needs[0].why
    spread = mean_spread(part.units.values)[1]
    old = math.ceil(power.units_for_mean(0.2, spread) * (1 + part.units.fixed / (spread**2 / 200)))
    decided = [student_mean_of_table(table(rng, old, 0.2, mean=-0.2)).high < 0 for _ in range(300)]
    assert old < 1_000 and np.mean(decided) < 0.6
    small = found(claim(part), replace(design, measures=(Measure("table", claimed=-0.6),)))
    decided = [student_mean_of_table(table(rng, small.need, 0.2, mean=-0.6)).high < 0 for _ in range(300)]
    assert np.mean(decided) >= power.POWER - 0.05
