"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="gradinit",
    paper="zhu2022",
    title="Learned initialisation (GradInit)",
    chapter="chapter 4",
    steps={
        "prepare": "relearn.steps.prepare_images",
        "folder": "relearn.steps.list_imagenet",
        "corpus": "relearn.studies.gradinit.steps.prepare_translation",
        "initialise": "relearn.studies.gradinit.steps.initialise",
        "learn": "relearn.studies.gradinit.steps.train_from_init",
        "translate": "relearn.studies.gradinit.steps.train_translation",
        "probe": "relearn.studies.gradinit.steps.gradient_statistics",
    },
    figures={
        "heat_map": "relearn.studies.gradinit.figures.heat_map",
        "layer_profile": "relearn.studies.gradinit.figures.layer_profile",
        "learning_curves": "relearn.studies.gradinit.figures.learning_curves",
    },
)
