"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study, figures_of, steps_of

STUDY = Study(
    name="lipsformer",
    paper="qi2023",
    title="Lipschitz-continuous vision Transformers (LipsFormer)",
    chapter="",
    steps=steps_of(
        "lipsformer",
        *("prepare_images", "check_theorems", "count_params_flops", "train_vision", "throughput"),
        *("train_constrained", "evaluate_imagenet"),
    ),
    figures=figures_of("lipsformer", "activations", "alphas", "training_curves"),
    unpublished={"train_vision": ("layers.csv",)},
)
