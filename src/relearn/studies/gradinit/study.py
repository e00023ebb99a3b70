"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study, figures_of, steps_of

STUDY = Study(
    name="gradinit",
    paper="zhu2022",
    title="Learned initialisation (GradInit)",
    chapter="chapter 4",
    steps=steps_of(
        "gradinit",
        *("prepare_images", "list_imagenet", "prepare_translation", "initialise", "train_from_init"),
        *("train_translation", "gradient_statistics", "check_batch_norm", "count_params"),
    ),
    figures=figures_of("gradinit", "heat_map", "layer_profile", "learning_curves"),
    unpublished={"initialise": ("history.csv",)},
)
