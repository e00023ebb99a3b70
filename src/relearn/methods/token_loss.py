r"""Cross-entropy of a language or translation model: mean over non-padding tokens, with label smoothing.

Szegedy et al., "Rethinking the Inception Architecture" (2016), section 7.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

PAD = 0


def token_loss(logits: Tensor, targets: Tensor, *, smoothing: float = 0.1) -> Tensor:
    r"""Cross-entropy in nats per token.

    .. math::
        L = \frac{1}{|\{t : y_t \ne 0\}|} \sum_{t : y_t \ne 0}
            \Big[ (1-\epsilon)\,(-\log p_t(y_t)) + \frac{\epsilon}{V} \sum_{v=1}^{V} -\log p_t(v) \Big]

    ======  ==========================  =============  =========
    symbol  meaning                     code           shape
    ======  ==========================  =============  =========
    p_t     softmax of the logits       ``logits``     (B, T, V)
    y_t     target tokens, 0 = padding  ``targets``    (B, T)
    ε       smoothing                   ``smoothing``
    ======  ==========================  =============  =========

    Computed in at least single precision. A batch of padding only gives NaN, like any mean over no terms.
    The released code of zhu2022 trains with ε = 0.1; with ε = 0 this is the plain cross-entropy reported as validation loss.

    Raises:
        ValueError: ε outside [0, 1).
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"label_smoothing: {smoothing} (allowed: 0 <= epsilon < 1)")
    wide = logits.float() if logits.element_size() < 4 else logits
    return cross_entropy(wide.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=smoothing)


def tokens(targets: Tensor) -> Tensor:
    """Number of terms in the mean: the target tokens that are not padding, shape ()."""
    return (targets != PAD).sum()
