"""The runs on images: initialisations, training from each of them, and gradients before training.

The label ``suite`` gives the size: ``grid`` (the networks of the tables), ``first_steps`` (some training
steps at another size; at small the first epoch at the published one), or ``imagenet`` (table 4.8, with images decoded during training).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from relearn.models import module_of
from relearn.studies import vision
from relearn.studies.family import Family, Needs
from relearn.studies.gradinit.plan.methods import (
    WITHOUT_NORM,
    arguments_for_images,
    iterations_of,
    method_of,
    modules_of,
    variants,
    with_tau,
)

GRID, FIRST_STEPS, IMAGENET = "grid", "first_steps", "imagenet"
STARTED = {"weights": "weights.safetensors", "scales": "scales.csv", "history": "history.csv"}
"""What `initialise` writes."""
SEARCHES = {"metainit": "metainit", "gradinit_tuned": "gradinit"}
"""Initialisations whose tau a search chooses, with their keys of `tuning`."""
TUNED_ON = {"held_out": 0.1, "test_images": 0}
"""A search chooses tau on a tenth of the training images, all of them: no test image takes part."""
Start = tuple[str, str]  # network, initialisation


def families(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs on images by rule; ImageNet has separate rules, whose jobs run up to a week and decode images."""
    own = params["gradinit"]
    starts = Starts(own)
    recipe = Recipes(own)

    def data(suite: str, **rest: str) -> str:
        return (
            vision.listing_path(scale) if suite == IMAGENET else vision.images_path(params, scale, "gradinit")
        )

    def modules(suite: str, network: str, **rest: str) -> list[str]:
        task = "folder" if suite == IMAGENET else "images"
        return [f"relearn.steps.tasks.{task}", module_of(network)]

    def started_modules(suite: str, network: str, initialisation: str) -> list[str]:
        method = method_of(initialisation)
        return [*modules(suite, network), *modules_of(method, own_start="kaiming")]

    extra = own["extra_seeds"]

    def seeds(suite: str, network: str, initialisation: str, recipe: str = "sgd") -> list[int]:
        if suite == FIRST_STEPS and own["first_steps"]["seeds"]:
            return list(own["first_steps"]["seeds"])
        cell = (suite, recipe) == (GRID, "sgd")
        more = cell and network in extra["networks"] and initialisation in extra["initialisations"]
        return [*own["seeds"], *(extra["seeds"] if more else [])]

    tuning = {name: own["tuning"][key] for name, key in SEARCHES.items()}
    taus = {
        (network, name): arguments_for_images(own, network, name)["tau"]
        for name in SEARCHES
        for network in own["networks"][name]
    }
    candidates = [
        {"network": network, "initialisation": name, "tried": f"tau{factor * tau:g}"}
        for (network, name), tau in taus.items()
        for factor in tuning[name]["factors"]
        if tuning[name]["seeds"]
    ]

    def seeds_of_search(initialisation: str, **cell: str) -> list[int]:
        return list(tuning[initialisation]["seeds"])

    def tried(suite: str, network: str, initialisation: str, seed: str) -> list[str]:
        """The trainings that choose tau, the same for each seed."""
        return tune_train.paths(network=network, initialisation=initialisation) if suite == GRID else []

    initialise = Family(
        study="gradinit",
        step="initialise",
        scale=scale,
        folder="{suite}/{network}/{initialisation}",
        cells=[_cell(GRID, start) for start in starts.grid]
        + [_cell(FIRST_STEPS, start) for start in starts.first_steps],
        seeds=own["seeds"],
        cell_seeds=seeds,
        inputs={"data": data, "tried": tried},
        settings=recipe.initialise,
        modules=started_modules,
        labels={"task": "images"},
        outputs=STARTED,
        needs=Needs(mem_mb=12000, minutes=240),
        constraints={"suite": f"{GRID}|{FIRST_STEPS}"},
    )
    train = replace(
        initialise,
        step="train_from_init",
        folder="{suite}/{network}/{initialisation}/{recipe}",
        cells=[
            *(_cell(GRID, start, recipe="sgd") for start in starts.sgd),
            *(_cell(GRID, start, recipe="adamw") for start in starts.adamw),
            *(
                _cell(GRID, start, recipe=name)
                for name in ("scalars", "scalars_low_lr")
                for start in starts.scalars
            ),
            *(_cell(FIRST_STEPS, start, recipe="steps") for start in starts.first_steps),
        ],
        inputs={"data": data, "start": initialise.files["weights"]},
        settings=recipe.train,
        modules=modules,
        outputs={"history": "history.csv"},
        needs=Needs(mem_mb=12000, minutes=1440),
    )
    tune = replace(
        initialise,
        folder="tuning/{network}/{initialisation}/{tried}",
        cells=candidates,
        cell_seeds=seeds_of_search,
        inputs={"data": data(GRID)},
        settings=lambda network, initialisation, tried: with_tau(
            recipe.initialise(GRID, network, initialisation), tried
        ),
        modules=lambda network, initialisation, tried: started_modules(GRID, network, initialisation),
        labels={"task": "images", "suite": "tuning"},
        constraints={},
    )
    tune_train = replace(
        train,
        folder=tune.folder,
        cells=candidates,
        cell_seeds=seeds_of_search,
        inputs={"data": data(GRID), "start": tune.files["weights"]},
        settings=lambda network, initialisation, tried: {
            **recipe.train(GRID, network, initialisation, "sgd"),
            **TUNED_ON,
        },
        modules=lambda network, initialisation, tried: modules(GRID, network),
        labels={**tune.labels, "recipe": "sgd"},
        constraints={},
    )
    statistics = replace(
        initialise,
        step="gradient_statistics",
        cells=[_cell(suite, start) for suite, start in starts.measured() if suite != IMAGENET],
        inputs={"data": data, "network": initialise.files["weights"]},
        settings=recipe.gradient_statistics,
        modules=lambda **cell: ["relearn.measures.gradient_statistics", *modules(**cell)],
        labels={"task": "images", "protocol": "gradient_statistics"},
        outputs={"layers": "layers.csv"},
        needs=Needs(mem_mb=12000, minutes=120),
    )
    return {
        "initialise": initialise,
        "tune_initialise": tune,
        "tune_train_from_init": tune_train,
        "initialise_imagenet": _on_imagenet(
            initialise, [_cell(IMAGENET, start) for start in starts.imagenet]
        ),
        "train_from_init": train,
        "train_from_init_imagenet": _on_imagenet(
            train,
            [_cell(IMAGENET, start, recipe="imagenet") for start in starts.imagenet],
            own["imagenet"]["gpus"],
        ),
        "gradient_statistics": statistics,
        "gradient_statistics_imagenet": _on_imagenet(
            statistics, [_cell(suite, start) for suite, start in starts.measured() if suite == IMAGENET]
        ),
    }


