# render: tables, figures, verdicts and the report, from the records alone.
import relearn
from relearn.runs.atomic_files import digest

PAGE = [Path(relearn.__file__).parent / "report" / name for name in ("report.html.j2", "report.css")]


def rendered(pattern, **values):
    """Return output files that stay until `relearn render` replaces them; a job that fails leaves them as they were.

    One output must not be among them: Snakemake removes it when a job fails, and so knows that the job is still to be done.
    """
    return update(expand(pattern, **values))


rule render_all:
    input:
        f"{ROOT}/report.html",
        f"{ROOT}/metrics.json",
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
        characters=rules.characters_all.input,
        modelled=rules.language_all.input,
        ascended=rules.ascend_all.input,
        inverted=rules.invert_all.input,
        examined=rules.examine_all.input,
        clocked=rules.clock_all.input,
        counted_lipsformer=rules.count_lipsformer_all.input,
        examined_lipsformer=rules.examine_lipsformer_all.input,
        examined_lrformer=rules.examine_lrformer_all.input,
        classified_lipsformer=rules.classify_lipsformer_all.input,
        classified_layer_scale=rules.classify_layer_scale_all.input,
        classified_lrformer=rules.classify_lrformer_all.input,
        timed=rules.throughput_lipsformer_all.input,
        timed_long_short=rules.throughput_long_short_all.input,
        retested=rules.retest_all.input,
        doubted=rules.uncertainty_all.input,
        counted_long_short=rules.count_long_short_all.input,
        understood=rules.understand_all.input,
        predicted=rules.predict_all.input,
        adapted=rules.adapt_all.input,
        cost=rules.cost_all.input,
        classified_long_short=rules.classify_long_short_all.input,
        alike=rules.similarity_all.input,
        withstood=rules.withstand_all.input,
        counted_freelb=rules.count_freelb_all.input,
        acquired=rules.acquire_all.input,
        finetuned=rules.finetune_all.input,
        provoked=rules.provoke_all.input,
        voted=rules.vote_all.input,
        contrasted=rules.contrast_all.input,
        reported=expand(
            "workflow/reported/{name}.yaml",
            name=["artefacts", "claims", "analysis", "errata", "settings"],
        ),
    output:
        report(
            rendered(f"{ROOT}/tables/{{table}}.csv", table=TABLES),
            caption="../report/table.rst",
            category="zhu2022, chapter 2",
            subcategory="tables",
        ),
        report(
            rendered(f"{ROOT}/tables/{{table}}.csv", table=G_TABLES),
            caption="../report/table.rst",
            category="zhu2022, chapter 4",
            subcategory="tables",
        ),
        report(
            rendered(f"{ROOT}/tables/{{table}}.csv", table=L_TABLES),
            caption="../report/table.rst",
            category="kim2020",
            subcategory="tables",
        ),
        report(
            rendered(f"{ROOT}/tables/{{table}}.csv", table=Q_TABLES),
            caption="../report/table.rst",
            category="qi2023",
            subcategory="tables",
        ),
        report(
            rendered(f"{ROOT}/tables/{{table}}.csv", table=T_TABLES),
            caption="../report/table.rst",
            category="touvron2021",
            subcategory="tables",
        ),
        report(
            rendered(f"{ROOT}/tables/{{table}}.csv", table=Y_TABLES),
            caption="../report/table.rst",
            category="ye2023",
            subcategory="tables",
        ),
        report(
            rendered(f"{ROOT}/tables/{{table}}.csv", table=LS_TABLES + ROBUST_TABLES),
            caption="../report/table.rst",
            category="zhu2022, chapter 5",
            subcategory="tables",
        ),
        report(
            rendered(f"{ROOT}/tables/{{table}}.csv", table=FB_TABLES),
            caption="../report/table.rst",
            category="zhu2022, chapter 3",
            subcategory="tables",
        ),
        rendered(
            f"{ROOT}/tables/{{table}}.{{kind}}",
            table=TABLES
            + G_TABLES
            + L_TABLES
            + Q_TABLES
            + T_TABLES
            + Y_TABLES
            + LS_TABLES
            + ROBUST_TABLES
            + FB_TABLES,
            kind=["md", "tex"],
        ),
        report(
            rendered(f"{ROOT}/figures/{{figure}}.png", figure=FIGURES),
            caption="../report/figure.rst",
            category="zhu2022, chapter 2",
            subcategory="figures",
        ),
        report(
            rendered(f"{ROOT}/figures/{{figure}}.png", figure=G_FIGURES),
            caption="../report/figure.rst",
            category="zhu2022, chapter 4",
            subcategory="figures",
        ),
        report(
            rendered(f"{ROOT}/figures/{{figure}}.png", figure=L_FIGURES),
            caption="../report/figure.rst",
            category="kim2020",
            subcategory="figures",
        ),
        report(
            rendered(f"{ROOT}/figures/{{figure}}.png", figure=Q_FIGURES),
            caption="../report/figure.rst",
            category="qi2023",
            subcategory="figures",
        ),
        report(
            rendered(f"{ROOT}/figures/{{figure}}.png", figure=T_FIGURES),
            caption="../report/figure.rst",
            category="touvron2021",
            subcategory="figures",
        ),
        report(
            rendered(f"{ROOT}/figures/{{figure}}.png", figure=Y_FIGURES),
            caption="../report/figure.rst",
            category="ye2023",
            subcategory="figures",
        ),
        report(
            rendered(f"{ROOT}/figures/{{figure}}.png", figure=LS_FIGURES),
            caption="../report/figure.rst",
            category="zhu2022, chapter 5",
            subcategory="figures",
        ),
        report(
            rendered(f"{ROOT}/figures/{{figure}}.png", figure=FB_FIGURES),
            caption="../report/figure.rst",
            category="zhu2022, chapter 3",
            subcategory="figures",
        ),
        rendered(
            f"{ROOT}/figures/{{figure}}.{{kind}}",
            figure=FIGURES
            + G_FIGURES
            + L_FIGURES
            + Q_FIGURES
            + T_FIGURES
            + Y_FIGURES
            + LS_FIGURES
            + FB_FIGURES,
            kind=["pdf", "csv"],
        ),
        report(rendered(f"{ROOT}/claims.md"), caption="../report/claims.rst", category="claims"),
        rendered(f"{ROOT}/claims.json"),
        rendered(f"{ROOT}/coverage.csv"),
        rendered(f"{ROOT}/deviations.md"),
        rendered(f"{ROOT}/settings.md"),
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
        # The page's template and style are no modules: their bytes count.
        code=" ".join([code_version("relearn.cli.render"), *map(digest, PAGE)]),
    shell:
        "relearn render --root $(dirname {output.page:q}) --params params.yaml --scale {params.scale} > {log:q} 2>&1"
