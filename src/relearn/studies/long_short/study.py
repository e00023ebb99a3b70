"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="long_short",
    paper="zhu2022",
    title="Long-short attention",
    chapter="chapter 5",
    steps={
        "prepare": "relearn.steps.prepare_images",
        "sequences": "relearn.studies.long_short.steps.prepare_lra",
        "understand": "relearn.studies.long_short.steps.train_lra",
        "stream": "relearn.studies.long_short.steps.prepare_char_stream",
        "predict": "relearn.studies.long_short.steps.train_long_char_lm",
        "cost": "relearn.studies.long_short.steps.benchmark_attention",
        "adapt": "relearn.studies.long_short.steps.convert_roberta",
        "count": "relearn.steps.count_params_flops",
        "classify": "relearn.steps.train_vision",
        "similarity": "relearn.studies.long_short.steps.patch_similarity",
        "throughput": "relearn.steps.throughput",
    },
    figures={
        "cost_curves": "relearn.studies.long_short.figures.cost_curves",
        "layer_similarity": "relearn.studies.long_short.figures.layer_similarity",
        "norm_ratios": "relearn.studies.long_short.figures.norm_ratios",
    },
)