def _cell(suite: str, start: Start, **more: str) -> dict[str, str]:
    network, name = start
    return {"suite": suite, "network": network, "initialisation": name, **more}


def _batch_size(suite: str, network: str, sizes: Mapping[str, Any]) -> int:
    """The batch size; DenseNet has a separate one in the grid, i.e. on CIFAR-10 in the paper."""
    own = suite == GRID and network.startswith("DenseNet")
    return sizes["densenet_batch_size" if own else "batch_size"]


def _on_imagenet(family: Family, cells: list[dict[str, str]], gpus: int = 1) -> Family:
    """The same family on ImageNet, where a run takes days and needs, for each GPU, threads for decoding."""
    was = family.needs
    needs = replace(was, mem_mb=gpus * was.mem_mb, minutes=7 * was.minutes, threads=8 * gpus, gpu=gpus)
    return replace(family, cells=cells, needs=needs, constraints={"suite": IMAGENET})


class Starts:
    """The combinations of network and initialisation that params.yaml lists."""

    def __init__(self, own: Mapping[str, Any]) -> None:
        first = own["first_steps"]
        self.sgd: list[Start] = [
            (network, name)
            for group, networks in own["networks"].items()
            for network in networks
            for name in variants(own, group)
        ]
        self.adamw = [
            (network, name) for network in own["adamw_networks"] for name in ("kaiming", "gradinit_adam")
        ]
        self.scalars = [(network, "kaiming") for network in own["scalar_networks"]]
        self.grid = self.sgd + self.adamw + self.scalars
        self.first_steps = [
            (network, name) for network in first["networks"] for name in first["initialisations"]
        ]
        self.imagenet = [
            (network, name) for name, networks in own["imagenet"]["networks"].items() for network in networks
        ]
        self._measured = own["probe"]["networks"]

    def measured(self) -> Iterator[tuple[str, Start]]:
        """Suite and start of each gradient measurement, before and after GradInit.

        A network that is in several suites is measured in the first of: first steps, ImageNet, grid.
        """
        suites = {FIRST_STEPS: self.first_steps, IMAGENET: self.imagenet, GRID: self.sgd}
        for network in self._measured:
            for name in ("kaiming", "gradinit"):
                having = [suite for suite, starts in suites.items() if (network, name) in starts]
                for suite in having[:1]:
                    yield suite, (network, name)


