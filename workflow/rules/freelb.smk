# The study `freelb` (zhu2022, chapter 3). Its runs are defined in src/relearn/studies/freelb/plan.
FREELB = plan_of("freelb")


rule freelb:
    input:
        records(FREELB),
    localrule: True


# The images, as one file.
use rule run as freelb_prepare_images with:
    output:
        **FREELB["prepare_images"].files,
    log:
        FREELB["prepare_images"].log,
    resources:
        **needs_of(FREELB["prepare_images"]),
    params:
        **words_of(FREELB["prepare_images"]),


# An encoder and its tokenizer, trained from texts by masked language modelling if no checkpoint is named.
use rule run as freelb_pretrain_encoder with:
    output:
        **FREELB["pretrain_encoder"].files,
    log:
        FREELB["pretrain_encoder"].log,
    resources:
        **needs_of(FREELB["pretrain_encoder"]),
    params:
        **words_of(FREELB["pretrain_encoder"]),


# An encoder fine-tuned on a task, without or with adversarial gradients (tables 3.1 to 3.7).
use rule run as freelb_finetune with:
    input:
        **inputs_of(FREELB["finetune"]),
    output:
        **FREELB["finetune"].files,
    log:
        FREELB["finetune"].log,
    wildcard_constraints:
        **FREELB["finetune"].constraints,
    resources:
        **needs_of(FREELB["finetune"]),
    params:
        **words_of(FREELB["finetune"]),


# The same fine-tuning at several rates and radii, from which each method of a decisive task takes its own.
use rule run as freelb_tune_finetune with:
    input:
        **inputs_of(FREELB["tune_finetune"]),
    output:
        **FREELB["tune_finetune"].files,
    log:
        FREELB["tune_finetune"].log,
    wildcard_constraints:
        **FREELB["tune_finetune"].constraints,
    resources:
        **needs_of(FREELB["tune_finetune"]),
    params:
        **words_of(FREELB["tune_finetune"]),


# Fine-tunings with further seeds, for ensembles with more members than the tables have seeds (table 3.2).
use rule run as freelb_finetune_glue_members with:
    input:
        **inputs_of(FREELB["finetune_glue_members"]),
    output:
        **FREELB["finetune_glue_members"].files,
    log:
        FREELB["finetune_glue_members"].log,
    wildcard_constraints:
        **FREELB["finetune_glue_members"].constraints,
    resources:
        **needs_of(FREELB["finetune_glue_members"]),
    params:
        **words_of(FREELB["finetune_glue_members"]),


# The same for CommonsenseQA, which uses larger ensembles (table 3.3).
use rule run as freelb_finetune_csqa_members with:
    input:
        **inputs_of(FREELB["finetune_csqa_members"]),
    output:
        **FREELB["finetune_csqa_members"].files,
    log:
        FREELB["finetune_csqa_members"].log,
    wildcard_constraints:
        **FREELB["finetune_csqa_members"].constraints,
    resources:
        **needs_of(FREELB["finetune_csqa_members"]),
    params:
        **words_of(FREELB["finetune_csqa_members"]),


# The maximal increase of the loss near each sample, for networks trained with three methods (equation 3.5, table 3.5).
use rule run as freelb_max_loss_increase with:
    input:
        **inputs_of(FREELB["max_loss_increase"]),
    output:
        **FREELB["max_loss_increase"].files,
    log:
        FREELB["max_loss_increase"].log,
    wildcard_constraints:
        **FREELB["max_loss_increase"].constraints,
    resources:
        **needs_of(FREELB["max_loss_increase"]),
    params:
        **words_of(FREELB["max_loss_increase"]),


# The combined predictions of all fine-tunings of a method, and the submission to the benchmark (table 3.2).
use rule run as freelb_ensemble with:
    input:
        **inputs_of(FREELB["ensemble"]),
    output:
        **FREELB["ensemble"].files,
    log:
        FREELB["ensemble"].log,
    wildcard_constraints:
        **FREELB["ensemble"].constraints,
    resources:
        **needs_of(FREELB["ensemble"]),
    params:
        **words_of(FREELB["ensemble"]),


# The accuracy on ARC-Easy and ARC-Challenge combined (table 3.3, ARC-Merge).
use rule run as freelb_merge_scores with:
    input:
        **inputs_of(FREELB["merge_scores"]),
    output:
        **FREELB["merge_scores"].files,
    log:
        FREELB["merge_scores"].log,
    wildcard_constraints:
        **FREELB["merge_scores"].constraints,
    resources:
        **needs_of(FREELB["merge_scores"]),
    params:
        **words_of(FREELB["merge_scores"]),


# Image networks trained without and with adversarial gradients; their clean and robust accuracy.
use rule run as freelb_train_images_adversarially with:
    input:
        **inputs_of(FREELB["train_images_adversarially"]),
    output:
        **FREELB["train_images_adversarially"].files,
    log:
        FREELB["train_images_adversarially"].log,
    wildcard_constraints:
        **FREELB["train_images_adversarially"].constraints,
    resources:
        **needs_of(FREELB["train_images_adversarially"]),
    params:
        **words_of(FREELB["train_images_adversarially"]),


# FreeLB's gradient compared with the gradient of the K-fold virtual batch (algorithm 3).
use rule run as freelb_check_gradient with:
    output:
        **FREELB["check_gradient"].files,
    log:
        FREELB["check_gradient"].log,
    resources:
        **needs_of(FREELB["check_gradient"]),
    params:
        **words_of(FREELB["check_gradient"]),
