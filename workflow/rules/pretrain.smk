# pretrain: every substitute and every victim, each from its own seed.
PRETRAIN = POISONING["pretrain"]
SEEDS = POISONING["seeds"]
VICTIMS = PRETRAIN["victims"]["architectures"]
SUBSTITUTES = [
    f"{architecture}-drop{dropout:g}"
    for architecture in PRETRAIN["substitutes"]["architectures"]
    for dropout in PRETRAIN["substitutes"]["dropout"]
]
NETWORK_RUN = f"{ROOT}/runs/poisoning/pretrain/{{role}}/{{network}}/seed{{seed}}"
SUBSTITUTE_RUNS = [
    f"{ROOT}/runs/poisoning/pretrain/substitute/{network}/seed{{seed}}" for network in SUBSTITUTES
]
VICTIM_RUN = f"{ROOT}/runs/poisoning/pretrain/victim/{{victim}}-drop0/seed{{seed}}"
VICTIM_RUNS = expand(VICTIM_RUN, victim=VICTIMS, allow_missing=True)


def architecture_of(wildcards):
    return wildcards.network.rpartition("-drop")[0]


def pretrain_settings(wildcards):
    architecture, _, dropout = wildcards.network.rpartition("-drop")
    settings = {**PRETRAIN["network"], "training": PRETRAIN["training"]}
    return canonical({**settings, "architecture": architecture, "dropout": float(dropout)})


def pretrain_code(wildcards):
    return code_version("relearn.steps.pretrain", network_module(architecture_of(wildcards)))


rule pretrain_all:
    localrule: True
    input:
        expand(f"{{run}}/record.json", run=expand(SUBSTITUTE_RUNS + VICTIM_RUNS, seed=SEEDS)),


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
    params:
        settings=pretrain_settings,
        code=pretrain_code,
        architecture=architecture_of,
    threads: 1
    resources:
        mem_mb=6000,
        runtime=240,
        gpu=1,
    shell:
        "relearn pretrain --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label role={wildcards.role} --label network={wildcards.network}"
        " --label architecture={params.architecture} --seed {wildcards.seed} --threads {threads} {HOW}"
        " --out $(dirname {output.record:q}) --log {log:q}"
