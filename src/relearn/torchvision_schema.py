"""Make ``import torchvision`` (and thus timm and transformers' models) work with a torch that it was not built for.

pip's torchvision wheels are built for CUDA. With a CPU-only torch their compiled library cannot be loaded,
and then ``import torchvision`` itself fails with ``operator torchvision::nms does not exist``, because
torchvision registers a fake implementation of that operator without checking that the operator exists.
:func:`declare` declares the operator's signature, without an implementation, before the import. All parts of
torchvision that are written in Python then work. Calling ``torchvision.ops.nms`` or the image readers still fails,
because they have no implementation; read images with PIL.

    from relearn import torchvision_schema

    torchvision_schema.declare()
    import timm
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec
from typing import Any

import torch

SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
"""The operators whose outputs torchvision describes unconditionally, with its own signatures."""

_declared: list[torch.library.Library] = []
"""Declarations end with the object that made them, so it is kept."""


def _compiled_library() -> str | None:
    """Path of torchvision's compiled library, found without importing torchvision; None if there is none."""
    package = find_spec("torchvision")
    for folder in (package and package.submodule_search_locations) or ():
        library = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec("_C")
        if library is not None:
            return library.origin
    return None


def declare() -> bool:
    """Declare ``torchvision::nms`` and ``qnms`` if torchvision's compiled library cannot be loaded.

    Call it before the first import of torchvision, timm or transformers' models. If the library can be loaded, it
    is loaded (as the import would do) and nothing is declared; a second call does nothing.

    Returns:
        Whether anything was declared by this call.
    """
    missing = [name for name in SCHEMAS if not hasattr(torch.ops.torchvision, name)]
    if not missing or find_spec("torchvision") is None:
        return False
    path = _compiled_library()
    if path is not None:
        try:
            torch.ops.load_library(path)
            return False
        except OSError:
            pass  # built for another torch: the case that this file handles
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in missing:
        library.define(SCHEMAS[name])
    _declared.append(library)
    return True


def transformers() -> Any:
    """Declare, and import ``transformers``.

    Raises:
        ModuleNotFoundError: it is not installed; the message says how to install it.
    """
    declare()
    try:
        import transformers as library
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "transformers: not installed (allowed: pip install 'transformers>=5.0')"
        ) from None
    return library
