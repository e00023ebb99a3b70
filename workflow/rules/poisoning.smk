# The study `poisoning` (zhu2022, chapter 2). Its runs are defined in src/relearn/studies/poisoning/plan.
POISONING = plan_of("poisoning")


rule poisoning:
    input:
        records(POISONING),
    localrule: True


# The data set, verified, and its splits.
use rule run as poisoning_prepare_images with:
    output:
        **POISONING["prepare_images"].files,
    log:
        POISONING["prepare_images"].log,
    resources:
        **needs_of(POISONING["prepare_images"]),
    params:
        **words_of(POISONING["prepare_images"]),


# Halves of each class's pre-training images.
use rule run as poisoning_split_overlap with:
    input:
        **inputs_of(POISONING["split_overlap"]),
    output:
        **POISONING["split_overlap"].files,
    log:
        POISONING["split_overlap"].log,
    wildcard_constraints:
        **POISONING["split_overlap"].constraints,
    resources:
        **needs_of(POISONING["split_overlap"]),
    params:
        **words_of(POISONING["split_overlap"]),


# Every substitute and every victim, each with its own seed.
use rule run as poisoning_pretrain with:
    input:
        **inputs_of(POISONING["pretrain"]),
    output:
        **POISONING["pretrain"].files,
    log:
        POISONING["pretrain"].log,
    resources:
        **needs_of(POISONING["pretrain"]),
    params:
        **words_of(POISONING["pretrain"]),


# The adversarially trained victims, as a defence.
use rule run as poisoning_adversarial_training with:
    input:
        **inputs_of(POISONING["adversarial_training"]),
    output:
        **POISONING["adversarial_training"].files,
    log:
        POISONING["adversarial_training"].log,
    resources:
        **needs_of(POISONING["adversarial_training"]),
    params:
        **words_of(POISONING["adversarial_training"]),


# The poisons of each attack, for all targets, against all substitutes; also records the loss in watched victims.
use rule run as poisoning_craft with:
    input:
        **inputs_of(POISONING["craft"]),
    output:
        **POISONING["craft"].files,
    log:
        POISONING["craft"].log,
    resources:
        **needs_of(POISONING["craft"]),
    params:
        **words_of(POISONING["craft"]),


# The samples that each defence removes from the poisoned fine-tuning sets of each victim.
use rule run as poisoning_filter with:
    input:
        **inputs_of(POISONING["filter"]),
    output:
        **POISONING["filter"].files,
    log:
        POISONING["filter"].log,
    resources:
        **needs_of(POISONING["filter"]),
    params:
        **words_of(POISONING["filter"]),


# The victims, fine-tuned on poisoned sets, with or without filtering.
use rule run as poisoning_train with:
    input:
        **inputs_of(POISONING["train"]),
    output:
        **POISONING["train"].files,
    log:
        POISONING["train"].log,
    wildcard_constraints:
        **POISONING["train"].constraints,
    resources:
        **needs_of(POISONING["train"]),
    params:
        **words_of(POISONING["train"]),


# The victims, fine-tuned on clean sets; also stores features of the test images for other runs of the same network.
use rule run as poisoning_train_clean with:
    input:
        **inputs_of(POISONING["train_clean"]),
    output:
        **POISONING["train_clean"].files,
    log:
        POISONING["train_clean"].log,
    wildcard_constraints:
        **POISONING["train_clean"].constraints,
    resources:
        **needs_of(POISONING["train_clean"]),
    params:
        **words_of(POISONING["train_clean"]),


# The victims, with all layers trained on clean sets; no other run can use their features.
use rule run as poisoning_train_clean_end_to_end with:
    input:
        **inputs_of(POISONING["train_clean_end_to_end"]),
    output:
        **POISONING["train_clean_end_to_end"].files,
    log:
        POISONING["train_clean_end_to_end"].log,
    wildcard_constraints:
        **POISONING["train_clean_end_to_end"].constraints,
    resources:
        **needs_of(POISONING["train_clean_end_to_end"]),
    params:
        **words_of(POISONING["train_clean_end_to_end"]),


# Accuracy, calibration and robustness of every trained network.
use rule run as poisoning_evaluate_networks with:
    input:
        **inputs_of(POISONING["evaluate_networks"]),
    output:
        **POISONING["evaluate_networks"].files,
    log:
        POISONING["evaluate_networks"].log,
    resources:
        **needs_of(POISONING["evaluate_networks"]),
    params:
        **words_of(POISONING["evaluate_networks"]),


# One attack, shown in the plane of two classes' features.
use rule run as poisoning_feature_plane with:
    input:
        **inputs_of(POISONING["feature_plane"]),
    output:
        **POISONING["feature_plane"].files,
    log:
        POISONING["feature_plane"].log,
    resources:
        **needs_of(POISONING["feature_plane"]),
    params:
        **words_of(POISONING["feature_plane"]),


# Proposition 1, checked on random problems.
use rule run as poisoning_hull_proposition with:
    output:
        **POISONING["hull_proposition"].files,
    log:
        POISONING["hull_proposition"].log,
    resources:
        **needs_of(POISONING["hull_proposition"]),
    params:
        **words_of(POISONING["hull_proposition"]),


# The example in two dimensions.
use rule run as poisoning_toy_example with:
    output:
        **POISONING["toy_example"].files,
    log:
        POISONING["toy_example"].log,
    resources:
        **needs_of(POISONING["toy_example"]),
    params:
        **words_of(POISONING["toy_example"]),
