# The rules of every study: the target `<study>`, and a rule `<study>_<family>` for each family of runs in its plan.
# A job is stale when its settings, code version, labels, seed or inputs change. Device, precision and threads describe the
# machine and not the run, so they are resources, which never make a job stale.
PLANS = {study: plan_of(study) for study in STUDIES}
RECORDS = {study: records(plan) for study, plan in PLANS.items()}


for study, plan in PLANS.items():

    rule:
        name:
            study
        input:
            RECORDS[study],
        localrule: True

    for key, family in plan.items():

        rule:
            name:
                f"{study}_{key}"
            input:
                **inputs_of(family),
            output:
                **family.files,
            log:
                family.log,
            wildcard_constraints:
                **family.constraints,
            conda:
                ENVIRONMENT
            threads: family.needs.threads
            resources:
                **needs_of(family),
            params:
                **words_of(family),
            shell:
                "relearn {params.study} {params.step} --settings {params.settings:q} --code {params.code}"
                " {params.inputs:q} {params.labels:q} {params.seed:q} --scale {params.scale}"
                " {params.processes:q} --threads {threads} --device {resources.device} --precision {resources.precision}"
                " --out $(dirname {output.record:q}) --log {log:q}"
