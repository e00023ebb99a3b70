"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study, figures_of, steps_of

STUDY = Study(
    name="lrformer",
    paper="ye2023",
    title="Lipschitz-regularised attention and calibration (LRFormer)",
    chapter="",
    steps=steps_of("lrformer", "prepare_images", "check_theorems", "train_vision", "evaluate_uncertainty"),
    figures=figures_of("lrformer", "entropy_distance", "entropy_histograms", "reliability"),
)
