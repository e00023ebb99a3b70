"""Mixin for image networks that can bound their own Lipschitz constant."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.models.lipschitz_bound import NetworkBound


class Bounded:
    """Mixin for networks with ``in_chans`` and ``img_size``. The bounds are imported by name, so training code does not depend on
    them."""

    in_chans: int
    img_size: Any

    def lipschitz_bound(self, p: str = "two", form: str = "tight") -> NetworkBound:
        """Return an upper bound on the Lipschitz constant of images → logits, for the current weights in evaluation mode.

        Args:
            p, form: see :func:`~relearn.models.lipschitz_bound.lipschitz_bound`; ``.value`` is the bound, ``.parts`` its factors.

        Raises:
            ValueError: a part has no Lipschitz constant; the message names it.
        """
        bounds = import_module("relearn.models.lipschitz_bound")
        found: NetworkBound = bounds.lipschitz_bound(self, (self.in_chans, *self.img_size), p=p, form=form)
        return found
