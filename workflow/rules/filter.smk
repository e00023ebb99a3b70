# filter: what each defence drops from the poisoned fine-tuning sets of each victim.
DEFENCE_NAMES = list(POISONING["filter"])
FILTER_RUN = f"{ROOT}/runs/poisoning/filter/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}"


def defence_settings(attack, defence):
    """The arguments of a defence; one that has a value for each attack gets the attack's."""
    values = POISONING["filter"][defence]
    settings = {key: value for key, value in values.items() if not key.startswith(tuple(ATTACKS))}
    settings |= {
        key.removeprefix(f"{attack}_"): value for key, value in values.items() if key.startswith(f"{attack}_")
    }
    return settings


def filter_settings(wildcards):
    chosen = defence_settings(wildcards.attack, wildcards.defence)
    return canonical({**TRIALS, **chosen, "defence": wildcards.defence})


def filter_code(wildcards):
    modules = method_module(DEFENCES, wildcards.defence), network_module(wildcards.victim)
    return code_version("relearn.steps.filter", *modules)


rule filter_all:
    localrule: True
    input:
        expand(
            f"{FILTER_RUN}/record.json",
            attack=ATTACK_NAMES,
            defence=DEFENCE_NAMES,
            victim=VICTIMS,
            seed=SEEDS,
        ),


rule filter:
    input:
        data=rules.prepare.output.data,
        victim=f"{VICTIM_RUN}/weights.safetensors",
        poisons=rules.craft.output.poisons,
    output:
        record=f"{FILTER_RUN}/record.json",
        kept=f"{FILTER_RUN}/kept.safetensors",
        trials=f"{FILTER_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/filter/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/filter/{{attack}}/{{defence}}/{{victim}}/seed{{seed}}.tsv"
    params:
        settings=filter_settings,
        code=filter_code,
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        gpu=1,
    shell:
        "relearn filter --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input victim {input.victim:q} --input poisons {input.poisons:q}"
        " --label attack={wildcards.attack} --label defence={wildcards.defence}"
        " --label victim={wildcards.victim} --seed {wildcards.seed} --threads {threads} {HOW}"
        " --out $(dirname {output.record:q}) --log {log:q}"
