# examine: what theorems state and construct, case by case; of kim2020 also what goes in and comes out (figure 10).


rule examine_all:
    input:
        expand("{run}/record.json", run=EXAMINE_RUNS),
    localrule: True


rule examine:
    output:
        record=f"{EXAMINE_RUN}/record.json",
        cases=f"{EXAMINE_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/examine/{{protocol}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/examine/{{protocol}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=examine_settings,
        code=code_version("relearn.steps.examine", "relearn.steps.constructions_l2_attention"),
    shell:
        "relearn examine --study l2_attention --settings {params.settings:q} --code {params.code}"
        " --label protocol={wildcards.protocol}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule examine_outputs:
    input:
        network=network_of,
    output:
        record=f"{OUTPUTS_RUN}/record.json",
        histogram=f"{OUTPUTS_RUN}/histogram.csv",
    log:
        f"{ROOT}/logs/examine/outputs/{{attention}}/{{weights}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/examine/outputs/{{attention}}/{{weights}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=outputs_settings,
        code=code_version("relearn.steps.examine"),
    shell:
        "relearn examine --study l2_attention --settings {params.settings:q} --code {params.code}"
        " --input network {input.network:q}"
        " --label protocol=outputs --label attention={wildcards.attention} --label weights={wildcards.weights}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule examine_lipsformer_all:
    input:
        expand("{run}/record.json", run=LIPS_RUNS),
    localrule: True


rule examine_lipsformer:  # qi2023: theorems 1 and 2, the spectral start
    output:
        record=f"{LIPS_RUN}/record.json",
        cases=f"{LIPS_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/examine_lipsformer/{{protocol}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/examine_lipsformer/{{protocol}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=lipsformer_settings,
        code=code_version("relearn.steps.examine", "relearn.steps.constructions_lipsformer"),
    shell:
        "relearn examine --study lipsformer --settings {params.settings:q} --code {params.code}"
        " --label protocol={wildcards.protocol}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule examine_activations:  # qi2023: figure 2
    output:
        record=f"{ACTIVATIONS_RUN}/record.json",
        cases=f"{ACTIVATIONS_RUN}/cases.csv",
        curves=f"{ACTIVATIONS_RUN}/curves.csv",
    log:
        f"{ROOT}/logs/examine_lipsformer/activations/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/examine_lipsformer/activations/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=activations_settings,
        code=code_version("relearn.steps.examine", "relearn.steps.constructions_lipsformer"),
    shell:
        "relearn examine --study lipsformer --settings {params.settings:q} --code {params.code}"
        " --label protocol=activations"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"


rule examine_lrformer_all:
    input:
        expand("{run}/record.json", run=LRFORMER_RUNS),
    localrule: True


rule examine_lrformer:  # ye2023: LayerNorm, Lipschitz-regularised attention
    output:
        record=f"{LRFORMER_RUN}/record.json",
        cases=f"{LRFORMER_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/examine_lrformer/{{protocol}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/examine_lrformer/{{protocol}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=lrformer_settings,
        code=code_version("relearn.steps.examine", "relearn.steps.constructions_lrformer"),
    shell:
        "relearn examine --study lrformer --settings {params.settings:q} --code {params.code}"
        " --label protocol={wildcards.protocol}"
        " --seed {wildcards.seed}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
