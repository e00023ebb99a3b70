# The whole DAG: what runs is in params.yaml, when it runs in workflow/rules, how in src/relearn.
from snakemake.utils import min_version

min_version("9.10")


configfile: "params.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/run.smk"
include: "workflow/rules/poisoning.smk"
include: "workflow/rules/gradinit.smk"
include: "workflow/rules/l2_attention.smk"
include: "workflow/rules/lipsformer.smk"
include: "workflow/rules/layer_scale.smk"
include: "workflow/rules/lrformer.smk"
include: "workflow/rules/long_short.smk"
include: "workflow/rules/robustness.smk"
include: "workflow/rules/freelb.smk"
include: "workflow/rules/render.smk"


rule all:
    default_target: True
    input:
        rules.render_all.input,
        RECORDS,
    localrule: True
