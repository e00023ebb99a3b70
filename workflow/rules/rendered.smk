# The output files of `relearn render`, for the rule of that name.
from relearn.cli.render import artefact_ids, code_of_report
from relearn.studies.study import all_studies

ARTEFACTS = {study.source: artefact_ids(study) for study in all_studies()}
EVERY = {kind: [name for ids in ARTEFACTS.values() for name in ids[kind]] for kind in ("tables", "figures")}


def rendered(pattern, **values):
    """Return output files that stay until `relearn render` replaces them; a failed job leaves them unchanged.

    At least one output must not be marked in this way: Snakemake removes it when the job fails, and so knows that the job is not done.
    """
    return update(expand(pattern, **values))


def shown(folder, ending):
    """Return the files of a folder for `snakemake --report`, by publication and chapter."""
    found, caption = [], "../report/rendered.rst"
    for source, ids in ARTEFACTS.items():
        if ids[folder]:
            paths = rendered(f"{ROOT}/{folder}/{{id}}.{ending}", id=ids[folder])
            found += [report(paths, caption, category=source, subcategory=folder)]
    return found