class Recipes:
    """Settings of the steps from the study's section of params.yaml."""

    def __init__(self, own: Mapping[str, Any]) -> None:
        self.own = own

    def initialise(self, suite: str, network: str, initialisation: str) -> dict[str, Any]:
        """Settings of `initialise`."""
        own = self.own
        sizes = {FIRST_STEPS: own["first_steps"], IMAGENET: own["imagenet"]["initialise"]}
        size = sizes.get(suite, own["initialise"])
        arguments = arguments_for_images(own, network, initialisation)
        if suite == IMAGENET and method_of(initialisation) == "gradinit":
            arguments |= {key: size[key] for key in ("gamma", "normalised")}
        method, batch_size = method_of(initialisation), _batch_size(suite, network, size)
        return {
            "task": "images",
            "network": {"name": network, **self._network_size(suite, network)},
            "method": method,
            "arguments": arguments,
            "batch_size": batch_size,
            "iterations": iterations_of(method, size, batch_size / size["batch_size"]),
            **self._images(suite),
        }

    def train(self, suite: str, network: str, initialisation: str, recipe: str) -> dict[str, Any]:
        """Settings of `train_from_init`; only networks without batch normalisation use clipping, only WRN uses mixup."""
        own = self.own
        train, first = own["train"], own["first_steps"]
        kept = ("batch_size", "lr", "momentum", "weight_decay", "epochs", "test_images")
        settings = {
            **self._images(GRID),
            **{key: train[key] for key in kept},
            "batch_size": _batch_size(suite, network, train),
            "optimizer": "sgd",
            "steps": None,
            "clip_norm": train["clip_norm"] if network in WITHOUT_NORM else None,
            "mixup": train["mixup"] if network.startswith("WRN") else None,
            "scalars": recipe.startswith("scalars"),
        }
        if recipe == "adamw":
            settings |= {"optimizer": "adamw", "momentum": None, **own["adamw"]}
        if settings["scalars"]:
            settings["lr"] = own["scalars"]["low_lr" if recipe.endswith("low_lr") else "lr"]
        if recipe == "steps":
            settings |= {"steps": first["steps"], "batch_size": first["batch_size"], "epochs": None}
        return self._imagenet(network, settings) if recipe == "imagenet" else settings

    def gradient_statistics(self, suite: str, network: str, initialisation: str) -> dict[str, Any]:
        """Settings of `gradient_statistics`."""
        counts = {key: self.own["probe"][key] for key in ("batches", "batch_size")}
        return {
            "protocol": "gradient_statistics",
            "task": "images",
            **counts,
            **self._images(suite),
        }

    def _images(self, suite: str) -> dict[str, Any]:
        """Settings of the images: size on ImageNet, otherwise the augmentation."""
        if suite == IMAGENET:
            return {"task": "folder", "size": self.own["imagenet"]["size"]}
        return {key: self.own["train"][key] for key in ("crop_padding", "flip", "cutout")}

    def _network_size(self, suite: str, network: str) -> dict[str, float]:
        """Width and depth of a network, as multiples of the published ones."""
        size = self.own["first_steps"] if suite == FIRST_STEPS else self.own["network"]
        deep = suite == GRID and network.startswith("ResNet-1202")
        return {"width": size["width"], "depth": size["resnet1202_depth" if deep else "depth"]}

    def _imagenet(self, network: str, usual: Mapping[str, Any]) -> dict[str, Any]:
        """Settings for ImageNet: a step schedule, no clipping, and mixup only for networks without batch normalisation."""
        imagenet = self.own["imagenet"]
        own = {key: imagenet[key] for key in ("epochs", "batch_size", "lr", "milestones")}
        own |= {"schedule": "step", "clip_norm": None, "test_images": 0, **self._images(IMAGENET)}
        own["mixup"] = imagenet["mixup"] if network in WITHOUT_NORM else None
        return {key: value for key, value in usual.items() if key not in self._images(GRID)} | own
