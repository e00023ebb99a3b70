"""Definition of the study: its publication, steps and figures."""

from relearn.studies.study import Study, figures_of, steps_of

STUDY = Study(
    name="poisoning",
    paper="zhu2022",
    title="Data poisoning and Deep k-NN",
    chapter="chapter 2",
    steps=steps_of(
        "poisoning",
        *("prepare_images", "split_overlap", "pretrain", "adversarial_training", "craft", "filter"),
        *("train", "evaluate_networks", "feature_plane", "hull_proposition", "toy_example"),
    ),
    figures=figures_of(
        "poisoning", "bars", "curves", "defended", "knn_sweep", "plane", "poisons", "qualitative", "toy"
    ),
)
