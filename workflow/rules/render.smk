# render: tables, figures, verdicts and the report, from the records alone.


rule render_all:
    input:
        f"{ROOT}/report.html",
    localrule: True


rule render:
    input:
        networks=rules.pretrain_all.input,
        crafted=rules.craft_all.input,
        filtered=rules.filter_all.input,
        trained=rules.train_all.input,
        evaluated=rules.evaluate_all.input,
        initialised=rules.initialise_all.input,
        learned=rules.learn_all.input,
        probed=rules.probe_all.input,
        reported=expand(
            "workflow/reported/{name}.yaml",
            name=["artefacts", "claims", "analysis", "errata"],
        ),
    output:
        report(
            expand(f"{ROOT}/tables/{{table}}.csv", table=TABLES),
            caption="../report/table.rst",
            category="zhu2022, chapter 2",
            subcategory="tables",
        ),
        report(
            expand(f"{ROOT}/tables/{{table}}.csv", table=G_TABLES),
            caption="../report/table.rst",
            category="zhu2022, chapter 4",
            subcategory="tables",
        ),
        expand(f"{ROOT}/tables/{{table}}.{{kind}}", table=TABLES + G_TABLES, kind=["md", "tex"]),
        report(
            expand(f"{ROOT}/figures/{{figure}}.png", figure=FIGURES),
            caption="../report/figure.rst",
            category="zhu2022, chapter 2",
            subcategory="figures",
        ),
        report(
            expand(f"{ROOT}/figures/{{figure}}.png", figure=G_FIGURES),
            caption="../report/figure.rst",
            category="zhu2022, chapter 4",
            subcategory="figures",
        ),
        expand(f"{ROOT}/figures/{{figure}}.{{kind}}", figure=FIGURES + G_FIGURES, kind=["pdf", "csv"]),
        report(f"{ROOT}/claims.md", caption="../report/claims.rst", category="claims"),
        f"{ROOT}/claims.json",
        f"{ROOT}/coverage.csv",
        f"{ROOT}/deviations.md",
        f"{ROOT}/metrics.json",
        page=f"{ROOT}/report.html",
    log:
        f"{ROOT}/logs/render.log",
    benchmark:
        f"{ROOT}/benchmarks/render.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=15,
        gpu=0,
    params:
        scale=SCALE,
        code=code_version("relearn.steps.render"),
    shell:
        "relearn render --root $(dirname {output.page:q}) --params params.yaml --scale {params.scale} > {log:q} 2>&1"
