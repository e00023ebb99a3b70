"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study, figures_of, steps_of

STUDY = Study(
    name="layer_scale",
    paper="touvron2021",
    title="Deep vision Transformers: LayerScale and class attention",
    chapter="",
    steps=steps_of("layer_scale", "prepare_images", "train_vision"),
    figures=figures_of("layer_scale", "branch_ratios", "by_depth"),
    unpublished={
        "train_vision": (
            *("history.csv", "alphas.csv", "drop_path/*/*/*/layers.csv", "class_token/*/*/*/layers.csv"),
            *("given_rate/*/*/*/*/layers.csv", "residual/*/depth12/*/layers.csv"),
            # The figure shows the deepest networks: 24 blocks at mini (one seed), 36 at small.
            "residual/*/depth24/seed[1-9]*/layers.csv",
            *("xavier_layer_scale/*/*/layers.csv", "post_norm/*/*/layers.csv"),
            *("rezero*/*/*/layers.csv", "skip_init/*/*/layers.csv"),
            *("fixup*/*/*/layers.csv", "t_fixup*/*/*/layers.csv"),
        )
    },
)
