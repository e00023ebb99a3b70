"""GLUE (Wang et al. 2019, arXiv 1804.07461) from its official files: nine tasks and the diagnostics ``ax``.

:func:`load` returns a task's parts as :class:`relearn.data.examples.Examples`; :mod:`relearn.data.glue.tasks` describes the files of each
task, :mod:`relearn.data.glue.ranking` converts QNLI and WNLI to a choice between sentences, and :mod:`relearn.data.glue_submission` writes
submission files::

    from relearn.data import glue

    cola = glue.load("cola", None)  # downloads; a folder is read instead
    print(cola.metric, cola.train.rows[0], cola.train.labels[0])

The texts belong to their authors; none is in this repository.
"""

from __future__ import annotations

from relearn.data.glue.loading import Glue, load
from relearn.data.glue.tasks import TASKS

__all__ = ["TASKS", "Glue", "load"]
