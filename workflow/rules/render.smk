# render: tables, figures, verdicts and the report, from the records alone.
TABLES = ["zhu2022.table2.1", "zhu2022.table2.2"]
FIGURES = ["zhu2022.fig2.5", "zhu2022.fig2.11"]


rule render_all:
    localrule: True
    input:
        f"{ROOT}/report.html",


rule render:
    input:
        networks=rules.pretrain_all.input,
        crafted=rules.craft_all.input,
        filtered=rules.filter_all.input,
        trained=rules.train_all.input,
        evaluated=rules.evaluate_all.input,
        published="workflow/reported/artefacts.yaml",
        claims="workflow/reported/claims.yaml",
    output:
        report(
            expand(f"{ROOT}/tables/{{table}}.csv", table=TABLES),
            caption="../report/table.rst",
            category="zhu2022, chapter 2",
            subcategory="tables",
        ),
        expand(f"{ROOT}/tables/{{table}}.{{kind}}", table=TABLES, kind=["md", "tex"]),
        report(
            expand(f"{ROOT}/figures/{{figure}}.png", figure=FIGURES),
            caption="../report/figure.rst",
            category="zhu2022, chapter 2",
            subcategory="figures",
        ),
        expand(f"{ROOT}/figures/{{figure}}.{{kind}}", figure=FIGURES, kind=["pdf", "csv"]),
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
    params:
        code=code_version("relearn.steps.render"),
    threads: 1
    resources:
        mem_mb=4000,
        runtime=15,
        gpu=0,
    shell:
        "relearn render --root {ROOT} --params params.yaml --scale {SCALE} > {log:q} 2>&1"
