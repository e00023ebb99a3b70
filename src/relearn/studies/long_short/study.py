"""Definition of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="long_short",
    paper="zhu2022",
    title="Long-short attention",
    chapter="chapter 5",
    steps={
        "prepare_images": "relearn.steps.prepare_images",
        "prepare_lra": "relearn.studies.long_short.steps.prepare_lra",
        "train_lra": "relearn.studies.long_short.steps.train_lra",
        "prepare_char_stream": "relearn.studies.long_short.steps.prepare_char_stream",
        "train_long_char_lm": "relearn.studies.long_short.steps.train_long_char_lm",
        "initial_norms": "relearn.studies.long_short.steps.initial_norms",
        "benchmark_attention": "relearn.studies.long_short.steps.benchmark_attention",
        "convert_roberta": "relearn.studies.long_short.steps.convert_roberta",
        "count_params_flops": "relearn.studies.long_short.steps.count_params_flops",
        "train_vision": "relearn.steps.train_vision",
        "patch_similarity": "relearn.studies.long_short.steps.patch_similarity",
        "throughput": "relearn.steps.throughput",
    },
    figures={
        "cost_curves": "relearn.studies.long_short.figures.cost_curves",
        "layer_similarity": "relearn.studies.long_short.figures.layer_similarity",
        "norm_ratios": "relearn.studies.long_short.figures.norm_ratios",
    },
)
