"""The four joints: their formulas in float64, what they start as, what is trained."""

import pytest
import torch

from relearn.layers.residual import KINDS, Residual


def layer_norm(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()


@pytest.mark.parametrize("kind", KINDS)
def test_formula(kind: str) -> None:
    torch.manual_seed(0)
    joint = Residual(6, kind).double()
    x, b = torch.randn(2, 3, 6, dtype=torch.float64), torch.randn(2, 3, 6, dtype=torch.float64)
    w, alpha = torch.randn(6, dtype=torch.float64), 0.3
    with torch.no_grad():
        if kind == "w_skip":
            joint.w_skip.copy_(w)
        if kind == "rezero":
            joint.alpha.fill_(alpha)
    expected = {
        "post_ln": layer_norm(x + b),
        "w_skip": layer_norm(w * x + b),
        "rezero": x + alpha * b,
        "no_norm": x + b,
    }[kind]
    torch.testing.assert_close(joint(x, b), expected, rtol=1e-12, atol=1e-12)


def test_starts() -> None:
    x, b = torch.randn(2, 6), torch.randn(2, 6)
    assert torch.equal(Residual(6, "w_skip")(x, b), Residual(6, "post_ln")(x, b))
    assert torch.equal(Residual(6, "rezero")(x, b), x)


def test_only_the_branch_is_dropped() -> None:
    joint = Residual(4, "no_norm", dropout=0.999)
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    assert torch.equal(joint(x, torch.zeros(5, 4)), x)
    assert int((joint(x, torch.ones(5, 4)) == x).sum()) > 15


def test_a_fixed_skip_is_not_trained_and_an_unknown_kind_is_refused() -> None:
    assert not Residual(4, "w_skip", fixed=True).w_skip.requires_grad
    assert Residual(4, "w_skip").w_skip.requires_grad
    with pytest.raises(ValueError, match=r"pre_ln.*allowed: post_ln"):
        Residual(4, "pre_ln")
