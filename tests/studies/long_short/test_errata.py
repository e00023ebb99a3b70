"""zhu2022, chapter 5: formulas that do not hold as printed, each with its counter-example and its corrected form.

Sets of tokens by their definitions; nothing of ours is used but the trees of ListOps. Tokens are counted from 0, ranges are half-open.
"""

import math

import numpy as np
import pytest

from relearn.data.lra import listops

from ...report.conftest import values_of


def printed_segment(s: int, length: int) -> range:
    return range((length - 1) * s, length * s)


def segment(s: int, length: int) -> range:
    return range((s - 1) * length, s * length)


def test_z8_printed_segments_leave_tokens_out_and_differ_in_length():
    printed = [printed_segment(s, 4) for s in (1, 2, 3)]
    assert printed == [range(3, 4), range(6, 8), range(9, 12)]
    assert {len(one) for one in printed} == {1, 2, 3}
    assert set(range(12)) - {t for one in printed for t in one} == {0, 1, 2, 4, 5, 8}
    # counted from 1, token t = 4 is the last of segment 1 and floor(t/l) = 1 segment is seen: its own
    assert 4 - 1 in segment(4 // 4, 4)


@pytest.mark.parametrize("length", [1, 2, 4, 7, 16])
def test_z8_corrected_segments_are_a_partition_and_none_is_the_querys_own(length):
    count = 5
    assert [t for s in range(1, count + 1) for t in segment(s, length)] == list(range(count * length))
    for t in range(count * length):
        seen = {j for s in range(1, t // length + 1) for j in segment(s, length)}
        assert all(j < t for j in seen)
        own = next(s for s in range(1, count + 1) if t in segment(s, length))
        assert not seen & set(segment(own, length))
        assert own == t // length + 1  # and none before it is left out


def missing(t: int, window: int, length: int) -> list[int]:
    """Tokens up to t that neither the projected segments before t's own nor the window reach."""
    projected = set(range(t // length * length))
    near = set(range(max(0, (t // window - 1) * window), t + 1))
    return sorted(set(range(t + 1)) - projected - near)


def gap(window: int, length: int) -> bool:
    return any(missing(t, window, length) for t in range(2 * math.lcm(window, length)))


def test_z9_a_window_of_more_than_half_a_segment_leaves_tokens_out():
    assert missing(15, 5, 8) == [8, 9]
    assert [w for w in range(8, 17) if gap(w, 16)] == [9, 10, 11, 13]
    assert not gap(8, 16)


def test_z9_the_rule_with_the_divisor_is_exact():
    for length in range(1, 19):
        for window in range(1, 24):
            assert gap(window, length) == (window + math.gcd(window, length) < length), (window, length)
    assert 512 + math.gcd(512, 16) >= 16
    assert all(w + math.gcd(w, n) >= n for n in range(2, 100, 2) for w in (n // 2, n - 1, n, n + 3))


def mean_norm(std: float, d: int, power: int = 1) -> float:
    z = np.random.default_rng(0).normal(scale=std, size=(100_000, d))
    return float((np.linalg.norm(z, axis=1) ** power).mean())


def test_z10_four_times_the_variance_is_twice_the_norm():
    one, two = mean_norm(1, 64), mean_norm(2, 64)
    exact = math.sqrt(2) * math.exp(math.lgamma(32.5) - math.lgamma(32))
    assert exact == pytest.approx(7.97, abs=0.005)
    assert one == pytest.approx(exact, rel=1e-3)
    assert two / one == pytest.approx(2) and two == pytest.approx(15.94, abs=0.02)


@pytest.mark.parametrize(("std", "d"), [(1, 64), (2, 64), (0.5, 3)])
def test_z10_the_squared_norm_is_proportional(std, d):
    assert mean_norm(std, d, 2) == pytest.approx(d * std**2, rel=0.01)
    assert mean_norm(std, d) <= math.sqrt(d) * std
    # an average of n vectors is shorter by the root of n, not by n
    z = np.random.default_rng(1).normal(scale=std, size=(20_000, 16, d)).mean(1)
    assert np.linalg.norm(z, axis=1).mean() / mean_norm(std, d) == pytest.approx(1 / 4, rel=0.02)


def pairs(n: int, window: int, length: int, rank: int = 1, cached: int = 0) -> tuple[int, int]:
    """Query-key pairs of n queries behind so many cached tokens: keys in windows, and compressed ones."""
    ends = range(cached, cached + n)
    near = sum(t + 1 - max(0, (t // window - 1) * window) for t in ends)
    return near, sum(rank * (t // length) for t in ends)


def test_z11_twice_the_length_is_more_than_twice_the_work():
    window, length = 512, 16  # as published
    for cached in (False, True):
        near, far = zip(*(pairs(n, window, length, cached=cached * n) for n in (7_168, 14_336)))
        assert near[1] <= 2.1 * near[0]
        assert far[1] > 3.9 * far[0]
    assert far == (4_813_312, 19_260_416) and near[1] == 11_017_216  # the larger part is compressed


@pytest.mark.parametrize("cached", [0, 96])
@pytest.mark.parametrize(("window", "length", "rank"), [(8, 4, 1), (6, 3, 2), (16, 16, 3)])
def test_z11_the_work_is_linear_in_the_windows_and_quadratic_in_the_projection(window, length, rank, cached):
    n = 12 * length
    near, far = pairs(n, window, length, rank, cached)
    assert near <= 2 * n * window
    assert far <= rank * n * (2 * cached + n) / (2 * length)
    if cached % length == 0:
        assert far == rank * n * (2 * cached + n - length) // (2 * length)
    # segments that grow with the length keep it linear
    grown = [pairs(m, window, m // 8, rank)[1] / m for m in (64, 128, 256)]
    assert grown == pytest.approx([3.5 * rank] * 3)


def test_z11_the_released_window_attends_to_the_printed_number_of_tokens():
    """Keys of the window, and the mean number of compressed ones behind a cache as long as the input."""
    counts = [512 + (n + n / 2) / 16 for n in (2048, 4096, 8192)]
    assert counts == [704, 896, 1280]


def words_of(tree: str) -> list[str]:
    """Letters and digits, as the released reader keeps them."""
    return "".join(one if one.isalnum() else " " for one in tree).split()


def result_of(tree: str) -> int:
    stack: list[list] = [[]]
    for word in tree.split():
        if word.startswith("["):
            stack.append([word])
        elif word == "]":
            name, *arguments = stack.pop()
            stack[-1].append({"[MAX": max, "[MIN": min}[name](arguments))
        else:
            stack[-1].append(int(word))
    return stack[0][0]


def test_z14_two_results_for_the_same_tokens():
    one, other = "[MAX 1 [MIN 2 3 ] ]", "[MAX 1 [MIN 2 ] 3 ]"
    assert (result_of(one), result_of(other)) == (2, 3)
    assert words_of(one) == words_of(other) == ["MAX", "1", "MIN", "2", "3"]


def test_z14_the_printed_length_is_that_without_closing_brackets():
    """888, of which the mean of this many trees is a few tokens away; the standard error of 400 is 17."""
    rows, _ = listops.trees(400, seed=1)
    lengths = np.array([[len(row), len(row.replace(bytes([listops.CLOSE]), b""))] for row in rows])
    whole, without = lengths.mean(0)
    assert abs(without - 888) < 3 * lengths[:, 1].std() / 20 < whole - 888


def accuracies(table: str, column: str) -> dict[tuple[str, str], float]:
    rows = values_of(f"zhu2022.table{table}")
    return {(one.row, one.column.removeprefix(column)): one.value for one in rows if one.metric == "accuracy"}


def fallen(task: str, change: str) -> tuple[float, float]:
    """Points that dynamic projection and Linformer lose."""
    shares = accuracies("5.3", "LRA ")
    where = f"{task}, test perturbation "
    return tuple(shares[name, where + "None"] - shares[name, where + change] for name in ("DP", "Linformer"))


def test_z15_dynamic_projection_loses_more_on_text():
    ours, theirs = fallen("Text", "Deletion")
    assert (round(ours, 2), round(theirs, 2)) == (7.33, 1.21)
    assert fallen("Text", "Insertion")[0] > fallen("Text", "Insertion")[1]


def test_z15_on_retrieval_it_loses_less():
    for change in ("Insertion", "Deletion"):
        ours, theirs = fallen("Retrieval", change)
        assert ours < theirs


def test_z16_the_advantage_is_larger_on_text():
    shares = accuracies("5.1", "LRA ")
    gains = {
        task: round(shares["Transformer-LS (best)", task] - shares["Dynamic Projection (best)", task], 1)
        for task in ("ListOps", "Text", "Retrieval")
    }
    assert gains == {"ListOps": 0.6, "Text": 2.1, "Retrieval": 0.1}
