# The whole DAG: what runs is in params.yaml, when it runs in workflow/rules, how in src/relearn.
from snakemake.utils import min_version

min_version("9.10")


configfile: "params.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/poisoning.smk"
include: "workflow/rules/gradinit.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/craft.smk"
include: "workflow/rules/filter.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/gradinit_data.smk"
include: "workflow/rules/initialise.smk"
include: "workflow/rules/learn.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/render.smk"


rule all:
    default_target: True
    input:
        rules.render_all.input,
    localrule: True
