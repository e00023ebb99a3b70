# The study `lipsformer` (qi2023). Its runs are defined in src/relearn/studies/lipsformer/plan.py.
LIPSFORMER = plan_of("lipsformer")


rule lipsformer:
    input:
        records(LIPSFORMER),
    localrule: True


# The images, as one file.
use rule run as lipsformer_prepare_images with:
    output:
        **LIPSFORMER["prepare_images"].files,
    log:
        LIPSFORMER["prepare_images"].log,
    resources:
        **needs_of(LIPSFORMER["prepare_images"]),
    params:
        **words_of(LIPSFORMER["prepare_images"]),


# Parameters and multiply-adds of networks at their published sizes (tables 2, 4, 5 and 7).
use rule run as lipsformer_count_params_flops with:
    output:
        **LIPSFORMER["count_params_flops"].files,
    log:
        LIPSFORMER["count_params_flops"].log,
    resources:
        **needs_of(LIPSFORMER["count_params_flops"]),
    params:
        **words_of(LIPSFORMER["count_params_flops"]),


# Theorems 1 and 2 and the spectral initialisation, case by case.
use rule run as lipsformer_check_theorems with:
    output:
        **LIPSFORMER["check_theorems"].files,
    log:
        LIPSFORMER["check_theorems"].log,
    wildcard_constraints:
        **LIPSFORMER["check_theorems"].constraints,
    resources:
        **needs_of(LIPSFORMER["check_theorems"]),
    params:
        **words_of(LIPSFORMER["check_theorems"]),


# The activations and their slopes (figure 2).
use rule run as lipsformer_check_activations with:
    output:
        **LIPSFORMER["check_activations"].files,
    log:
        LIPSFORMER["check_activations"].log,
    resources:
        **needs_of(LIPSFORMER["check_activations"]),
    params:
        **words_of(LIPSFORMER["check_activations"]),


# Each network, trained on the images; its branches are measured before and after training.
use rule run as lipsformer_train_vision with:
    input:
        **inputs_of(LIPSFORMER["train_vision"]),
    output:
        **LIPSFORMER["train_vision"].files,
    log:
        LIPSFORMER["train_vision"].log,
    wildcard_constraints:
        **LIPSFORMER["train_vision"].constraints,
    threads: LIPSFORMER["train_vision"].needs.threads
    resources:
        **needs_of(LIPSFORMER["train_vision"]),
    params:
        **words_of(LIPSFORMER["train_vision"]),


# Images per second and peak memory, compared with timm's Swin (appendix D).
use rule run as lipsformer_throughput with:
    output:
        **LIPSFORMER["throughput"].files,
    log:
        LIPSFORMER["throughput"].log,
    resources:
        **needs_of(LIPSFORMER["throughput"]),
    params:
        **words_of(LIPSFORMER["throughput"]),


# Trained networks tested on ImageNet's validation images, with the labels of ReaL, and on ImageNet-V2 (table 8).
use rule run as lipsformer_evaluate_imagenet with:
    input:
        **inputs_of(LIPSFORMER["evaluate_imagenet"]),
    output:
        **LIPSFORMER["evaluate_imagenet"].files,
    log:
        LIPSFORMER["evaluate_imagenet"].log,
    threads: LIPSFORMER["evaluate_imagenet"].needs.threads
    resources:
        **needs_of(LIPSFORMER["evaluate_imagenet"]),
    params:
        **words_of(LIPSFORMER["evaluate_imagenet"]),
