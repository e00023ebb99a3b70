"""Attacks, defences, initialisations and training.

The registries map the names allowed in params.yaml to ``module:attribute``; :func:`load` imports an entry when it is used.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from relearn import attribute

ATTACKS = {
    "feature_collision": "relearn.methods.feature_collision:craft",
    "convex_polytope": "relearn.methods.convex_polytope:craft",
    "multi_layer": "relearn.methods.multi_layer:craft",
    "bullseye_polytope": "relearn.methods.bullseye_polytope:craft",
    "gradient_matching": "relearn.methods.gradient_matching:craft",
    "adaptive_polytope": "relearn.methods.adaptive_polytope:craft",
    "white_box_collision": "relearn.methods.white_box_collision:craft",
}

DEFENCES = {
    "deep_knn": "relearn.methods.deep_knn:DeepKNN",
    "l2_outliers": "relearn.methods.l2_outliers:L2Outliers",
    "one_class_svm": "relearn.methods.one_class_svm:OneClassSVMFilter",
    "random_eviction": "relearn.methods.random_eviction:RandomEviction",
    "spectral_signatures": "relearn.methods.spectral_signatures:SpectralSignatures",
    "activation_clustering": "relearn.methods.activation_clustering:ActivationClustering",
    "epic": "relearn.methods.epic:Epic",
}

# Defences that change a victim's training instead of its set: votes of heads on frozen features, mixtures end to end.
VOTES = {"partition_aggregation": "relearn.methods.partition_aggregation:train"}
MIXTURES = {"mixup": "relearn.methods.mixing:mixup", "cutmix": "relearn.methods.mixing:cutmix"}

# Replication of small classes before the neighbour search (zhu2022, 2.3.5.2).
REPLICATIONS = {"deep_knn": "relearn.methods.deep_knn:replicate"}

# Initialisations of a network before training; the contract is in methods/initialised.py.
INITIALISATIONS = {
    "gradinit": "relearn.methods.gradinit:gradinit",
    "metainit": "relearn.methods.metainit:metainit",
    "kaiming": "relearn.methods.variance_scaling:kaiming",
    "xavier": "relearn.methods.variance_scaling:xavier",
    "orthogonal": "relearn.methods.orthogonal:orthogonal",
    "lsuv": "relearn.methods.orthogonal:lsuv",
    "fixup": "relearn.methods.fixup:fixup",
    "extra_epoch": "relearn.methods.extra_epoch:extra_epoch",
    "admin": "relearn.methods.admin:admin",
    "t_fixup": "relearn.methods.t_fixup:t_fixup",
}


def load(registry: Mapping[str, str], name: str) -> Any:
    """The function or class registered under a name.

    Raises:
        ValueError: the name is not in the registry; the message gives the nearest name and all allowed ones. Or its entry cannot be
            imported.
    """
    if name not in registry:
        nearest = difflib.get_close_matches(str(name), registry, n=1, cutoff=0.0)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise ValueError(f"{name!r} is not known; {hint}allowed: {', '.join(sorted(registry))}")
    return attribute(registry[name], f"method {name!r}")
