"""The cost of Deep k-NN at 10⁹ points: the formulas by hand, how they grow, and what is refused."""

from __future__ import annotations

import pytest

from relearn.forecast.machine import Machine
from relearn.forecast.neighbours import exact, inverted_lists

GPU = Machine(name="a GPU", convolutions=1.0, products=20e12, bandwidth=2e12, calls=1.0, start_s=0.0, gpus=1)


def test_a_small_case_by_hand() -> None:
    """1,000 points of 8 numbers, blocks of 300: 4 blocks read the points, each distance is written and read."""
    found = exact(1000, 8, 5, GPU, block=300)
    assert found.operations == 2 * 1000 * 1000 * 8
    assert found.stored == 32_000
    assert found.moved == 8 * 1000 * 1000 + 4 * 32_000
    assert found.exchanged == 1000 * (32 + 5 * 12)
    assert found.gpus == 1
    assert found.hours == pytest.approx((16e6 / 20e12 + 8.128e6 / 2e12) / 3600)


def test_the_points_decide_how_many_gpus_there_are_at_least() -> None:
    """10⁹ points of 512 float32 are 2.048 TB: 32 devices of 80 GB with four fifths of each."""
    found = exact(1e9, 512, 50, GPU)
    assert found.stored == 2.048e12 and found.gpus == 32
    assert exact(1e9, 512, 50, GPU, gpus=256).hours == pytest.approx(found.hours / 8)
    assert exact(1e9, 512, 50, GPU, gpus=256).gpu_hours == pytest.approx(found.gpu_hours)
    with pytest.raises(ValueError, match=r"gpus: found 31, allowed: at least 32, which hold 2\.05 TB"):
        exact(1e9, 512, 50, GPU, gpus=31)


def test_ten_times_the_points_are_a_hundred_times_the_work() -> None:
    small, large = (exact(n, 512, 50, GPU) for n in (1e8, 1e9))
    assert large.operations == 100 * small.operations
    assert large.gpu_hours == pytest.approx(100 * small.gpu_hours, rel=1e-3)


def test_an_index_keeps_its_codes_and_reads_the_lists_that_it_probes() -> None:
    found = inverted_lists(1e6, 64, code=16, lists=1000, probes=10)
    assert found.stored == 1e6 * 24 + 1000 * 64 * 4 + 256 * 64 * 4
    assert found.visited == 1e4
    assert found.read == 1e6 * 1e4 * 16
    with pytest.raises(ValueError, match="probes: found 11, allowed: 1 to 10, the lists"):
        inverted_lists(100, 8, code=8, lists=10, probes=11)
