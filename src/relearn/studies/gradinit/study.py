"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="gradinit",
    paper="zhu2022",
    title="Learned initialisation (GradInit)",
    chapter="chapter 4",
    steps={
        "prepare_images": "relearn.steps.prepare_images",
        "list_imagenet": "relearn.steps.list_imagenet",
        "prepare_translation": "relearn.studies.gradinit.steps.prepare_translation",
        "initialise": "relearn.studies.gradinit.steps.initialise",
        "train_from_init": "relearn.studies.gradinit.steps.train_from_init",
        "train_translation": "relearn.studies.gradinit.steps.train_translation",
        "gradient_statistics": "relearn.studies.gradinit.steps.gradient_statistics",
        "check_batch_norm": "relearn.studies.gradinit.steps.check_batch_norm",
        "count_params": "relearn.studies.gradinit.steps.count_params",
    },
    figures={
        "heat_map": "relearn.studies.gradinit.figures.heat_map",
        "layer_profile": "relearn.studies.gradinit.figures.layer_profile",
        "learning_curves": "relearn.studies.gradinit.figures.learning_curves",
    },
)
