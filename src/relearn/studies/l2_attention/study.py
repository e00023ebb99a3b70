"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study, figures_of, steps_of

STUDY = Study(
    name="l2_attention",
    paper="kim2020",
    title="The Lipschitz constant of self-attention",
    chapter="",
    steps=steps_of(
        "l2_attention",
        *("prepare_ptb_lines", "train_char_lm", "lipschitz_lower_bound", "invert_residual"),
        *("check_theorems", "attention_outputs", "time_training_step"),
    ),
    figures=figures_of(
        "l2_attention", "ascent_curves", "histograms", "inversion_errors", "lipschitz_bounds", "nll_curves"
    ),
)
