# The study `l2_attention` (kim2020). Its runs are defined in src/relearn/studies/l2_attention/plan.py.
L2_ATTENTION = plan_of("l2_attention")


rule l2_attention:
    input:
        records(L2_ATTENTION),
    localrule: True


# A text as characters, sentence by sentence.
use rule run as l2_attention_prepare_ptb_lines with:
    output:
        **L2_ATTENTION["prepare_ptb_lines"].files,
    log:
        L2_ATTENTION["prepare_ptb_lines"].log,
    resources:
        **needs_of(L2_ATTENTION["prepare_ptb_lines"]),
    params:
        **words_of(L2_ATTENTION["prepare_ptb_lines"]),


# Every recipe of a model, with one seed; the rule below trains the best one with every seed.
use rule run as l2_attention_tune_char_lm with:
    input:
        **inputs_of(L2_ATTENTION["tune_char_lm"]),
    output:
        **L2_ATTENTION["tune_char_lm"].files,
    log:
        L2_ATTENTION["tune_char_lm"].log,
    wildcard_constraints:
        **L2_ATTENTION["tune_char_lm"].constraints,
    resources:
        **needs_of(L2_ATTENTION["tune_char_lm"]),
    params:
        **words_of(L2_ATTENTION["tune_char_lm"]),


# Character language models, one per kind of attention, depth and schedule.
use rule run as l2_attention_train_char_lm with:
    input:
        **inputs_of(L2_ATTENTION["train_char_lm"]),
    output:
        **L2_ATTENTION["train_char_lm"].files,
    log:
        L2_ATTENTION["train_char_lm"].log,
    wildcard_constraints:
        **L2_ATTENTION["train_char_lm"].constraints,
    resources:
        **needs_of(L2_ATTENTION["train_char_lm"]),
    params:
        **words_of(L2_ATTENTION["train_char_lm"]),


# Lower bounds on Lipschitz constants by gradient ascent on the input (figures 2, 7 and 8).
use rule run as l2_attention_lipschitz_lower_bound with:
    input:
        **inputs_of(L2_ATTENTION["lipschitz_lower_bound"]),
    output:
        **L2_ATTENTION["lipschitz_lower_bound"].files,
    log:
        L2_ATTENTION["lipschitz_lower_bound"].log,
    wildcard_constraints:
        **L2_ATTENTION["lipschitz_lower_bound"].constraints,
    resources:
        **needs_of(L2_ATTENTION["lipschitz_lower_bound"]),
    params:
        **words_of(L2_ATTENTION["lipschitz_lower_bound"]),


# x + c f(x), inverted by fixed-point iteration (figures 3, 5 and 6).
use rule run as l2_attention_invert_residual with:
    input:
        **inputs_of(L2_ATTENTION["invert_residual"]),
    output:
        **L2_ATTENTION["invert_residual"].files,
    log:
        L2_ATTENTION["invert_residual"].log,
    wildcard_constraints:
        **L2_ATTENTION["invert_residual"].constraints,
    resources:
        **needs_of(L2_ATTENTION["invert_residual"]),
    params:
        **words_of(L2_ATTENTION["invert_residual"]),


# Theorems and their counter-examples, case by case.
use rule run as l2_attention_check_theorems with:
    output:
        **L2_ATTENTION["check_theorems"].files,
    log:
        L2_ATTENTION["check_theorems"].log,
    resources:
        **needs_of(L2_ATTENTION["check_theorems"]),
    params:
        **words_of(L2_ATTENTION["check_theorems"]),


# The distribution of an attention layer's inputs and outputs (figure 10).
use rule run as l2_attention_attention_outputs with:
    input:
        **inputs_of(L2_ATTENTION["attention_outputs"]),
    output:
        **L2_ATTENTION["attention_outputs"].files,
    log:
        L2_ATTENTION["attention_outputs"].log,
    wildcard_constraints:
        **L2_ATTENTION["attention_outputs"].constraints,
    resources:
        **needs_of(L2_ATTENTION["attention_outputs"]),
    params:
        **words_of(L2_ATTENTION["attention_outputs"]),


# The time of a training step of each attention, relative to the dot product (table 1).
use rule run as l2_attention_time_training_step with:
    input:
        **inputs_of(L2_ATTENTION["time_training_step"]),
    output:
        **L2_ATTENTION["time_training_step"].files,
    log:
        L2_ATTENTION["time_training_step"].log,
    wildcard_constraints:
        **L2_ATTENTION["time_training_step"].constraints,
    resources:
        **needs_of(L2_ATTENTION["time_training_step"]),
    params:
        **words_of(L2_ATTENTION["time_training_step"]),
