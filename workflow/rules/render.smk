# Tables, figures, verdicts and the report, from the records alone.


include: "rendered.smk"


rule render:
    input:
        records=[file for found in RECORDS.values() for file in found if Path(file).name == "record.json"],
        published="params/paper.yaml",
        reported=[
            path  # relative, so that a moved checkout is not stale
            for study in all_studies()
            for path in sorted(Path("src/relearn/studies", study.name, "reported").iterdir())
        ],
    output:
        *shown("tables", "csv"),
        *shown("figures", "png"),
        rendered(f"{ROOT}/tables/{{id}}.{{kind}}", id=EVERY["tables"], kind=["md", "tex"]),
        rendered(f"{ROOT}/figures/{{id}}.{{kind}}", id=EVERY["figures"], kind=["pdf", "csv"]),
        rendered(f"{ROOT}/figures/claims_forest.{{kind}}", kind=["png", "pdf", "csv"]),
        report(rendered(f"{ROOT}/claims.md"), caption="../report/rendered.rst", category="claims"),
        rendered(f"{ROOT}/{{name}}", name=["claims.json", "coverage.csv", "deviations.md", "settings.md"]),
        metrics=f"{ROOT}/metrics.json",
        page=rendered(f"{ROOT}/report.html"),
    log:
        f"{ROOT}/logs/render.log",
    conda:
        ENVIRONMENT
    threads: 2
    resources:
        mem_mb=4000,
        runtime=15,
        gpu=0,
    params:
        scale=SCALE,
        code=code_of_report(),
    shell:
        "relearn render --root $(dirname {output.page:q}) --params params.yaml --scale {params.scale}"
        " --cores {threads} > {log:q} 2>&1"


rule render_all:
    input:
        [str(file) for file in rules.render.output],  # plain strings without output flags; an iterator would lose the first
    localrule: True
