# render: tables, figures, verdicts and the report, from the records alone.
from relearn.cli.render import artefact_ids, code_of_report
from relearn.studies.study import all_studies

ARTEFACTS = {study.source: artefact_ids(study) for study in all_studies()}
EVERY = {kind: [name for ids in ARTEFACTS.values() for name in ids[kind]] for kind in ("tables", "figures")}


def rendered(pattern, **values):
    """Return output files that stay until `relearn render` replaces them; a job that fails leaves them as they were.

    One output must not be among them: Snakemake removes it when a job fails, and so knows that the job is still to be done.
    """
    return update(expand(pattern, **values))


def shown(folder, kind, ending):
    """Return the files of one kind for `snakemake --report`, by publication and chapter."""
    found, caption = [], f"../report/{kind}.rst"
    for source, ids in ARTEFACTS.items():
        if ids[folder]:
            paths = rendered(f"{ROOT}/{folder}/{{id}}.{ending}", id=ids[folder])
            found += [report(paths, caption, category=source, subcategory=folder)]
    return found


RECORDS = [
    *rules.poisoning.input,
    *rules.gradinit.input,
    *rules.l2_attention.input,
    *rules.lipsformer.input,
    *rules.layer_scale.input,
    *rules.lrformer.input,
    *rules.long_short.input,
    *rules.robustness.input,
    *rules.freelb.input,
]


rule render:
    input:
        records=[file for file in RECORDS if file.endswith("/record.json")],
        reported=[path for study in all_studies() for path in sorted(study.reported.iterdir())],
    output:
        *shown("tables", "table", "csv"),
        *shown("figures", "figure", "png"),
        rendered(f"{ROOT}/tables/{{id}}.{{kind}}", id=EVERY["tables"], kind=["md", "tex"]),
        rendered(f"{ROOT}/figures/{{id}}.{{kind}}", id=EVERY["figures"], kind=["pdf", "csv"]),
        report(rendered(f"{ROOT}/claims.md"), caption="../report/claims.rst", category="claims"),
        rendered(f"{ROOT}/{{name}}", name=["claims.json", "coverage.csv", "deviations.md", "settings.md"]),
        metrics=f"{ROOT}/metrics.json",
        page=rendered(f"{ROOT}/report.html"),
    log:
        f"{ROOT}/logs/render.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=15,
        gpu=0,
    params:
        scale=SCALE,
        code=code_of_report(),
    shell:
        "relearn render --root $(dirname {output.page:q}) --params params.yaml --scale {params.scale} > {log:q} 2>&1"


rule render_all:
    input:
        rules.render.output,
    localrule: True
