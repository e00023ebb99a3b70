"""What the steps compute: the training of vision networks."""

from relearn.studies.work import train_vision

WORK = {"train_vision": train_vision}
