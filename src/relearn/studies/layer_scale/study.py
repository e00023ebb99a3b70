"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="layer_scale",
    paper="touvron2021",
    title="Deep vision Transformers: LayerScale and class attention",
    chapter="",
    steps={
        "prepare_images": "relearn.steps.prepare_images",
        "train_vision": "relearn.steps.train_vision",
    },
    figures={
        "branch_ratios": "relearn.studies.layer_scale.figures.branch_ratios",
        "by_depth": "relearn.studies.layer_scale.figures.by_depth",
    },
)
