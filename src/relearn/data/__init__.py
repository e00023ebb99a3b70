"""Data sets by name, each one file with ``load(folder) -> Images``; their split and their prepared form.

``DATASETS`` names the loader of each data set as text: a module is imported only when its set is asked for.
``CORPORA`` does so for translation, each one file with ``load(folder) -> Corpus`` (see ``relearn.data.sentence_pairs``),
``TEXTS`` for language models, each one file with ``load(folder) -> Text`` (see ``relearn.data.text_lines``), and
``OUTLIERS`` for out-of-distribution images (see ``relearn.data.outliers``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from relearn.data.images import Images

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


def module_of(name: str) -> str:
    """The module that holds a data set, for code versions: ``module_of("digits") == "relearn.data.digits"``.

    Raises:
        ValueError: nobody knows the name.
    """
    if name not in DATASETS:
        raise ValueError(f"data set {name!r} is unknown; allowed: {', '.join(DATASETS)}")
    return DATASETS[name].partition(":")[0]


def load(name: str, *, folder: Path | None = None) -> Images:
    """Load a data set whole.

    Args:
        name: a key of ``DATASETS``.
        folder: a folder that already holds this data set; ``None`` takes what an installed package ships
            (digits) or what the cache holds, downloading it where it does not (cifar10).

    Raises:
        ValueError: nobody knows the name, or the files are not what they should be.
        OSError: a file can neither be read nor downloaded.
    """
    module = import_module(module_of(name))
    loader = getattr(module, DATASETS[name].partition(":")[2])
    images: Images = loader(folder)
    return images
