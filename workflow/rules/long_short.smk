# The study `long_short` (zhu2022, chapter 5). Its runs are defined in src/relearn/studies/long_short/plan.py.
LONG_SHORT = plan_of("long_short")


rule long_short:
    input:
        records(LONG_SHORT),
    localrule: True


# The tasks of the Long Range Arena, loaded or generated (zhu2022, section 5.3.1).
use rule run as long_short_prepare_lra with:
    output:
        **LONG_SHORT["prepare_lra"].files,
    log:
        LONG_SHORT["prepare_lra"].log,
    wildcard_constraints:
        **LONG_SHORT["prepare_lra"].constraints,
    resources:
        **needs_of(LONG_SHORT["prepare_lra"]),
    params:
        **words_of(LONG_SHORT["prepare_lra"]),


# An encoder with each attention, trained on each task (zhu2022, tables 5.1 to 5.3, 5.5).
use rule run as long_short_train_lra with:
    input:
        **inputs_of(LONG_SHORT["train_lra"]),
    output:
        **LONG_SHORT["train_lra"].files,
    log:
        LONG_SHORT["train_lra"].log,
    wildcard_constraints:
        **LONG_SHORT["train_lra"].constraints,
    resources:
        **needs_of(LONG_SHORT["train_lra"]),
    params:
        **words_of(LONG_SHORT["train_lra"]),


# Time and memory as functions of the length (zhu2022, figure 5.5).
use rule run as long_short_benchmark_attention_curve with:
    output:
        **LONG_SHORT["benchmark_attention_curve"].files,
    log:
        LONG_SHORT["benchmark_attention_curve"].log,
    wildcard_constraints:
        **LONG_SHORT["benchmark_attention_curve"].constraints,
    resources:
        **needs_of(LONG_SHORT["benchmark_attention_curve"]),
    params:
        **words_of(LONG_SHORT["benchmark_attention_curve"]),


# Seconds per batch of each attention (zhu2022, table 5.6).
use rule run as long_short_benchmark_attention_latency with:
    output:
        **LONG_SHORT["benchmark_attention_latency"].files,
    log:
        LONG_SHORT["benchmark_attention_latency"].log,
    wildcard_constraints:
        **LONG_SHORT["benchmark_attention_latency"].constraints,
    resources:
        **needs_of(LONG_SHORT["benchmark_attention_latency"]),
    params:
        **words_of(LONG_SHORT["benchmark_attention_latency"]),


# A text as one stream of characters, split into three parts (zhu2022, section 5.3.2).
use rule run as long_short_prepare_char_stream with:
    output:
        **LONG_SHORT["prepare_char_stream"].files,
    log:
        LONG_SHORT["prepare_char_stream"].log,
    wildcard_constraints:
        **LONG_SHORT["prepare_char_stream"].constraints,
    resources:
        **needs_of(LONG_SHORT["prepare_char_stream"]),
    params:
        **words_of(LONG_SHORT["prepare_char_stream"]),


# The character model, trained in phases of growing length (zhu2022, table 5.7, figure 5.3).
use rule run as long_short_train_long_char_lm with:
    input:
        **inputs_of(LONG_SHORT["train_long_char_lm"]),
    output:
        **LONG_SHORT["train_long_char_lm"].files,
    log:
        LONG_SHORT["train_long_char_lm"].log,
    wildcard_constraints:
        **LONG_SHORT["train_long_char_lm"].constraints,
    resources:
        **needs_of(LONG_SHORT["train_long_char_lm"]),
    params:
        **words_of(LONG_SHORT["train_long_char_lm"]),


# Norms of the published character model before training (zhu2022, figure 5.3 left).
use rule run as long_short_initial_norms with:
    input:
        **inputs_of(LONG_SHORT["initial_norms"]),
    output:
        **LONG_SHORT["initial_norms"].files,
    log:
        LONG_SHORT["initial_norms"].log,
    wildcard_constraints:
        **LONG_SHORT["initial_norms"].constraints,
    resources:
        **needs_of(LONG_SHORT["initial_norms"]),
    params:
        **words_of(LONG_SHORT["initial_norms"]),


# A pretrained encoder: converted to long-short attention, trained further and fine-tuned (zhu2022, table 5.4).
use rule run as long_short_convert_roberta with:
    output:
        **LONG_SHORT["convert_roberta"].files,
    log:
        LONG_SHORT["convert_roberta"].log,
    resources:
        **needs_of(LONG_SHORT["convert_roberta"]),
    params:
        **words_of(LONG_SHORT["convert_roberta"]),


# The images, as one file.
use rule run as long_short_prepare_images with:
    output:
        **LONG_SHORT["prepare_images"].files,
    log:
        LONG_SHORT["prepare_images"].log,
    resources:
        **needs_of(LONG_SHORT["prepare_images"]),
    params:
        **words_of(LONG_SHORT["prepare_images"]),


# Each image network, trained; its branches are measured before and after training (zhu2022, tables 5.8 and 5.9).
use rule run as long_short_train_vision with:
    input:
        **inputs_of(LONG_SHORT["train_vision"]),
    output:
        **LONG_SHORT["train_vision"].files,
    log:
        LONG_SHORT["train_vision"].log,
    threads: LONG_SHORT["train_vision"].needs.threads
    resources:
        **needs_of(LONG_SHORT["train_vision"]),
    params:
        **words_of(LONG_SHORT["train_vision"]),


# The similarity of patch embeddings, layer by layer (zhu2022, figure 5.6).
use rule run as long_short_patch_similarity with:
    input:
        **inputs_of(LONG_SHORT["patch_similarity"]),
    output:
        **LONG_SHORT["patch_similarity"].files,
    log:
        LONG_SHORT["patch_similarity"].log,
    resources:
        **needs_of(LONG_SHORT["patch_similarity"]),
    params:
        **words_of(LONG_SHORT["patch_similarity"]),


# Images per second, compared with another network (zhu2022, table 5.8).
use rule run as long_short_throughput with:
    output:
        **LONG_SHORT["throughput"].files,
    log:
        LONG_SHORT["throughput"].log,
    resources:
        **needs_of(LONG_SHORT["throughput"]),
    params:
        **words_of(LONG_SHORT["throughput"]),


# Parameters and multiply-adds of networks at their published sizes (zhu2022, tables 5.1, 5.7 and 5.8).
use rule run as long_short_count_params_flops with:
    output:
        **LONG_SHORT["count_params_flops"].files,
    log:
        LONG_SHORT["count_params_flops"].log,
    wildcard_constraints:
        **LONG_SHORT["count_params_flops"].constraints,
    resources:
        **needs_of(LONG_SHORT["count_params_flops"]),
    params:
        **words_of(LONG_SHORT["count_params_flops"]),
