# Targets requested by name (`snakemake --cores all table2.2`, `relearn list`): their runs, then a table, figure, verdict or report.
from relearn.cli import targets as named_targets

NAMED = {name: one for name, one in named_targets.with_whole_ids().items() if one.kind != "studies"}


for name, target in NAMED.items():

    rule:
        name:
            name
        input:
            lambda wildcards, target=target: named_targets.records(target, PLANS)[0],
        log:
            f"{ROOT}/logs/targets/{name.replace(':', '_')}.log",
        conda:
            ENVIRONMENT
        threads: 1
        resources:
            mem_mb=4000,
            runtime=15,
            gpu=0,
        params:
            name=target.name,
            scale=SCALE,
        shell:
            "relearn show {params.name} --scale {params.scale} > {log:q} 2>&1"
