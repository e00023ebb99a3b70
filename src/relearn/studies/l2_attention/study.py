"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="l2_attention",
    paper="kim2020",
    title="The Lipschitz constant of self-attention",
    chapter="",
    steps={
        "prepare_ptb_lines": "relearn.studies.l2_attention.steps.prepare_ptb_lines",
        "train_char_lm": "relearn.studies.l2_attention.steps.train_char_lm",
        "lipschitz_lower_bound": "relearn.studies.l2_attention.steps.lipschitz_lower_bound",
        "invert_residual": "relearn.studies.l2_attention.steps.invert_residual",
        "check_theorems": "relearn.studies.l2_attention.steps.check_theorems",
        "attention_outputs": "relearn.studies.l2_attention.steps.attention_outputs",
        "time_training_step": "relearn.studies.l2_attention.steps.time_training_step",
    },
    figures={
        "ascent_curves": "relearn.studies.l2_attention.figures.ascent_curves",
        "histograms": "relearn.studies.l2_attention.figures.histograms",
        "inversion_errors": "relearn.studies.l2_attention.figures.inversion_errors",
        "lipschitz_bounds": "relearn.studies.l2_attention.figures.lipschitz_bounds",
        "nll_curves": "relearn.studies.l2_attention.figures.nll_curves",
    },
)
