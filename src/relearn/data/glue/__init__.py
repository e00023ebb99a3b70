"""GLUE (Wang et al. 2019, arXiv 1804.07461) by its official files: nine tasks and the diagnostics ``ax``.

:func:`load` gives a task's parts as :class:`relearn.data.examples.Examples`; :mod:`relearn.data.glue.tasks` says what each task's
files look like, :mod:`relearn.data.glue.ranking` turns QNLI and WNLI into a choice between sentences, and
:mod:`relearn.data.glue_submission` writes what the benchmark's server wants::

    from relearn.data import glue

    cola = glue.load("cola", None)  # downloads; a folder: reads that
    print(cola.metric, cola.train.rows[0], cola.train.labels[0])

The texts belong to their authors; none is in this repository.
"""

from __future__ import annotations

from relearn.data.glue.loading import Glue, load
from relearn.data.glue.tasks import TASKS

__all__ = ["TASKS", "Glue", "load"]
