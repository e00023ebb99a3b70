# The study `gradinit` (zhu2022, chapter 4). Its runs are defined in src/relearn/studies/gradinit/plan.
GRADINIT = plan_of("gradinit")


rule gradinit:
    input:
        records(GRADINIT),
    localrule: True


# The images of the study, as one file.
use rule run as gradinit_prepare_images with:
    output:
        **GRADINIT["prepare_images"].files,
    log:
        GRADINIT["prepare_images"].log,
    resources:
        **needs_of(GRADINIT["prepare_images"]),
    params:
        **words_of(GRADINIT["prepare_images"]),


# A listing of ImageNet's folder, for every study that reads the images in place.
use rule run as gradinit_list_imagenet with:
    output:
        **GRADINIT["list_imagenet"].files,
    log:
        GRADINIT["list_imagenet"].log,
    wildcard_constraints:
        **GRADINIT["list_imagenet"].constraints,
    resources:
        **needs_of(GRADINIT["list_imagenet"]),
    params:
        **words_of(GRADINIT["list_imagenet"]),


# The corpus in byte-pair tokens.
use rule run as gradinit_prepare_translation with:
    output:
        **GRADINIT["prepare_translation"].files,
    log:
        GRADINIT["prepare_translation"].log,
    resources:
        **needs_of(GRADINIT["prepare_translation"]),
    params:
        **words_of(GRADINIT["prepare_translation"]),


# The initial weights of each image network, by each initialisation.
use rule run as gradinit_initialise with:
    input:
        **inputs_of(GRADINIT["initialise"]),
    output:
        **GRADINIT["initialise"].files,
    log:
        GRADINIT["initialise"].log,
    wildcard_constraints:
        **GRADINIT["initialise"].constraints,
    resources:
        **needs_of(GRADINIT["initialise"]),
    params:
        **words_of(GRADINIT["initialise"]),


# MetaInit's starts with several tau, from which each network takes its own.
use rule run as gradinit_tune_initialise with:
    input:
        **inputs_of(GRADINIT["tune_initialise"]),
    output:
        **GRADINIT["tune_initialise"].files,
    log:
        GRADINIT["tune_initialise"].log,
    resources:
        **needs_of(GRADINIT["tune_initialise"]),
    params:
        **words_of(GRADINIT["tune_initialise"]),


# The same on ImageNet.
use rule run as gradinit_initialise_imagenet with:
    input:
        **inputs_of(GRADINIT["initialise_imagenet"]),
    output:
        **GRADINIT["initialise_imagenet"].files,
    log:
        GRADINIT["initialise_imagenet"].log,
    wildcard_constraints:
        **GRADINIT["initialise_imagenet"].constraints,
    threads: GRADINIT["initialise_imagenet"].needs.threads
    resources:
        **needs_of(GRADINIT["initialise_imagenet"]),
    params:
        **words_of(GRADINIT["initialise_imagenet"]),


# The same for the Transformer.
use rule run as gradinit_initialise_translation with:
    input:
        **inputs_of(GRADINIT["initialise_translation"]),
    output:
        **GRADINIT["initialise_translation"].files,
    log:
        GRADINIT["initialise_translation"].log,
    resources:
        **needs_of(GRADINIT["initialise_translation"]),
    params:
        **words_of(GRADINIT["initialise_translation"]),


# The Transformer's starts with several tau, from which GradInit takes its own.
use rule run as gradinit_tune_initialise_translation with:
    input:
        **inputs_of(GRADINIT["tune_initialise_translation"]),
    output:
        **GRADINIT["tune_initialise_translation"].files,
    log:
        GRADINIT["tune_initialise_translation"].log,
    resources:
        **needs_of(GRADINIT["tune_initialise_translation"]),
    params:
        **words_of(GRADINIT["tune_initialise_translation"]),


# Each image network, trained from its initial weights and tested after every epoch.
use rule run as gradinit_train_from_init with:
    input:
        **inputs_of(GRADINIT["train_from_init"]),
    output:
        **GRADINIT["train_from_init"].files,
    log:
        GRADINIT["train_from_init"].log,
    wildcard_constraints:
        **GRADINIT["train_from_init"].constraints,
    resources:
        **needs_of(GRADINIT["train_from_init"]),
    params:
        **words_of(GRADINIT["train_from_init"]),


