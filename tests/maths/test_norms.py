"""Operator norms: against singular values, against the matrix of a convolution written out, and their gradients."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import conv1d, conv2d

from relearn.maths.conv_bounds import conv_bound, window_bound
from relearn.maths.norms import conv_operator_norm, inf_norm, spectral_norm
from relearn.maths.operator_norm import flattened_is_exact, operator_norm


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


# --- matrices ---------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
def test_inf_norm_is_attained_by_a_vector_of_signs_and_by_none_exceeded(m: int, n: int, seed: int) -> None:
    w = normal(m, n, seed=seed)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=n)), dtype=torch.float64)
    assert float(inf_norm(w)) == pytest.approx(float((signs @ w.T).abs().max()), rel=1e-12)


def test_rows_are_not_columns() -> None:
    w = torch.tensor([[1.0, -2.0, 3.0]])
    assert float(inf_norm(w)) == 6 and float(inf_norm(w.T)) == 3


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6))
def test_exact_and_power_find_the_largest_singular_value(m: int, n: int, seed: int) -> None:
    w = normal(m, n, seed=seed)
    truth = float(np.linalg.svd(w.numpy(), compute_uv=False)[0])
    assert float(spectral_norm(w)) == pytest.approx(truth, rel=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # two singular values may be near one another
        assert float(spectral_norm(w, method="power")) == pytest.approx(truth, rel=1e-6)
    assert float(spectral_norm(w, method="power", iterations=3, tolerance=0)) <= truth * (1 + 1e-12)


def test_power_iteration_follows_its_law_from_below() -> None:
    """diag(2, 1): from the first estimate the start is known, and from the start every later estimate."""
    w = torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64))

    def estimate(iterations: int) -> float:
        return float(spectral_norm(w, method="power", iterations=iterations, tolerance=0))

    first_square = (estimate(0) ** 2 - 1) / 3  # 4 b² + (1 - b²)
    assert 0.001 < first_square < 0.999
    for k in range(1, 8):
        one, two = 16**k * first_square, 1 - first_square  # W^T W takes 4 and 1 to the components, squared
        assert estimate(k) == pytest.approx(math.sqrt((4 * one + two) / (one + two)), rel=1e-12)
        assert estimate(k - 1) < estimate(k) < 2


def test_a_few_power_iterations_are_no_bound() -> None:
    w = normal(40, 40, seed=3)
    exact = float(spectral_norm(w))
    short = [float(spectral_norm(w, method="power", iterations=k, tolerance=0)) for k in (1, 2, 5, 20, 300)]
    assert short == sorted(short) and short[2] < 0.99 * exact
    assert short[-1] == pytest.approx(exact, rel=1e-9)


def test_power_iteration_stops_at_its_tolerance_and_says_when_it_does_not() -> None:
    apart = torch.diag(torch.tensor([5.0, 1.0], dtype=torch.float64))
    loose = float(spectral_norm(apart, method="power", tolerance=0.5))
    assert loose == pytest.approx(5.0, rel=1e-9) and loose == float(
        spectral_norm(apart, method="power", iterations=15, tolerance=0)
    )
    near = torch.diag(torch.tensor([1.0, 1 - 1e-5], dtype=torch.float64))
    with pytest.warns(RuntimeWarning, match="after 20 iterations, above the tolerance 1e-12"):
        spectral_norm(near, method="power", iterations=20, tolerance=1e-12)


def test_norms_of_a_batch_are_those_of_its_matrices() -> None:
    w = normal(2, 3, 4, 5)
    for norm in (inf_norm, spectral_norm, lambda one: spectral_norm(one, method="power")):
        together = norm(w)
        assert together.shape == (2, 3)
        for index in itertools.product(range(2), range(3)):
            assert float(together[index]) == pytest.approx(float(norm(w[index])), rel=1e-6)


@pytest.mark.parametrize("norm", [inf_norm, spectral_norm])
def test_gradients_are_those_of_finite_differences(norm) -> None:
    assert torch.autograd.gradcheck(norm, (normal(2, 4, 3).requires_grad_(),))


def test_the_gradient_of_power_iteration_is_the_outer_product_of_singular_vectors() -> None:
    w = normal(5, 4).requires_grad_()
    spectral_norm(w, method="power", tolerance=1e-12).backward()
    u, _, v = torch.linalg.svd(w.detach())
    torch.testing.assert_close(w.grad, torch.outer(u[:, 0], v[0]), rtol=0, atol=1e-9)


def test_zero_matrices_have_norm_zero_and_a_finite_gradient() -> None:
    for method in ("exact", "power"):
        w = torch.zeros(3, 2).requires_grad_()
        norm = spectral_norm(w, method=method)
        norm.backward()
        assert float(norm.detach()) == 0 and torch.isfinite(w.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions_agree_within_their_rounding(dtype: torch.dtype) -> None:
    w = normal(6, 5, dtype=dtype)
    for method in ("exact", "power"):
        norm = spectral_norm(w, method=method)
        assert norm.dtype == dtype
        assert float(norm) == pytest.approx(
            float(spectral_norm(w.double())), rel=2 * torch.finfo(dtype).eps + 1e-5
        )
    assert inf_norm(w).dtype == dtype


def test_matrices_that_have_no_norm_are_refused() -> None:
    bad = torch.ones(2, 3)
    bad[1, 2] = torch.nan
    for norm in (inf_norm, spectral_norm):
        with pytest.raises(ValueError, match=r"holds nan at \(1, 2\)"):
            norm(bad)
        with pytest.raises(ValueError, match=r"shape \(3,\)"):
            norm(torch.ones(3))
        with pytest.raises(ValueError, match=r"shape \(0, 3\)"):
            norm(torch.ones(0, 3))
    for norm in (inf_norm, spectral_norm):
        two = norm(torch.stack([bad, torch.ones(2, 3)]), check_finite=False)
        assert two[0].isnan() and float(two[1]) == float(norm(torch.ones(2, 3)))
    with pytest.raises(ValueError, match="'qr'; allowed: exact, power"):
        spectral_norm(torch.ones(2, 2), method="qr")
    with pytest.raises(ValueError, match="may be negative"):
        spectral_norm(torch.ones(2, 2), method="power", iterations=-1)


# --- convolutions -----------------------------------------------------------------------------------

NUMPY_PAD = {"zeros": "constant", "circular": "wrap", "reflect": "reflect", "replicate": "edge"}


def written_out(weight: Tensor, size: tuple[int, ...], stride, pads, dilation, groups, mode) -> np.ndarray:
    """The matrix of the convolution, (out, in), by loops over what it says: no convolution of any library."""
    w, axes = weight.numpy(), weight.ndim - 2
    out_channels, per_group, kernel = w.shape[0], w.shape[1], w.shape[2:]
    inputs = per_group * groups * math.prod(size)
    positions = np.arange(inputs).reshape(per_group * groups, *size)
    basis = np.eye(inputs + 1)[:, :inputs]  # the last row stands for a padded zero
    filler = {"constant_values": inputs} if mode == "zeros" else {}
    padded = np.stack([np.pad(channel, pads, mode=NUMPY_PAD[mode], **filler) for channel in positions])
    counts = [(padded.shape[1 + a] - dilation[a] * (kernel[a] - 1) - 1) // stride[a] + 1 for a in range(axes)]
    rows = []
    for o in range(out_channels):
        first = o // (out_channels // groups) * per_group
        for place in itertools.product(*map(range, counts)):
            row = np.zeros(inputs)
            for c in range(per_group):
                for tap in itertools.product(*map(range, kernel)):
                    at = tuple(p * s + t * d for p, s, t, d in zip(place, stride, tap, dilation))
                    row += w[(o, c, *tap)] * basis[padded[(first + c, *at)]]
            rows.append(row)
    return np.stack(rows)


CASES = {
    "valid": ((3, 2, 3, 3), (5, 4), {}),
    "zeros": ((3, 2, 3, 3), (5, 4), {"padding": 1}),
    "circular": ((3, 2, 3, 3), (5, 4), {"padding": 1, "padding_mode": "circular"}),
    "circular, even sizes": ((2, 3, 3, 5), (4, 6), {"padding": (1, 2), "padding_mode": "circular"}),
    "circular, wrapping around": ((2, 2, 5), (3,), {"padding": 2, "padding_mode": "circular"}),
    "circular, dilated": ((2, 2, 3, 3), (5, 6), {"padding": 2, "dilation": 2, "padding_mode": "circular"}),
    "circular, too much": ((2, 2, 3), (6,), {"padding": 3, "padding_mode": "circular"}),
    "circular, strided": ((2, 2, 3, 3), (6, 6), {"padding": 1, "stride": 2, "padding_mode": "circular"}),
    "strided": ((4, 2, 3, 3), (6, 5), {"padding": 1, "stride": (2, 1)}),
    "dilated": ((3, 2, 2, 3), (6, 6), {"dilation": (3, 2)}),
    "grouped": ((4, 2, 3, 3), (4, 4), {"padding": 1, "groups": 2}),
    "grouped, circular": ((6, 2, 3, 3), (4, 3), {"padding": 1, "groups": 3, "padding_mode": "circular"}),
    "depth-wise": ((5, 1, 3, 3), (4, 4), {"padding": 1, "groups": 5}),
    "one axis": ((3, 2, 4), (7,), {"padding": 2}),
    "three axes": ((2, 2, 2, 2, 3), (3, 3, 4), {"padding": (1, 0, 1)}),
    "three axes, circular": ((2, 2, 3, 3, 3), (3, 4, 3), {"padding": 1, "padding_mode": "circular"}),
    "reflected": ((2, 2, 3, 3), (4, 4), {"padding": 1, "padding_mode": "reflect"}),
    "replicated": ((2, 2, 3, 3), (4, 4), {"padding": 1, "padding_mode": "replicate"}),
    "same, even kernel": ((2, 2, 4, 2), (5, 5), {"padding": "same"}),
}


def truth(weight: Tensor, size: tuple[int, ...], **how) -> float:
    def each(name: str, default: int) -> tuple[int, ...]:
        value = how.get(name, default)
        return (value,) * len(size) if isinstance(value, int) else value

    dilation = each("dilation", 1)
    if how.get("padding") == "same":
        spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        pads = [(span // 2, span - span // 2) for span in spans]
    else:
        pads = [(p, p) for p in each("padding", 0)]
    rest = how.get("groups", 1), how.get("padding_mode", "zeros")
    return float(np.linalg.norm(written_out(weight, size, each("stride", 1), pads, dilation, *rest), 2))


@pytest.mark.parametrize("name", CASES)
def test_the_norm_is_that_of_the_matrix_written_out(name: str) -> None:
    shape, size, how = CASES[name]
    weight = normal(*shape, seed=len(name))
    expected = truth(weight, size, **how)
    for method in ("auto", "dense"):
        assert float(conv_operator_norm(weight, size, method=method, **how)) == pytest.approx(
            expected, rel=1e-10
        )
    power = float(conv_operator_norm(weight, size, method="power", iterations=5000, tolerance=1e-6, **how))
    assert expected * (1 - 1e-5) <= power <= expected * (1 + 1e-12)
    keeps = how.get("padding_mode") == "circular" and name not in ("circular, too much", "circular, strided")
    if keeps:
        assert float(conv_operator_norm(weight, size, method="fourier", **how)) == pytest.approx(
            expected, rel=1e-10
        )
    else:
        with pytest.raises(ValueError, match="needs circular padding that keeps the size, and stride 1"):
            conv_operator_norm(weight, size, method="fourier", **how)


def test_equal_entries_show_the_operator_and_not_the_flattened_kernel() -> None:
    """A k x k kernel of 1/k: flattened it has norm 1, as an operator k, at frequency zero (k = 7 and 3)."""
    for k in (7, 3):
        weight = torch.full((1, 1, k, k), 1 / k, dtype=torch.float64)
        assert float(spectral_norm(weight.reshape(1, -1))) == pytest.approx(1)
        around = conv_operator_norm(weight, 16, padding=k // 2, padding_mode="circular")
        assert float(around) == pytest.approx(k, rel=1e-12)
        apart = conv_operator_norm(weight, 4 * k, stride=k)  # no pixel is read twice: here the two agree
        assert float(apart) == pytest.approx(1, rel=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(["zeros", "circular"]), st.integers(1, 2))
@settings(max_examples=25)
def test_at_most_the_root_of_the_kernel_size_times_the_flattened_norm(
    seed: int, mode: str, dilation: int
) -> None:
    weight = normal(3, 2, 3, 3, seed=seed)
    found = conv_operator_norm(weight, (7, 6), padding=dilation, dilation=dilation, padding_mode=mode)
    assert float(found) <= 3 * float(spectral_norm(weight.flatten(1))) * (1 + 1e-12)


def test_zero_padding_is_at_most_circular_padding() -> None:
    """Zero padding is the circular map of a larger image between two inclusions."""
    weight = normal(4, 4, 3, 3)
    large = conv_operator_norm(weight, 9, padding=1, padding_mode="circular")
    small = [float(conv_operator_norm(weight, n, padding=1)) for n in (2, 4, 7)]
    assert small == sorted(small) and small[-1] <= float(large)


def test_a_large_map_takes_power_iteration_and_agrees_with_fourier() -> None:
    weight = normal(8, 8, 3, 3, dtype=torch.float32)
    how = {"padding": 1, "padding_mode": "circular"}
    exact = float(conv_operator_norm(weight, 32, method="fourier", **how))
    assert float(conv_operator_norm(weight, 32, method="power", **how)) == pytest.approx(exact, rel=1e-3)
    zeros = float(conv_operator_norm(weight, 32, padding=1))  # auto
    assert 0.97 * exact < zeros <= exact * (1 + 1e-6)


@pytest.mark.parametrize("method", ["dense", "fourier", "power"])
def test_the_gradient_of_a_convolution_norm_is_that_of_finite_differences(method: str) -> None:
    def norm(weight: Tensor) -> Tensor:
        how = {"padding": 1, "padding_mode": "circular", "groups": 2}
        return conv_operator_norm(weight, (4, 3), method=method, iterations=200, tolerance=0, **how)

    assert torch.autograd.gradcheck(norm, (normal(2, 1, 3, 3, seed=5).requires_grad_(),), atol=1e-5)


def test_convolutions_that_do_not_fit_are_refused() -> None:
    weight = torch.ones(4, 2, 3, 3)
    for words, change in {
        "groups is 3: a divisor of the 4": {"groups": 3},
        "padding_mode is 'wrap'; allowed: zeros": {"padding_mode": "wrap"},
        "padding is 'full'; allowed": {"padding": "full"},
        "stride is 0": {"stride": 0},
        r"dilation is \(1, 2, 3\)": {"dilation": (1, 2, 3)},
        "smaller than the kernel": {"dilation": 3},
        r"padding \[\(5, 5\), \(5, 5\)\] is more": {"padding": 5, "padding_mode": "reflect"},
        r"padding \[\(6, 6\), \(6, 6\)\] is more": {"padding": 6, "padding_mode": "circular"},
        "method is 'fft'; allowed: auto, fourier": {"method": "fft"},
    }.items():
        with pytest.raises(ValueError, match=words):
            conv_operator_norm(weight, 5, **change)
    with pytest.raises(ValueError, match="size is 0"):
        conv_operator_norm(weight, 0)
    with pytest.raises(ValueError, match=r"shape \(4, 2\)"):
        conv_operator_norm(weight[:, :, 0, 0], 5)
    weight[1, 0, 2, 2] = torch.inf
    with pytest.raises(ValueError, match=r"holds inf at \(1, 0, 2, 2\)"):
        conv_operator_norm(weight, 5)


# upper bounds of convolutions ------------------------------------------------------------------------------------------

# Bounds on convolutions: against the matrix of the map, exact where they say so, and not far above it elsewhere.


def matrix(weight, size, stride, padding, groups):
    channels = weight.shape[1] * groups
    count = channels * torch.Size(size).numel()
    basis = torch.eye(count, dtype=weight.dtype).view(count, channels, *size)
    convolve = conv1d if len(size) == 1 else conv2d
    return convolve(basis, weight, stride=stride, padding=padding, groups=groups).flatten(1).T


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "groups"),
    [
        *itertools.product([(3, 3), (2, 4)], [(1, 1), (2, 2), (3, 1)], [(0, 0), (1, 2)], [1, 2]),
        ((7, 7), (4, 4), (2, 2), 1),
    ],
)
def test_never_below_the_norm_of_the_map_and_not_far_above(kernel, stride, padding, groups):
    torch.manual_seed(sum(kernel) + sum(stride) + groups)
    weight = torch.randn(4, 4 // groups, *kernel, dtype=torch.float64)
    size = (9, 8)
    whole = matrix(weight, size, stride, padding, groups)
    more = dict(stride=stride, padding=padding, groups=groups)
    two, inf = conv_bound(weight, size, **more), conv_bound(weight, size, **more, p="inf")
    exact = torch.linalg.matrix_norm(whole, 2)
    assert exact * (1 - 1e-12) <= two <= 1.35 * exact
    assert (
        whole.abs().sum(1).max()
        <= inf * (1 + 1e-12)
        <= whole.abs().sum(1).max() * (1.2 if kernel == (7, 7) else 1 + 1e-9)
    )


def test_exact_without_overlap_and_the_same_on_one_axis():
    torch.manual_seed(0)
    weight = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    exact = torch.linalg.matrix_norm(matrix(weight, (6, 8), (2, 2), (0, 0), 1), 2)
    torch.testing.assert_close(conv_bound(weight, (6, 8), stride=(2, 2), padding=(0, 0)), exact)
    line = torch.randn(3, 2, 3, dtype=torch.float64)
    exact = torch.linalg.matrix_norm(matrix(line, (40,), (1,), (1,), 1), 2)
    assert exact <= conv_bound(line, (40,), stride=(1,), padding=(1,)) <= 1.01 * exact


def test_the_torus_is_that_of_the_padded_image():
    """Second differences of three pixels have the norm 2 + √2. The torus of five bounds it, that of three does not."""
    kernel = torch.tensor([[[-1.0, 2.0, -1.0]]], dtype=torch.float64)
    found = float(conv_bound(kernel, (3,), stride=(1,), padding=(1,)))
    assert found == pytest.approx(2 - 2 * math.cos(4 * math.pi / 5)) and found >= 2 + math.sqrt(2)


def test_depth_wise_kernels_of_equal_entries_have_their_sum():
    weight = torch.full((2, 1, 7, 7), 1 / 7, dtype=torch.float64)
    torch.testing.assert_close(window_bound(weight, (32, 32)), torch.tensor(7.0, dtype=torch.float64))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="one number per axis"):
        conv_bound(torch.ones(1, 1, 3, 3), (8,), stride=(1, 1), padding=(0, 0))
    with pytest.raises(ValueError, match="p: 'one'"):
        conv_bound(torch.ones(1, 1, 3, 3), (8, 8), stride=(1, 1), padding=(0, 0), p="one")


# the norm of a layer ---------------------------------------------------------------------------------------------------

# A layer's norm against the matrix that its map has, column by column.


def matrix_operator(layer: nn.Module, *shape: int) -> Tensor:
    """The linear part of the layer, written out."""
    zero = torch.zeros(1, *shape, dtype=torch.float64)
    basis = torch.eye(zero.numel(), dtype=torch.float64).view(-1, *shape)
    return (layer(basis) - layer(zero)).flatten(1).T


LAYERS = {
    "linear": (nn.Linear(5, 3), (5,)),
    "patches": (nn.Conv2d(2, 3, 2, stride=2), (2, 4, 6)),
    "patches that leave a rest": (nn.Conv2d(2, 3, 2, stride=3), (2, 5, 5)),
    "dilated patches": (nn.Conv1d(2, 3, 2, stride=3, dilation=2), (2, 9)),
    "one pixel": (nn.Conv2d(3, 4, 1), (3, 2, 2)),
    "one pixel, same": (nn.Conv2d(3, 4, 1, padding="same"), (3, 2, 2)),
    "depth-wise patches": (nn.Conv2d(4, 4, 2, stride=2, groups=4), (4, 4, 4)),
    "depth-wise": (nn.Conv2d(3, 3, 3, padding=1, groups=3), (3, 5, 4)),
    "overlapping": (nn.Conv2d(2, 2, 3, padding="same"), (2, 4, 4)),
    "strided": (nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 5, 5)),
    "padded patches": (nn.Conv2d(2, 3, 2, stride=2, padding=1), (2, 4, 4)),
    "circular": (nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), (2, 6)),
}
EXACT = {"linear", "patches", "patches that leave a rest", "dilated patches", "one pixel", "one pixel, same"}


@pytest.mark.parametrize("name", LAYERS)
def test_norm_and_where_the_flattened_weight_has_it(name: str) -> None:
    torch.manual_seed(1)
    layer, shape = LAYERS[name]
    layer.double().requires_grad_(False)
    nn.init.normal_(layer.weight)
    found = float(torch.linalg.matrix_norm(matrix_operator(layer, *shape), 2))
    assert float(operator_norm(layer, shape[1:])) == pytest.approx(found, rel=1e-6)
    assert flattened_is_exact(layer) == (name in EXACT)
    flat = float(torch.linalg.matrix_norm(layer.weight.flatten(1), 2))
    if name in EXACT:
        assert found == pytest.approx(flat, rel=1e-9)
    elif "padded" not in name:  # the other direction: these differ
        assert not math.isclose(found, flat, rel_tol=1e-3)


def test_half_precision_agrees_within_its_rounding() -> None:
    for layer, size in ((nn.Linear(4, 4), 1), (nn.Conv2d(2, 2, 3, padding=1), (4, 4))):
        exact = float(operator_norm(layer.requires_grad_(False), size))
        assert float(operator_norm(layer.to(torch.bfloat16), size)) == pytest.approx(exact, rel=1e-2)


CONVOLVED = dict(size=20, padding=1, method="power", tolerance=1e-2)


@pytest.mark.parametrize("exponent", [-140, -100, -40, 0, 40, 90, 120])
def test_power_iteration_keeps_its_digits_where_squares_leave_the_range(exponent: int) -> None:
    """A power of two only moves the binary point, so every digit is that of the ordinary matrix."""
    w, kernel = normal(5, 4, dtype=torch.float32), normal(3, 2, 3, 3, dtype=torch.float32)
    if exponent < -120:  # too few digits are left below the smallest normal number
        w, kernel = w.round(), kernel.round()
    stretch = torch.tensor(2.0**exponent)
    for one, norm in (
        (w, lambda one: spectral_norm(one, method="power")),
        (kernel, lambda one: conv_operator_norm(one, **CONVOLVED)),
    ):
        assert (one * stretch).any() and float(norm(one * stretch)) == float(norm(one) * stretch)
    batch = torch.stack([w, w * stretch])
    one, other = spectral_norm(batch, method="power").tolist()
    assert (one, other) == pytest.approx(
        (float(spectral_norm(w)), float(spectral_norm(w * stretch))), rel=1e-5
    )
    v = w.clone().requires_grad_()
    spectral_norm(v * 2.0**90, method="power").backward()
    assert v.grad is not None and v.grad.isfinite().all() and v.grad.any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_iterates_in_float32(dtype: torch.dtype) -> None:
    for w in (torch.full((40, 40), 60.0, dtype=dtype), normal(40, 30).to(dtype)):
        assert float(spectral_norm(w, method="power")) == pytest.approx(
            float(spectral_norm(w.double())), rel=torch.finfo(dtype).eps
        )
    kernel = (300 * normal(2, 2, 3, 3)).to(dtype)
    for method in ("power", "dense"):
        given = CONVOLVED | dict(method=method, size=9)
        found = conv_operator_norm(kernel, **given)
        assert found.dtype == dtype
        assert float(found) == pytest.approx(float(conv_operator_norm(kernel.double(), **given)), rel=1e-2)


def test_what_is_not_a_number_has_not_converged() -> None:
    for wrong in (math.nan, math.inf):
        w = torch.eye(3).expand(2, 3, 3).clone()
        w[1, 0, 0] = wrong
        with pytest.warns(RuntimeWarning, match="residual nan after 20 iterations"):
            found = spectral_norm(w, method="power", iterations=20, check_finite=False)
        assert float(found[0]) == pytest.approx(1.0) and found[1].isnan()
