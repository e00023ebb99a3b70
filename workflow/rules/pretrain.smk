# pretrain: every substitute and every victim, each from its own seed.


rule pretrain_all:
    input:
        expand(
            f"{{run}}/record.json",
            run=expand(SUBSTITUTE_RUNS + VICTIM_RUNS, seed=SEEDS),
        ),
    localrule: True


rule pretrain:
    input:
        data=rules.prepare.output.data,
    output:
        record=f"{NETWORK_RUN}/record.json",
        weights=f"{NETWORK_RUN}/weights.safetensors",
    log:
        f"{ROOT}/logs/pretrain/{{role}}/{{network}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/pretrain/{{role}}/{{network}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=6000,
        runtime=240,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=pretrain_settings,
        code=pretrain_code,
        architecture=architecture_of,
    shell:
        "relearn pretrain --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label role={wildcards.role} --label network={wildcards.network}"
        " --label architecture={params.architecture} --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
