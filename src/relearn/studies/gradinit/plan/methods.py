"""Maps the name of an initialisation, e.g. ``gradinit_overlap_0``, to its method and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.methods import INITIALISATIONS
from relearn.runs import plugins
from relearn.studies.gradinit.steps.initialise import SCALED

WITHOUT_NORM = (
    "ResNet-110-SkipInit",
    "VGG-19",
    "ResNet-110",
    "ResNet-1202",
    "FixUpResNet-110",
    "DenseNet-100",
    "timm-ResNet-50-FixUp",
)
"""Networks without batch normalisation."""
FREE = {
    "gradinit_free_0.5": ("half", 0.5),
    "gradinit_free_1": ("same", 1.0),
    "gradinit_free_1_large_tau": ("same_large", 1.0),
}
"""GradInit without the bound gamma (table 4.2): its key of `free_tau` and the overlap of its batches."""
SCOPES = {"gradinit_fix_bn": "fix_norm", "gradinit_only_bn": "only_norm"}
"""GradInit that learns a part of the scales only (table 4.6)."""
FIRST_WORDS = ("gradinit", "metainit", "extra_epoch", "t_fixup", "admin")
"""Methods with variants, whose names begin with the method's."""


def penalties(own: Mapping[str, Any]) -> dict[str, float]:
    """The penalty strengths of table 4.3 by the name of the initialisation, e.g. ``gradinit_penalty_1e-4``."""

    def short(value: float) -> str:
        return f"{value:g}" if value >= 0.1 else f"{value:.0e}".replace("e-0", "e-")

    return {f"gradinit_penalty_{short(value)}": value for value in own["initialise"]["penalties"]}


def variants(own: Mapping[str, Any], group: str) -> list[str]:
    """The initialisations that a key of `networks` in params.yaml stands for; most keys stand only for themselves."""
    several = {
        "gradinit_overlap": ["gradinit_overlap_0", "gradinit_overlap_1"],
        "gradinit_free": list(FREE),
        "gradinit_penalty": list(penalties(own)),
    }
    return several.get(group, [group])


def method_of(name: str) -> str | None:
    """The key of INITIALISATIONS for the name of an initialisation; None if the network keeps its constructor's weights."""
    if name in INITIALISATIONS:
        return name
    for method in FIRST_WORDS:
        if name == method or name.startswith(f"{method}_"):
            return method
    return None if name == "none" else name


def modules_of(method: str | None, own_start: str) -> list[str]:
    """The module of a method; none for ``own_start``, the initialisation that the network's constructor uses."""
    return [] if method in (None, own_start) else [INITIALISATIONS[method].partition(":")[0]]


def iterations_of(method: str | None, own: Mapping[str, Any], share: float = 1.0) -> int | None:
    """The number of iterations that see as many samples in batches of ``share`` times the usual size; None for a method that takes no
    number, so its settings do not depend on it."""
    return round(own["iterations"] / share) if method in SCALED else None


def arguments_for_images(own: Mapping[str, Any], network: str, name: str) -> dict[str, Any]:
    """The arguments of the initialisation ``name`` for an image network."""
    initialise, train = own["initialise"], own["train"]
    method = method_of(name)
    if method == "gradinit":
        return _gradinit(own, network, name)
    if method == "metainit":
        sign = name.endswith("_sign")
        found = {
            "data": "random" if name == "metainit_random_sign" else "real",
            "optimizer": "signsgd" if sign else "adam",
        }
        if sign:
            return {**found, **initialise["metainit"]}
        by_adam = initialise["metainit_adam"]
        return {**found, "tau": by_adam["tau"][network], "clip": by_adam["clip"]}
    if method == "extra_epoch":
        rest = {key: train[key] for key in ("lr", "momentum", "weight_decay")}
        clip = train["clip_norm"] if network in WITHOUT_NORM else None
        return {**rest, "clip_norm": clip, "schedule": name.rpartition("_")[2]}
    own_arguments = ("lsuv", *plugins.installed()["relearn.initialisations"])
    return dict(initialise.get(method, {})) if method in own_arguments else {}


def _gradinit(own: Mapping[str, Any], network: str, name: str) -> dict[str, Any]:
    initialise = own["initialise"]
    arguments = {
        "optimizer": "sgd",
        "tau": initialise["tau"][network],
        **{key: initialise[key] for key in ("eta", "gamma", "overlap", "min_scale", "normalised")},
        **{key: initialise[key] for key in ("divide_by_eta", "moments")},
        "clip": initialise["clip"] or None,
    }
    if name == "gradinit_adam":
        arguments |= {"optimizer": "adam", "normalised": False, **initialise["adam"]}
    if name.startswith("gradinit_overlap_"):
        arguments["overlap"] = float(name.rpartition("_")[2])
    if name in FREE:
        tau, overlap = FREE[name]
        arguments |= {"tau": initialise["free_tau"][tau], "overlap": overlap, "gamma": None}
    if name in (strengths := penalties(own)):
        arguments |= {"form": "penalty", "penalty": strengths[name], "gamma": None, "divide_by_eta": False}
    if name in SCOPES:
        arguments["scope"] = SCOPES[name]
    return arguments


def with_tau(settings: Mapping[str, Any], tried: str) -> dict[str, Any]:
    """Settings of an initialisation with the tau that a name of a candidate gives, e.g. ``tau0.01``; others change nothing."""
    if not tried.startswith("tau"):
        return dict(settings)
    return {**settings, "arguments": {**settings["arguments"], "tau": float(tried.removeprefix("tau"))}}


def rate_of(name: str) -> float | None:
    """The rate in the name of an initialisation, such as ``gradinit_sgd_lr0.05``."""
    rate = name.partition("_lr")[2]
    return float(rate) if rate else None


def arguments_for_translation(own: Mapping[str, Any], network: str, name: str) -> dict[str, Any]:
    """The arguments of the initialisation ``name`` for the Transformer; ``gradinit_sgd_lr0.05`` looks ahead with that rate.

    GradInit leaves w_skip at 1, as the released code, which scales linear maps, embeddings and norms only.
    """
    translation = own["translation"]
    if name.startswith("gradinit"):
        optimizer = "sgd" if "_sgd" in name else "adam"
        rate = {"eta": rate_of(name)} if rate_of(name) else {}
        initialise = translation["initialise"]
        shared = {
            "overlap": own["initialise"]["overlap"],
            "min_scale": initialise["min_scale"],
            "tau": initialise["tau"],
        }
        fixed = {"optimizer": optimizer, "normalised": False}
        fixed |= {"exclude": ["*.w_skip"]} if network == "w_skip" else {}
        return {**shared, **translation[optimizer], **rate, **fixed}
    return {"fixed": True} if name == "admin_fixed" else {}
