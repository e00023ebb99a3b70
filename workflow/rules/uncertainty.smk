# uncertainty: calibration, and what a network says of images that it was not trained for (ye2023).


rule uncertainty_all:
    input:
        expand("{run}/record.json", run=Y_UNCERTAINTY_RUNS),
    localrule: True


rule uncertainty:
    input:
        data=vision_images("lrformer"),
        network=rules.classify_lrformer.output.network,
    output:
        record=f"{Y_UNCERTAINTY_RUN}/record.json",
        calibration=f"{Y_UNCERTAINTY_RUN}/calibration.csv",
        ood=f"{Y_UNCERTAINTY_RUN}/ood.csv",
        distances=f"{Y_UNCERTAINTY_RUN}/distance.csv",
        scores=f"{Y_UNCERTAINTY_RUN}/scores.csv",
    log:
        f"{ROOT}/logs/uncertainty/{{variant}}/depth{{depth}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/uncertainty/{{variant}}/depth{{depth}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=120,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=uncertainty_settings,
        code=uncertainty_code(),
    shell:
        "relearn uncertainty --study lrformer --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input network {input.network:q}"
        " --label variant={wildcards.variant} --label depth={wildcards.depth}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
