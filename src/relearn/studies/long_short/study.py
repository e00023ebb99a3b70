"""Definition of the study: its publication, steps and figures."""

from relearn.studies.study import Study, figures_of, steps_of

STUDY = Study(
    name="long_short",
    paper="zhu2022",
    title="Long-short attention",
    chapter="chapter 5",
    steps=steps_of(
        "long_short",
        *("prepare_images", "prepare_lra", "train_lra", "prepare_char_stream", "train_long_char_lm"),
        *("initial_norms", "benchmark_attention", "convert_roberta", "count_params_flops"),
        *("train_vision", "patch_similarity", "throughput"),
    ),
    figures=figures_of("long_short", "cost_curves", "layer_similarity", "norm_ratios"),
    unpublished={
        "train_lra": ("history.csv",),
        "convert_roberta": ("history.csv",),
        "train_vision": ("history.csv",),
    },
)
