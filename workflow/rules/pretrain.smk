# pretrain: every substitute and every victim, each from its own seed; harden: adversarial training of the victims.


rule pretrain_all:
    input:
        expand("{run}/record.json", run=NETWORK_RUNS + HARDEN_RUNS),
    localrule: True


use rule run as pretrain with:
    input:
        data=pretrain_data,
    output:
        record=f"{NETWORK_RUN}/record.json",
        weights=f"{NETWORK_RUN}/weights.safetensors",
    log:
        f"{ROOT}/logs/pretrain/{{role}}/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=6000, minutes=240),
    params:
        **words(
            "pretrain",
            study="poisoning",
            settings=pretrain_settings,
            modules=network_modules,
            architecture=architecture_of,
        ),


use rule run as harden with:
    input:
        data=rules.prepare.output.data,
        start=lambda wildcards: weights("victim", [wildcards.network], wildcards.seed),
    output:
        record=f"{HARDEN_RUN}/record.json",
        weights=f"{HARDEN_RUN}/weights.safetensors",
    log:
        f"{ROOT}/logs/harden/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=6000, minutes=480),
    params:
        **words(
            "harden",
            study="poisoning",
            settings=lambda wildcards: {**HARDEN, "architecture": architecture_of(wildcards)},
            modules=network_modules,
            role="robust",
            architecture=architecture_of,
        ),
