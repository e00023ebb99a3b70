# pretrain: every substitute and every victim, each from its own seed; harden: adversarial training of the victims.


rule pretrain_all:
    input:
        expand("{run}/record.json", run=NETWORK_RUNS + HARDEN_RUNS),
    localrule: True


rule pretrain:
    input:
        data=pretrain_data,
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


rule harden:
    input:
        data=rules.prepare.output.data,
        start=lambda wildcards: weights("victim", [wildcards.network], wildcards.seed),
    output:
        record=f"{HARDEN_RUN}/record.json",
        weights=f"{HARDEN_RUN}/weights.safetensors",
    log:
        f"{ROOT}/logs/harden/{{network}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/harden/{{network}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=6000,
        runtime=480,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=lambda wildcards: canonical({**HARDEN, "architecture": architecture_of(wildcards)}),
        code=harden_code,
        architecture=architecture_of,
    shell:
        "relearn harden --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input start {input.start:q}"
        " --label role=robust --label network={wildcards.network}"
        " --label architecture={params.architecture} --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
