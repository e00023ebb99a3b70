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
        # Claims compare single predictions of two attentions only; of the others they count those of one seed.
        "train_lra": (
            *("history.csv", "listops/*/seed[1-9]*/predictions.csv"),
            *(
                f"{one}/seed[1-9]*/predictions.csv"
                for one in ("full", "long_short", "reformer", "performer", "nystromformer")
            ),
        ),
        "convert_roberta": ("history.csv",),
        "train_vision": ("history.csv",),
    },
)
