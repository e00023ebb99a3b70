# ascend: lower bounds on Lipschitz constants by gradient ascent on the input (figures 2, 7 and 8).


rule ascend_all:
    input:
        expand("{run}/record.json", run=ASCEND_RUNS),
    localrule: True


rule ascend:
    input:
        network=network_of,
    output:
        record=f"{ASCEND_RUN}/record.json",
        ascents=f"{ASCEND_RUN}/ascents.csv",
        curve=f"{ASCEND_RUN}/curve.csv",
    log:
        f"{ROOT}/logs/ascend/{{suite}}/{{attention}}/{{weights}}/{{length}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/ascend/{{suite}}/{{attention}}/{{weights}}/{{length}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=240,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=ascend_settings,
        code=code_version("relearn.steps.ascend"),
        p=lambda wildcards: P_OF[wildcards.suite],
    shell:
        "relearn ascend --study l2_attention --settings {params.settings:q} --code {params.code}"
        " --input network {input.network:q}"
        " --label suite={wildcards.suite} --label attention={wildcards.attention} --label weights={wildcards.weights} --label length={wildcards.length} --label p={params.p}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
