# The whole DAG: params.yaml defines what runs, workflow/rules defines the dependencies, src/relearn has the code.
from snakemake.utils import min_version

from relearn.studies import STUDIES

min_version("9.10")


configfile: "params.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/run.smk"
include: "workflow/rules/render.smk"
include: "workflow/rules/targets.smk"


rule all:
    default_target: True
    input:
        rules.render_all.input,
        *RECORDS.values(),
    localrule: True
