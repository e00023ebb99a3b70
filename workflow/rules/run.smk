# The rule that every step inherits: `use rule run as craft with:` adds inputs, outputs, log, resources and arguments.
# A job is stale when its settings, code version, labels, seed or inputs change. Device, precision and threads describe the
# machine and not the run, so they are resources, which never make a job stale.


rule run:
    log:
        f"{ROOT}/logs/run.log",  # each inheriting rule sets its own log
    conda:
        ENVIRONMENT
    threads: 1
    shell:
        "relearn {params.study} {params.step} --settings {params.settings:q} --code {params.code}"
        " {params.inputs:q} {params.labels:q} {params.seed:q} --scale {params.scale}"
        " {params.processes:q} --threads {threads} --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
