"""The table of residual schemes: what each puts around a branch, where its weights start, what it has no choice of."""

import pytest
import torch
from torch import nn

from relearn.layers.scalar import Shift
from relearn.layers.scaled_residual import ScaledResidual
from relearn.layers.weighted_residual import WeightedResidual
from relearn.models.layer_scale_start import layer_scale_start
from relearn.models.residual_schemes import SCHEMES, Joint
from relearn.models.timm_parts import Attention, Mlp

WITHOUT_NORM = ("rezero", "skip_init", "fixup", "t_fixup")


@pytest.mark.parametrize(
    ("residual", "norm", "shape", "start"),
    [
        ("pre_norm", "before", None, None),
        ("post_norm", "behind", None, None),
        ("layer_scale", "before", (6,), 0.1),
        ("rezero", "none", (), 0.0),
        ("skip_init", "none", (), 0.0),
        ("fixup", "none", (), 1.0),
        ("t_fixup", "none", None, None),
    ],
)
def test_every_scheme_has_the_norm_and_the_scale_of_the_table(residual, norm, shape, start):
    joint = Joint(residual, 6, 12)
    assert joint.norm == norm
    alpha = joint.join(0.25).alpha
    assert (None if alpha is None else tuple(alpha.shape)) == shape
    if alpha is not None:
        assert torch.equal(alpha, torch.full(shape, start))
    assert joint.join(0.25).drop_path == 0.25
    with_norm = Joint(residual, 6, 12, norm=True)
    assert with_norm.norm == ("behind" if residual == "post_norm" else "before")
    assert with_norm.weight == joint.weight
    norms = [one for one in joint.layer_norm().modules() if isinstance(one, nn.LayerNorm)]
    assert len(norms) == (residual not in WITHOUT_NORM) and all(one.eps == 1e-6 for one in norms)
    assert {"layer_scale", "rezero"} == {name for name, one in SCHEMES.items() if one.epsilon}


def test_the_start_of_layer_scale_falls_with_the_depth():
    assert [layer_scale_start(depth) for depth in (1, 12, 18, 19, 24, 25, 36, 48)] == [
        *(0.1, 0.1, 0.1, 1e-5, 1e-5, 1e-6, 1e-6, 1e-6)
    ]
    for given, expected in ((None, 1e-6), (0.3, 0.3), (0.0, 0.0)):
        joint = Joint("layer_scale", 4, 36, epsilon=given)
        join = joint.join(0.0)
        assert isinstance(join, WeightedResidual) and torch.equal(join.alpha, torch.full((4,), expected))
        assert joint.channel_start == expected
    rezero = Joint("rezero", 4, 24, epsilon=0.5)
    assert isinstance(rezero.join(0.0), ScaledResidual) and rezero.join(0.0).alpha == 0.5
    assert rezero.channel_start == 1e-5  # class attention is not the body


def test_the_shifts_of_fixup_stand_before_every_map_and_activation():
    joint = Joint("fixup", 4, 2)
    first, attention, mlp = joint.layer_norm(), Attention(4, 2, qkv_bias=True), Mlp(4, 8)
    joint.shift(attention, mlp)
    shifts = [first, attention.norm, mlp.act[0], mlp.norm]
    assert all(isinstance(one, Shift) and not one.bias.any() for one in shifts)
    for number, one in enumerate(shifts, 1):
        nn.init.constant_(one.bias, float(number))
    x = torch.randn(2, 3, 4)
    hidden = nn.functional.gelu((x + 1) @ mlp.fc1.weight.T + mlp.fc1.bias + 3) + 4
    torch.testing.assert_close(mlp(first(x)), hidden @ mlp.fc2.weight.T + mlp.fc2.bias)
    plain = Attention(4, 2, qkv_bias=True)
    plain.load_state_dict(attention.state_dict(), strict=False)
    plain.proj = nn.Identity()
    mixed = plain(x + 1) + 2
    torch.testing.assert_close(attention(first(x)), mixed @ attention.proj.weight.T + attention.proj.bias)
    kept = Joint("fixup", 4, 2, norm=True).layer_norm()
    assert [type(one) for one in kept] == [nn.LayerNorm, Shift]
    for other in set(SCHEMES) - {"fixup"}:
        untouched = Mlp(4, 8)
        Joint(other, 4, 2).shift(attention, untouched)
        assert isinstance(untouched.norm, nn.Identity) and isinstance(untouched.act, nn.GELU)


@pytest.mark.parametrize(
    ("residual", "more", "said"),
    [
        ("prenorm", {}, "residual: 'prenorm' (allowed: pre_norm, post_norm, layer_scale, rezero"),
        (
            "skip_init",
            dict(epsilon=0.1),
            "epsilon: 0.1 with residual 'skip_init' (allowed: None; layer_scale, rezero",
        ),
        ("pre_norm", dict(epsilon=0.0), "epsilon: 0.0 with residual 'pre_norm'"),
        ("layer_scale", dict(epsilon=-1e-4), "epsilon: -0.0001 (allowed: 0 or a positive number)"),
        ("rezero", dict(epsilon=float("nan")), "epsilon: nan"),
        ("rezero", dict(epsilon=float("inf")), "epsilon: inf"),
        ("pre_norm", dict(norm=False), "norm: False with residual 'pre_norm' (allowed: None, True)"),
        ("post_norm", dict(norm=False), "norm: False with residual 'post_norm'"),
    ],
)
def test_what_a_scheme_has_no_choice_of_is_refused(residual, more, said):
    with pytest.raises(ValueError) as caught:
        Joint(residual, 4, 12, **more)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    for scheme in WITHOUT_NORM:
        assert Joint(scheme, 4, 12, norm=False).norm == "none"
