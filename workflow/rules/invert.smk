# invert: x + c f(x) inverted by its fixed point (figures 3, 5 and 6).


rule invert_all:
    input:
        expand("{run}/record.json", run=INVERT_RUNS),
    localrule: True


rule invert:
    input:
        network=network_of,
    output:
        record=f"{INVERT_RUN}/record.json",
        errors=f"{INVERT_RUN}/errors.csv",
        ranges=f"{INVERT_RUN}/ranges.csv",
    log:
        f"{ROOT}/logs/invert/{{suite}}/{{attention}}/{{weights}}/{{length}}x{{dim}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/invert/{{suite}}/{{attention}}/{{weights}}/{{length}}x{{dim}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=120,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=invert_settings,
        code=code_version("relearn.steps.invert"),
    shell:
        "relearn invert --study l2_attention --settings {params.settings:q} --code {params.code}"
        " --input network {input.network:q}"
        " --label suite={wildcards.suite} --label attention={wildcards.attention} --label weights={wildcards.weights} --label length={wildcards.length} --label dim={wildcards.dim}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
