"""Parts of the plan shared by the studies that train vision Transformers: images and training recipes.

A plan does not import torch: `models.vision.modules_of` only reads module names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.data import module_of
from relearn.models.vision import modules_of
from relearn.studies.family import Family, Needs

LONG_SHORT = {
    "CvT-13": "cvt_13",
    "CvT-21": "cvt_21",
    "CvT-LS-13": "cvt_ls_13",
    "CvT-LS-17": "cvt_ls_17",
    "CvT-LS-21": "cvt_ls_21",
    "CvT-LS-21S": "cvt_ls_21s",
    "CvT-LS-13-windows": "cvt_ls_13",
    "CvT-LS-13-summaries": "cvt_ls_13",
    "CvT-LS-13-one-norm": "cvt_ls_13",
    "ViL-Medium": "vil_medium",
    "ViL-LS-Medium": "vil_ls_medium",
    "ViL-Base": "vil_base",
    "ViL-LS-Base": "vil_ls_base",
    "DeiT-S": "residual_deit_small",
    "ResNet-50": "resnet50",
    "Swin-T": "swin_tiny_patch4_window7_224",
    "LipsFormer-Swin-T": "lipsformer_swin_tiny",
}
"""The networks that `long_short` trains and `robustness` evaluates: name in params.yaml → name in timm's registry."""
PARTS: dict[str, dict[str, int | bool]] = {
    "CvT-LS-13-windows": {"rank": 0},
    "CvT-LS-13-summaries": {"window": 0},
    "CvT-LS-13-one-norm": {"dual_norm": False},
}
"""Controls for CvT-LS-13, each without one part of its attention: name in params.yaml → arguments of the network."""
FOLDER = "imagenet"  # not prepared: its images are read from their original folder


def from_folder(params: Mapping[str, Any], study: str) -> bool:
    """Whether a study trains on the ImageNet folder, in which case its jobs decode images during training."""
    return params[study]["images"]["dataset"] == FOLDER


def listing_path(scale: str) -> str:
    """Path of the listing of the ImageNet folder, which the study ``gradinit`` creates for all studies."""
    return f"results/{scale}/runs/gradinit/list_imagenet/{FOLDER}/listing.json"


def images_path(params: Mapping[str, Any], scale: str, study: str) -> str:
    """Path of the image data of a run: the prepared data set, or the listing of the ImageNet folder."""
    if from_folder(params, study):
        return listing_path(scale)
    return (
        f"results/{scale}/runs/{study}/prepare_images/{params[study]['images']['dataset']}/data.safetensors"
    )


def prepare_images(params: Mapping[str, Any], scale: str, study: str) -> Family:
    """The step that prepares the study's images; no runs if the study trains on the ImageNet folder.

    The whole training set forms one part, as in chapter 4 of zhu2022.
    """
    images = params[study]["images"]
    return Family(
        study=study,
        step="prepare_images",
        scale=scale,
        folder="{dataset}",
        cells=[] if from_folder(params, study) else [{"dataset": images["dataset"]}],
        settings=lambda dataset: {
            "dataset": dataset,
            "pretrain_per_class": images["train_per_class"] - 1,
            "fine_tune_per_class": 1,
            "pool_per_class": 1,
        },
        modules=lambda dataset: [module_of(dataset)],
        outputs={"data": "data.safetensors"},
        needs=Needs(mem_mb=4000, minutes=30, gpu=0),
    )


def training_needs(params: Mapping[str, Any], study: str) -> Needs:
    """Resource requirements of `train_vision`: on the ImageNet folder, a week of run time, and for each GPU threads for decoding."""
    if from_folder(params, study):
        return folder_needs(params[study]["train"]["gpus"])
    return Needs(mem_mb=12000, minutes=1440)


def folder_needs(gpus: int) -> Needs:
    """Resource requirements of a training on the ImageNet folder."""
    return Needs(mem_mb=12000 * gpus, minutes=10080, threads=8 * gpus, gpu=gpus)


TRAINED = {
    "history": "history.csv",
    "layers": "layers.csv",
    "alphas": "alphas.csv",
    "network": "model.safetensors",
}
"""What `train_vision` writes."""


AVERAGED = {"averaged": "averaged.safetensors"}
"""What `train_vision` writes besides, where its settings have ``average_file``."""


def trainings(
    params: Mapping[str, Any], scale: str, study: str, *, inputs: Mapping[str, Any] | None = None, **own: Any
) -> Family:
    """Runs of `train_vision` on the study's images; ``own`` are further arguments of the family."""
    return Family(
        study=study,
        step="train_vision",
        scale=scale,
        inputs={"data": images_path(params, scale, study), **(inputs or {})},
        needs=training_needs(params, study),
        **{"seeds": params[study]["seeds"], "outputs": TRAINED, **own},
    )


def recipe(
    params: Mapping[str, Any],
    study: str,
    train: Mapping[str, Any],
    *,
    folder: bool | None = None,
    **own: Any,
) -> dict[str, Any]:
    """Settings of `train_vision` from a recipe of params.yaml, in which 0 means none.

    Args:
        params: all parameters.
        study: the study whose images are used.
        train: the recipe.
        folder: whether to train on the ImageNet folder; None: as the study's images require.
        own: values that override those of the recipe.
    """
    merged = {**train, **own}
    folder = from_folder(params, study) if folder is None else folder
    size = params[study]["images"]["size"]
    augment = {
        "magnitude": merged["randaugment"],
        "spread": merged["randaugment_spread"],
        "operations": merged["randaugment_operations"],
    }
    found = {
        **{key: merged[key] for key in ("optimizer", "lr", "betas", "weight_decay", "batch_size", "epochs")},
        **{key: merged[key] for key in ("warmup_epochs", "label_smoothing", "test_images")},
        "momentum": merged["momentum"],
        "schedule": "cosine",
        "randaugment": augment if merged["randaugment"] else None,
        **{key: merged[key] or None for key in ("mixup", "cutmix", "clip_norm")},
        "ema": merged["average"] or None,
        "train_images": 0,
        "task": "folder" if folder else "images",
    }
    if folder:
        return found | {"size": size}
    resized = {"size": size} if size else {}  # otherwise the images keep their size
    return found | {key: merged[key] for key in ("crop_padding", "flip")} | resized


def modules_behind(params: Mapping[str, Any], study: str, network: str) -> list[str]:
    """The modules used by a run that trains ``network``, a name in timm's registry."""
    task = "folder" if from_folder(params, study) else "images"
    return [f"relearn.steps.tasks.{task}", *modules_of(network)]
