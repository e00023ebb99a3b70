# The rule that every run of a step inherits: `use rule run as craft with:` adds inputs, outputs, log, resources and words.
# A job is stale when its settings, code version, labels, seed or inputs change. Device, precision and threads describe the
# machine and not the run, so they are resources, which make no job stale.

from functools import cache

from relearn.studies.study import load as load_study


def needs(mem_mb, minutes, gpu=1):
    """Return the `resources:` of a rule; device and precision are the same for all jobs of this machine."""
    return {"mem_mb": mem_mb, "runtime": minutes, "gpu": gpu, "device": DEVICE, "precision": PRECISION}


version_of = cache(code_version)  # many runs share their modules


def words(step, study, settings, modules=(), seed="{seed}", **labels):
    """Return the `params:` of a rule: the words of `relearn <study> <step> ...` that describe the run.

    Settings, modules and labels are values or functions of the wildcards.

    step, study: of all runs of the rule.
    settings: for `--settings`.
    modules: what the step loads by name; the code version covers the step and these.
    seed: for `--seed`; None leaves the option out.
    labels: in addition to the wildcards, all of which but study and seed are labels.
    """

    def of(value, wildcards):
        return value(wildcards) if callable(value) else value

    def label_words(wildcards):
        named = {name: value for name, value in wildcards.items() if name not in ("study", "seed")}
        named |= {name: of(label, wildcards) for name, label in labels.items()}
        return [word for name, value in named.items() for word in ("--label", f"{name}={value}")]

    return {
        "step": step,
        "study": study,
        "settings": lambda wildcards: canonical(of(settings, wildcards)),
        "code": lambda wildcards: version_of(
            load_study(study.format(**dict(wildcards.items()))).steps[step], *of(modules, wildcards)
        ),
        "labels": label_words,
        "seed": [] if seed is None else ["--seed", str(seed)],
        "scale": SCALE,
        "inputs": input_words,
    }


def input_words(wildcards, input):
    """Return `--input NAME PATH...` for each input of a job that has files."""
    paths = {name: [found] if isinstance(found, str) else list(found) for name, found in input.items()}
    return [word for name, found in paths.items() if found for word in ("--input", name, *found)]


rule run:
    conda:
        ENVIRONMENT
    threads: 1
    shell:
        "relearn {params.study} {params.step} --settings {params.settings:q} --code {params.code}"
        " {params.inputs:q} {params.labels:q} {params.seed:q} --scale {params.scale}"
        " --threads {threads} --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
