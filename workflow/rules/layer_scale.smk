# The study `layer_scale` (touvron2021): which runs there are is in src/relearn/studies/layer_scale/plan.py.
LAYER_SCALE = plan_of("layer_scale")


rule layer_scale:
    input:
        records(LAYER_SCALE),
    localrule: True


# The images, as one file.
use rule run as layer_scale_prepare_images with:
    output:
        **LAYER_SCALE["prepare_images"].files,
    log:
        LAYER_SCALE["prepare_images"].log,
    resources:
        **needs_of(LAYER_SCALE["prepare_images"]),
    params:
        **words_of(LAYER_SCALE["prepare_images"]),


# Shorter trainings at several learning rates, tested on held-out training images.
use rule run as layer_scale_tune_vision with:
    input:
        **inputs_of(LAYER_SCALE["tune_vision"]),
    output:
        **LAYER_SCALE["tune_vision"].files,
    log:
        LAYER_SCALE["tune_vision"].log,
    wildcard_constraints:
        **LAYER_SCALE["tune_vision"].constraints,
    threads: LAYER_SCALE["tune_vision"].needs.threads
    resources:
        **needs_of(LAYER_SCALE["tune_vision"]),
    params:
        **words_of(LAYER_SCALE["tune_vision"]),


# Each network, trained on the images and measured before and after.
use rule run as layer_scale_train_vision with:
    input:
        **inputs_of(LAYER_SCALE["train_vision"]),
    output:
        **LAYER_SCALE["train_vision"].files,
    log:
        LAYER_SCALE["train_vision"].log,
    wildcard_constraints:
        **LAYER_SCALE["train_vision"].constraints,
    threads: LAYER_SCALE["train_vision"].needs.threads
    resources:
        **needs_of(LAYER_SCALE["train_vision"]),
    params:
        **words_of(LAYER_SCALE["train_vision"]),


# Trainings at a rate that is given instead of chosen.
use rule run as layer_scale_train_at_given_rate with:
    input:
        **inputs_of(LAYER_SCALE["train_at_given_rate"]),
    output:
        **LAYER_SCALE["train_at_given_rate"].files,
    log:
        LAYER_SCALE["train_at_given_rate"].log,
    wildcard_constraints:
        **LAYER_SCALE["train_at_given_rate"].constraints,
    threads: LAYER_SCALE["train_at_given_rate"].needs.threads
    resources:
        **needs_of(LAYER_SCALE["train_at_given_rate"]),
    params:
        **words_of(LAYER_SCALE["train_at_given_rate"]),
