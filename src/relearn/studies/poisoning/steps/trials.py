"""Settings of the steps that work on poisoned sets: which images are attacked, and which ones the poisons replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relearn.data.arrays import Prepared, Trials


@dataclass(frozen=True, kw_only=True)
class OnTrials:
    """``targets`` images of ``target_class``, one per trial, and ``poisons`` images of ``poison_class``, the bases."""

    poison_class: int
    target_class: int
    poisons: int
    targets: int

    def of(self, data: Prepared) -> Trials:
        """The trials on a prepared data set."""
        return data.trials(
            target_class=self.target_class,
            targets=self.targets,
            poison_class=self.poison_class,
            poisons=self.poisons,
        )
