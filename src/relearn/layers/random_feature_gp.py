r"""A Gaussian-process output layer based on random Fourier features: logits and their predictive variance.

Ye et al. (2023), supplement, appendix C, after SNGP: Liu, Lin, Padhy, Tran, Bedrax-Weiss and Lakshminarayanan, "Simple and
Principled Uncertainty Estimation with Deterministic Deep Learning via Distance Awareness" (2020), equations 7 to 9.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from relearn.layers.on_device import full_precision
from relearn.maths.norms import spectral_norm


class RandomFeatureGP(nn.Module):
    r"""Output layer of a classifier that replaces a dense layer.

    .. math::
        \Phi(x) = \sqrt{2/M}\, \cos(W x / \ell + b), \quad W_{ij} \sim N(0, 1), \quad b_i \sim U(0, 2\pi), \quad
        \mathrm{logits}(x) = \Phi(x)\, \beta

    W and b are frozen, β is learned. :math:`E[\Phi(x) \cdot \Phi(y)] = e^{-\|x - y\|^2 / 2 \ell^2}`. With prior
    precision τ (``ridge``) of β, the Laplace approximation at the learned β is, for class k,

    .. math::
        \Sigma_k^{-1} = \tau I + \sum_n p_{nk} (1 - p_{nk})\, \Phi_n \Phi_n^\top, \qquad
        v_k(x) = \Phi(x)^\top \Sigma_k\, \Phi(x), \qquad
        \mathrm{logits}_k / \sqrt{1 + \lambda v_k}, \quad \lambda = \pi / 8

    where p are the softmax probabilities of the training data. The sum is exact, over one epoch: call :meth:`fit`, or
    :meth:`reset_precision` and then :meth:`accumulate` for every batch of the last epoch.

    =============  ==================================  ====================  ==========
    symbol         meaning                             code                  shape
    =============  ==================================  ====================  ==========
    W, b           frozen features                     ``weight``, ``phase``   (M, D), (M,)
    β              kernel weight                       ``out.weight``        (C, M)
    Σ^{-1}         precision                           ``precision``         (1 or C, M, M)
    =============  ==================================  ====================  ==========

    By default all classes share one Σ (memory M² instead of C M²), where p belongs to the most probable class. Since
    p(1 - p) is then the largest of all classes, the shared variance is a lower bound of each class's own variance.

    Ye et al. state none of M, ℓ, τ and λ. SNGP's released code differs from this layer: it multiplies the variance by τ once
    more, uses a Gaussian likelihood (1 instead of p(1 - p)), orthogonal W, and ℓ = 2.

    Phases and Σ need float32: the layer disables autocast for its own computation. Do not cast it to half precision.

    Args:
        dim: width D of the input.
        classes: C, at least 2.
        features: M.
        length_scale: ℓ; 1 is the supplement's formula.
        ridge: τ.
        per_class: use a separate Σ for each class.
        mean_field: λ.

    Raises:
        ValueError: a number out of range; inputs of another width.
        RuntimeError: a variance is requested before the precision is fitted; :meth:`fit` gets no data.
    """

    weight: Tensor
    phase: Tensor
    precision: Tensor
    seen: Tensor

    def __init__(
        self,
        dim: int,
        classes: int,
        features: int = 1024,
        length_scale: float = 1.0,
        ridge: float = 1.0,
        *,
        per_class: bool = False,
        mean_field: float = math.pi / 8,
    ) -> None:
        super().__init__()
        for name, value, least in (("dim", dim, 1), ("classes", classes, 2), ("features", features, 1)):
            if value < least:
                raise ValueError(f"{name}: {value} (allowed: at least {least})")
        for name, number in (("length_scale", length_scale), ("ridge", ridge)):
            if not 0 < number < math.inf:
                raise ValueError(f"{name}: {number} (allowed: a positive number)")
        if not 0 <= mean_field < math.inf:
            raise ValueError(f"mean_field: {mean_field} (allowed: 0 or a positive number)")
        self.length_scale, self.ridge, self.mean_field = length_scale, ridge, mean_field
        self.register_buffer("weight", torch.empty(features, dim))
        self.register_buffer("phase", torch.empty(features))
        self.out = nn.Linear(features, classes, bias=False)
        self.register_buffer("precision", torch.empty(classes if per_class else 1, features, features))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new W and b, initialise β Xavier-uniformly, and discard the fitted precision."""
        nn.init.normal_(self.weight)
        nn.init.uniform_(self.phase, 0, 2 * math.pi)
        nn.init.xavier_uniform_(self.out.weight)
        self.reset_precision()

    def features(self, x: Tensor) -> Tensor:
        """Return Φ(x), (..., M), of x (..., D)."""
        dim = self.weight.shape[1]
        if x.shape[-1] != dim:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (..., {dim}))")
        with full_precision(x):
            turns = x.to(self.weight.dtype) @ self.weight.mT / self.length_scale
            return math.sqrt(2 / len(self.phase)) * torch.cos(turns + self.phase)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (..., C) of x (..., D) without the variance; these are used in training."""
        return self._logits(self.features(x))

    @torch.no_grad()
    def reset_precision(self) -> None:
        """Reset Σ^{-1} to that of the prior."""
        self.precision.zero_()
        self.precision.diagonal(dim1=-2, dim2=-1).fill_(self.ridge)
        self.seen.zero_()

    @torch.no_grad()
    def accumulate(self, x: Tensor) -> None:
        """Add the points x (..., D) to Σ^{-1}, with the class probabilities of the current β."""
        found = self.features(x).reshape(-1, len(self.phase))
        p = self._logits(found).softmax(-1)
        if len(self.precision) == 1:
            p = p.amax(-1, keepdim=True)
        with full_precision(x):
            for one, weight in zip(self.precision, (p * (1 - p)).T):
                one.addmm_(found.T, weight[:, None] * found)
        self.seen += len(found)

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Compute Σ^{-1} from exactly the points in these batches: one epoch after training."""
        self.reset_precision()
        for x in batches:
            self.accumulate(x)
        self._require_fitted("fit")

    def variance(self, x: Tensor) -> Tensor:
        """Return v(x) = Φᵀ Σ Φ, (..., 1), or (..., C) with a Σ per class, for x (..., D)."""
        self._require_fitted("variance")
        found = self.features(x)
        with full_precision(x):
            root = torch.linalg.cholesky(self.precision)
            half = torch.linalg.solve_triangular(root, found.reshape(-1, len(self.phase)).T, upper=False)
            return half.square().sum(1).T.reshape(*found.shape[:-1], len(self.precision))  # half is (K, M, n)

    def mean_field_logits(self, x: Tensor) -> Tensor:
        """Return the logits (..., C) divided by √(1 + λ v); their softmax approximates the posterior mean."""
        return self(x) / (1 + self.mean_field * self.variance(x)).sqrt()

    def feature_bound(self) -> Tensor:
        r"""Return the upper bound √(2/M) ‖W‖_2 / ℓ on the 2-norm Lipschitz constant of Φ."""
        return math.sqrt(2 / len(self.phase)) * spectral_norm(self.weight) / self.length_scale

    def _logits(self, found: Tensor) -> Tensor:
        with full_precision(found):
            return self.out(found)

    def _require_fitted(self, who: str) -> None:
        if not self.seen:
            raise RuntimeError(
                f"{who}: no point in the precision (call fit, or accumulate in the last epoch)"
            )

    def extra_repr(self) -> str:
        many, dim = self.weight.shape
        return f"dim={dim}, features={many}, length_scale={self.length_scale}, ridge={self.ridge}"
