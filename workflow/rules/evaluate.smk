# evaluate: the worth of every trained network, and what holds without training.
EVALUATE = POISONING["evaluate"]
ACCURACY_RUN = f"{ROOT}/runs/poisoning/evaluate/accuracy/{{role}}/{{network}}/seed{{seed}}"
HULL_RUN = f"{ROOT}/runs/poisoning/evaluate/hull/seed{{seed}}"
EVALUATE_RUNS = [
    run.replace("/pretrain/", "/evaluate/accuracy/")
    for run in expand(SUBSTITUTE_RUNS + VICTIM_RUNS, seed=SEEDS)
] + [HULL_RUN.format(seed=0)]


def evaluate_code(wildcards):
    return code_version("relearn.steps.evaluate", network_module(architecture_of(wildcards)))


rule evaluate_all:
    localrule: True
    input:
        expand("{run}/record.json", run=EVALUATE_RUNS),


rule evaluate:
    input:
        data=rules.prepare.output.data,
        network=rules.pretrain.output.weights,
    output:
        record=f"{ACCURACY_RUN}/record.json",
        trials=f"{ACCURACY_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/evaluate/accuracy/{{role}}/{{network}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/evaluate/accuracy/{{role}}/{{network}}/seed{{seed}}.tsv"
    params:
        settings=canonical({"protocol": "accuracy", "calibration_bins": EVALUATE["calibration_bins"]}),
        code=evaluate_code,
        architecture=architecture_of,
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        gpu=1,
    shell:
        "relearn evaluate --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input network {input.network:q} --label protocol=accuracy"
        " --label role={wildcards.role} --label network={wildcards.network}"
        " --label architecture={params.architecture} --seed {wildcards.seed} --threads {threads} {HOW}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule evaluate_hull:
    output:
        record=f"{HULL_RUN}/record.json",
    log:
        f"{ROOT}/logs/evaluate/hull/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/evaluate/hull/seed{{seed}}.tsv"
    params:
        settings=canonical({"protocol": "hull", **EVALUATE["hull"]}),
        code=code_version("relearn.steps.evaluate", "relearn.measures.hull"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
        gpu=0,
    shell:
        "relearn evaluate --settings {params.settings:q} --code {params.code} --label protocol=hull"
        " --seed {wildcards.seed} --threads {threads} {HOW}"
        " --out $(dirname {output.record:q}) --log {log:q}"