# The trainings that choose MetaInit's tau.
use rule run as gradinit_tune_train_from_init with:
    input:
        **inputs_of(GRADINIT["tune_train_from_init"]),
    output:
        **GRADINIT["tune_train_from_init"].files,
    log:
        GRADINIT["tune_train_from_init"].log,
    resources:
        **needs_of(GRADINIT["tune_train_from_init"]),
    params:
        **words_of(GRADINIT["tune_train_from_init"]),


# The same on ImageNet.
use rule run as gradinit_train_from_init_imagenet with:
    input:
        **inputs_of(GRADINIT["train_from_init_imagenet"]),
    output:
        **GRADINIT["train_from_init_imagenet"].files,
    log:
        GRADINIT["train_from_init_imagenet"].log,
    wildcard_constraints:
        **GRADINIT["train_from_init_imagenet"].constraints,
    threads: GRADINIT["train_from_init_imagenet"].needs.threads
    resources:
        **needs_of(GRADINIT["train_from_init_imagenet"]),
    params:
        **words_of(GRADINIT["train_from_init_imagenet"]),


# The Transformer, trained from its initial weights, and its BLEU.
use rule run as gradinit_train_translation with:
    input:
        **inputs_of(GRADINIT["train_translation"]),
    output:
        **GRADINIT["train_translation"].files,
    log:
        GRADINIT["train_translation"].log,
    resources:
        **needs_of(GRADINIT["train_translation"]),
    params:
        **words_of(GRADINIT["train_translation"]),


# The trainings that choose GradInit's tau and Admin's rate.
use rule run as gradinit_tune_train_translation with:
    input:
        **inputs_of(GRADINIT["tune_train_translation"]),
    output:
        **GRADINIT["tune_train_translation"].files,
    log:
        GRADINIT["tune_train_translation"].log,
    resources:
        **needs_of(GRADINIT["tune_train_translation"]),
    params:
        **words_of(GRADINIT["tune_train_translation"]),


# Mean and standard deviation of the gradient of each weight before training, on images.
use rule run as gradinit_gradient_statistics with:
    input:
        **inputs_of(GRADINIT["gradient_statistics"]),
    output:
        **GRADINIT["gradient_statistics"].files,
    log:
        GRADINIT["gradient_statistics"].log,
    wildcard_constraints:
        **GRADINIT["gradient_statistics"].constraints,
    resources:
        **needs_of(GRADINIT["gradient_statistics"]),
    params:
        **words_of(GRADINIT["gradient_statistics"]),


# The same on ImageNet.
use rule run as gradinit_gradient_statistics_imagenet with:
    input:
        **inputs_of(GRADINIT["gradient_statistics_imagenet"]),
    output:
        **GRADINIT["gradient_statistics_imagenet"].files,
    log:
        GRADINIT["gradient_statistics_imagenet"].log,
    wildcard_constraints:
        **GRADINIT["gradient_statistics_imagenet"].constraints,
    threads: GRADINIT["gradient_statistics_imagenet"].needs.threads
    resources:
        **needs_of(GRADINIT["gradient_statistics_imagenet"]),
    params:
        **words_of(GRADINIT["gradient_statistics_imagenet"]),


# The same for the Transformer.
use rule run as gradinit_gradient_statistics_translation with:
    input:
        **inputs_of(GRADINIT["gradient_statistics_translation"]),
    output:
        **GRADINIT["gradient_statistics_translation"].files,
    log:
        GRADINIT["gradient_statistics_translation"].log,
    resources:
        **needs_of(GRADINIT["gradient_statistics_translation"]),
    params:
        **words_of(GRADINIT["gradient_statistics_translation"]),


# The variance of the gradient through batch normalisation, compared with equations 4.5 to 4.7.
use rule run as gradinit_check_batch_norm with:
    output:
        **GRADINIT["check_batch_norm"].files,
    log:
        GRADINIT["check_batch_norm"].log,
    resources:
        **needs_of(GRADINIT["check_batch_norm"]),
    params:
        **words_of(GRADINIT["check_batch_norm"]),


# The parameter counts of tables 4.4 and 4.5.
use rule run as gradinit_count_params with:
    output:
        **GRADINIT["count_params"].files,
    log:
        GRADINIT["count_params"].log,
    resources:
        **needs_of(GRADINIT["count_params"]),
    params:
        **words_of(GRADINIT["count_params"]),
