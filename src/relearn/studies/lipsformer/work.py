"""What each step computes, for forecasts; see :mod:`relearn.studies.work`."""

from __future__ import annotations

from collections.abc import Mapping

from relearn.studies.work import Formula, train_vision

# The constraint's own norms are left out: the ratio of measured to modelled time corrects for them.
WORK: Mapping[str, Formula] = {"train_constrained": train_vision}
