# evaluate: the worth of every trained network, and what holds without training.


rule evaluate_all:
    input:
        expand("{run}/record.json", run=EVALUATE_RUNS),
    localrule: True


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
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=canonical({"protocol": "accuracy", "calibration_bins": EVALUATE["calibration_bins"]}),
        code=evaluate_code,
        architecture=architecture_of,
    shell:
        "relearn evaluate --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input network {input.network:q} --label protocol=accuracy"
        " --label role={wildcards.role} --label network={wildcards.network}"
        " --label architecture={params.architecture} --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule evaluate_hull:
    output:
        record=f"{HULL_RUN}/record.json",
    log:
        f"{ROOT}/logs/evaluate/hull/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/evaluate/hull/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=canonical({"protocol": "hull", **EVALUATE["hull"]}),
        code=code_version("relearn.steps.evaluate", "relearn.measures.hull"),
    shell:
        "relearn evaluate --settings {params.settings:q} --code {params.code} --label protocol=hull"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
