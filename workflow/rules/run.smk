# The rule that every run of a step inherits: `use rule run as craft with:` adds inputs, outputs, log, resources and words.
# A job is stale when its settings, code version, labels, seed or inputs change. Device, precision and threads describe the
# machine and not the run, so they are resources, which make no job stale.


rule run:
    log:
        f"{ROOT}/logs/run.log",  # each rule that inherits names its own
    conda:
        ENVIRONMENT
    threads: 1
    shell:
        "relearn {params.study} {params.step} --settings {params.settings:q} --code {params.code}"
        " {params.inputs:q} {params.labels:q} {params.seed:q} --scale {params.scale}"
        " --threads {threads} --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
