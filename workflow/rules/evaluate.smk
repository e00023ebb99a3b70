# evaluate: the worth of every trained network, and what holds without training.


rule evaluate_all:
    input:
        expand("{run}/record.json", run=EVALUATE_RUNS),
    localrule: True


rule evaluate:
    input:
        data=rules.prepare.output.data,
        network=evaluated_network,
    output:
        record=f"{ROBUSTNESS_RUN}/record.json",
        trials=f"{ROBUSTNESS_RUN}/trials.csv",
        curves=f"{ROBUSTNESS_RUN}/loss_curves.csv",
    log:
        f"{ROOT}/logs/evaluate/robustness/{{role}}/{{network}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/evaluate/robustness/{{role}}/{{network}}/seed{{seed}}.tsv"
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
        settings=canonical(
            {
                "protocol": "robustness",
                **{key: EVALUATE[key] for key in ("calibration_bins", "pgd", "corruptions")},
            }
        ),
        code=evaluate_code,
        architecture=architecture_of,
    shell:
        "relearn evaluate --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input network {input.network:q} --label protocol=robustness"
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


rule evaluate_feature_plane:
    input:
        data=rules.prepare.output.data,
        victim=f"{VICTIM_RUN}/weights.safetensors",
        poisons=rules.craft.output.poisons,
    output:
        record=f"{PLANE_RUN}/record.json",
        trials=f"{PLANE_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/evaluate/feature_plane/{{attack}}/{{victim}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/evaluate/feature_plane/{{attack}}/{{victim}}/seed{{seed}}.tsv"
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
        settings=canonical(PLANE_SETTINGS),
        code=plane_code,
    shell:
        "relearn evaluate --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input victim {input.victim:q} --input poisons {input.poisons:q}"
        " --label protocol=feature_plane --label attack={wildcards.attack} --label victim={wildcards.victim}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule evaluate_toy:
    output:
        record=f"{TOY_RUN}/record.json",
        trials=f"{TOY_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/evaluate/toy/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/evaluate/toy/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=canonical({"protocol": "toy"}),
        code=toy_code,
    shell:
        "relearn evaluate --settings {params.settings:q} --code {params.code} --label protocol=toy"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
