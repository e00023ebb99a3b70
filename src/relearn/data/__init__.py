"""Data sets by name, their split and their prepared form.

``DATASETS`` maps the name of each image data set to its loader as text, so that a module is imported only when its data set is used;
each is one file with ``load(folder) -> Images``. ``CORPORA`` does the same for translation (``load(folder) -> Corpus``, see
``relearn.data.sentence_pairs``), ``TEXTS`` for language models (``load(folder) -> Text``, see ``relearn.data.text_lines``), and
``OUTLIERS`` for out-of-distribution images (see ``relearn.data.outliers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

DATASETS = {
    "digits": "relearn.data.digits:load",
    "cifar10": "relearn.data.cifar10:load",
}
CORPORA = {
    "number_words": "relearn.data.number_words:load",
    "multi30k": "relearn.data.multi30k:load",
    "iwslt14": "relearn.data.iwslt14:load",
}
TEXTS = {
    "pydoc_topics": "relearn.data.pydoc_topics:load",
    "ptb": "relearn.data.ptb:load",
}
OUTLIERS = {
    "cifar100": "relearn.data.cifar100:outliers",
    "svhn": "relearn.data.svhn:outliers",
    "natural_patches": "relearn.data.natural_patches:patches",
    "gaussian_noise": "relearn.data.noise_images:gaussian",
    "uniform_noise": "relearn.data.noise_images:uniform",
    "corrupted": "relearn.data.corrupted:corrupted",
}


def module_of(name: str, table: Mapping[str, str] = DATASETS, kind: str = "data set") -> str:
    """The module that holds a data set, for code versions: ``module_of("digits") == "relearn.data.digits"``.

    Args:
        name: a key of ``table``.
        table: one of the tables of this module, or ``relearn.data.streams.STREAMS``.
        kind: what the table's entries are, for the message.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in table:
        raise ValueError(f"{kind} {name!r} is unknown; allowed: {', '.join(table)}")
    return table[name].partition(":")[0]


def load(
    name: str, table: Mapping[str, str] = DATASETS, kind: str = "data set", *, folder: Path | None = None
) -> Any:
    """Load a whole data set: ``Images``, or what the table's loaders return.

    Args:
        name, table, kind: as for :func:`module_of`.
        folder: a folder that already holds this data set; ``None`` generates it, or uses the copy in an installed package
            or the cache, downloading the files if necessary.

    Raises:
        ValueError: the name is unknown, or the files are not the expected ones.
        OSError: a file can neither be read nor downloaded.
    """
    module = import_module(module_of(name, table, kind))
    return getattr(module, table[name].partition(":")[2])(folder)
