# The whole DAG: what runs is in params.yaml, when it runs in workflow/rules, how in src/relearn.
from snakemake.utils import min_version

min_version("9.10")


configfile: "params.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/run.smk"
include: "workflow/rules/poisoning.smk"
include: "workflow/rules/gradinit.smk"
include: "workflow/rules/l2_attention.smk"
include: "workflow/rules/vision.smk"
include: "workflow/rules/lipsformer.smk"
include: "workflow/rules/layer_scale.smk"
include: "workflow/rules/lrformer.smk"
include: "workflow/rules/long_short.smk"
include: "workflow/rules/robustness.smk"
include: "workflow/rules/freelb.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/craft.smk"
include: "workflow/rules/filter.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/gradinit_data.smk"
include: "workflow/rules/prepare_vision.smk"
include: "workflow/rules/initialise.smk"
include: "workflow/rules/learn.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/characters.smk"
include: "workflow/rules/language.smk"
include: "workflow/rules/ascend.smk"
include: "workflow/rules/invert.smk"
include: "workflow/rules/examine.smk"
include: "workflow/rules/clock.smk"
include: "workflow/rules/count.smk"
include: "workflow/rules/classify.smk"
include: "workflow/rules/throughput.smk"
include: "workflow/rules/retest.smk"
include: "workflow/rules/uncertainty.smk"
include: "workflow/rules/sequences.smk"
include: "workflow/rules/understand.smk"
include: "workflow/rules/stream.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/adapt.smk"
include: "workflow/rules/cost.smk"
include: "workflow/rules/similarity.smk"
include: "workflow/rules/withstand.smk"
include: "workflow/rules/acquire.smk"
include: "workflow/rules/finetune.smk"
include: "workflow/rules/provoke.smk"
include: "workflow/rules/vote.smk"
include: "workflow/rules/contrast.smk"
include: "workflow/rules/render.smk"


rule all:
    default_target: True
    input:
        rules.render_all.input,
    localrule: True
