# The rule that every run of a step inherits: `use rule run as craft with:` adds inputs, outputs, log, resources and words.
# A job is stale when its settings, code version, labels, seed or inputs change. Device, precision and threads describe the
# machine and not the run, so they are resources, which make no job stale.

from functools import cache

from relearn.studies.study import load as load_study

version_of = cache(code_version)  # many runs share their modules


def input_words(wildcards, input):
    """Return `--input NAME PATH...` for each input of a job that has files."""
    paths = {name: [found] if isinstance(found, str) else list(found) for name, found in input.items()}
    return [word for name, found in paths.items() if found for word in ("--input", name, *found)]


def plan_of(study):
    """Return the families of a study's runs by step."""
    return load_study(study).part("plan").plan(PARAMS, SCALE)


def records(plan):
    """Return the record of every run of a plan, and each other file of a finished run that is gone.

    Snakemake makes a missing file again only if a target asks for it.
    """
    found = []
    for family in plan.values():
        for run in family.runs:
            record, *others = [pattern.format(**run) for pattern in family.files.values()]
            found += [
                record,
                *(file for file in others if os.path.exists(record) and not os.path.exists(file)),
            ]
    return found


def cell_of(wildcards):
    """Return the labels of a job, without its seed."""
    return {name: value for name, value in wildcards.items() if name != "seed"}


def inputs_of(family):
    """Return the `input:` of a rule: for each name a function of the wildcards."""
    return {
        name: lambda wildcards, name=name: family.inputs_of(**dict(wildcards.items())).get(name, [])
        for name in family.inputs
    }


def needs_of(family):
    """Return the `resources:` of a rule; device and precision are the same for all jobs of this machine."""
    needed = family.needs
    return {
        "mem_mb": needed.mem_mb,
        "runtime": needed.minutes,
        "gpu": needed.gpu,
        "device": DEVICE,
        "precision": PRECISION,
    }


def words_of(family):
    """Return the `params:` of a rule: the words of `relearn <study> <step> ...` that describe the run."""
    of_step = load_study(family.study).steps[family.step]

    def label_words(wildcards):
        labels = family.labels_of(**cell_of(wildcards))
        return [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]

    return {
        "step": family.step,
        "study": family.study,
        "settings": lambda wildcards: canonical(family.settings_of(**cell_of(wildcards))),
        "code": lambda wildcards: version_of(of_step, *family.modules_of(**cell_of(wildcards))),
        "labels": label_words,
        "seed": [] if family.seeds is None else ["--seed", "{seed}"],
        "scale": SCALE,
        "inputs": input_words,
    }


rule run:
    conda:
        ENVIRONMENT
    threads: 1
    shell:
        "relearn {params.study} {params.step} --settings {params.settings:q} --code {params.code}"
        " {params.inputs:q} {params.labels:q} {params.seed:q} --scale {params.scale}"
        " --threads {threads} --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
