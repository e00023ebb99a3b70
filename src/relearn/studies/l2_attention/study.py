"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="l2_attention",
    paper="kim2020",
    title="The Lipschitz constant of self-attention",
    chapter="",
    steps={
        "characters": "relearn.studies.l2_attention.steps.prepare_ptb_lines",
        "language": "relearn.studies.l2_attention.steps.train_char_lm",
        "ascend": "relearn.studies.l2_attention.steps.lipschitz_lower_bound",
        "invert": "relearn.studies.l2_attention.steps.invert_residual",
        "examine": "relearn.steps.check_theorems",
        "clock": "relearn.studies.l2_attention.steps.time_training_step",
    },
    figures={
        "ascent_curves": "relearn.studies.l2_attention.figures.ascent_curves",
        "histograms": "relearn.studies.l2_attention.figures.histograms",
        "inversion_errors": "relearn.studies.l2_attention.figures.inversion_errors",
        "lipschitz_bounds": "relearn.studies.l2_attention.figures.lipschitz_bounds",
        "nll_curves": "relearn.studies.l2_attention.figures.nll_curves",
    },
)
