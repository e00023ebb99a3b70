# What the studies that train vision Transformers share (lipsformer, layer_scale, lrformer): their images and their recipes.
from relearn.studies.vision import listing_path

IMAGENET_FOLDER = "imagenet"  # not prepared: its images are read where they lie


def from_folder(study):
    """Whether a study trains on ImageNet's folder, so that a job decodes images while it trains."""
    return PARAMS[study]["images"]["dataset"] == IMAGENET_FOLDER


def vision_images(study):
    """What a run of images reads: the prepared set, or the listing of ImageNet's folder."""
    if from_folder(study):
        return listing_path(SCALE)
    return f"{ROOT}/runs/{study}/prepare/{PARAMS[study]['images']['dataset']}/data.safetensors"


def prepare_vision_settings(wildcards):
    """All training images are trained on, as in chapter 4 of zhu2022."""
    several = PARAMS[wildcards.study]["images"]["train_per_class"]
    return {
        "dataset": wildcards.dataset,
        "pretrain_per_class": several - 1,
        "fine_tune_per_class": 1,
        "pool_per_class": 1,
    }


def absent(value):
    """0 in params.yaml stands for: without."""
    return value or None


def vision_recipe(study, train, **own):
    """Settings of `classify` from a recipe of params.yaml; ``own`` goes over it."""
    merged = {**train, **own}
    folder = from_folder(study)
    recipe = {
        **{key: merged[key] for key in ("optimizer", "lr", "betas", "weight_decay", "batch_size", "epochs")},
        **{key: merged[key] for key in ("warmup_epochs", "label_smoothing", "test_images")},
        "momentum": merged.get("momentum", 0.9),
        "schedule": "cosine",
        "randaugment": (
            {"magnitude": merged["randaugment"], "spread": merged["randaugment_spread"], "operations": 2}
            if merged["randaugment"]
            else None
        ),
        **{key: absent(merged[key]) for key in ("mixup", "cutmix", "clip_norm")},
        "ema": absent(merged["average"]),
        "train_images": 0,
        "task": "folder" if folder else "images",
    }
    if folder:
        return {**recipe, "size": 224}
    return {**recipe, "crop_padding": merged["crop_padding"], "flip": merged["flip"]}


def modules_behind(network):
    """The modules that define a network (a name that timm knows)."""
    from relearn.models.vision import modules_of

    return modules_of(network)


def classify_modules(study, network):
    """The modules behind a run that trains ``network`` (a name that timm knows)."""
    task = "relearn.steps.tasks.folder" if from_folder(study) else "relearn.steps.tasks.images"
    return [task, *modules_behind(network)]
