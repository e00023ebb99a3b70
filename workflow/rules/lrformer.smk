# The study `lrformer` (ye2023). Its runs are defined in src/relearn/studies/lrformer/plan.py.
LRFORMER = plan_of("lrformer")


rule lrformer:
    input:
        records(LRFORMER),
    localrule: True


# The images, as one file.
use rule run as lrformer_prepare_images with:
    output:
        **LRFORMER["prepare_images"].files,
    log:
        LRFORMER["prepare_images"].log,
    resources:
        **needs_of(LRFORMER["prepare_images"]),
    params:
        **words_of(LRFORMER["prepare_images"]),


# Bounds of LayerNorm and of Lipschitz-regularised attention, case by case.
use rule run as lrformer_check_theorems with:
    output:
        **LRFORMER["check_theorems"].files,
    log:
        LRFORMER["check_theorems"].log,
    resources:
        **needs_of(LRFORMER["check_theorems"]),
    params:
        **words_of(LRFORMER["check_theorems"]),


# Networks pre-trained on ImageNet's folder.
use rule run as lrformer_pretrain_vision with:
    input:
        **inputs_of(LRFORMER["pretrain_vision"]),
    output:
        **LRFORMER["pretrain_vision"].files,
    log:
        LRFORMER["pretrain_vision"].log,
    threads: LRFORMER["pretrain_vision"].needs.threads
    resources:
        **needs_of(LRFORMER["pretrain_vision"]),
    params:
        **words_of(LRFORMER["pretrain_vision"]),


# Each network, trained on the images; its branches are measured before and after training.
use rule run as lrformer_train_vision with:
    input:
        **inputs_of(LRFORMER["train_vision"]),
    output:
        **LRFORMER["train_vision"].files,
    log:
        LRFORMER["train_vision"].log,
    wildcard_constraints:
        **LRFORMER["train_vision"].constraints,
    threads: LRFORMER["train_vision"].needs.threads
    resources:
        **needs_of(LRFORMER["train_vision"]),
    params:
        **words_of(LRFORMER["train_vision"]),


# Calibration, and detection of out-of-distribution images.
use rule run as lrformer_evaluate_uncertainty with:
    input:
        **inputs_of(LRFORMER["evaluate_uncertainty"]),
    output:
        **LRFORMER["evaluate_uncertainty"].files,
    log:
        LRFORMER["evaluate_uncertainty"].log,
    wildcard_constraints:
        **LRFORMER["evaluate_uncertainty"].constraints,
    resources:
        **needs_of(LRFORMER["evaluate_uncertainty"]),
    params:
        **words_of(LRFORMER["evaluate_uncertainty"]),
