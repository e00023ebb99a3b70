"""Registry of the gradient strategies allowed in params.yaml; a strategy is imported when it is used."""

from __future__ import annotations

import dataclasses
from typing import Any

from relearn.methods import load

STRATEGIES = {
    "vanilla": "relearn.methods.fit:plain_gradient",
    "pgd": "relearn.methods.pgd_training:PGDTraining",
    "free_at": "relearn.methods.free_at:FreeAT",
    "freelb": "relearn.methods.freelb:FreeLB",
    "yopo": "relearn.methods.yopo:YOPO",
}
SPACES = {
    "embeddings": "relearn.methods.embedding_space:EmbeddingSpace",
    "pixels": "relearn.methods.pixel_space:PixelSpace",
}


def strategy(name: str, **settings: Any) -> Any:
    """A strategy for :func:`relearn.methods.fit.fit`, ``strategy(model, loss, batch) -> value``.

    Args:
        name: a key of :data:`STRATEGIES`; ``vanilla`` is plain back-propagation and takes no settings.
        settings: arguments of the strategy; ``space`` may be a key of :data:`SPACES`.

    Raises:
        ValueError: an unknown name, or a setting that is unknown or out of range.
    """
    made = load(STRATEGIES, name)
    known = [one.name for one in dataclasses.fields(made)] if dataclasses.is_dataclass(made) else []
    for key in settings:
        if key not in known:
            raise ValueError(f"{name}.{key}: not known (allowed: {', '.join(known) or 'no settings'})")
    if not known:
        return made
    if isinstance(settings.get("space"), str):
        settings["space"] = load(SPACES, settings["space"])()
    return made(**settings)
