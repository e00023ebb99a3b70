# The rule behind every run of a step: `use rule run as craft with:` adds inputs, outputs, log, needs and words.
# A job is stale when its settings, code version, labels or seed change (`params:`), or its inputs. Device, precision and
# threads say how a run is made, not which one it is, so they are resources: the records of another machine count.

from functools import cache


def needs(mem_mb, minutes, gpu=1):
    """The resources of a job; device and precision are those of this machine."""
    return {"mem_mb": mem_mb, "runtime": minutes, "gpu": gpu, "device": DEVICE, "precision": PRECISION}


version_of = cache(code_version)  # the source stays as it is while the DAG is built


def words(step, study, settings, modules=(), seed="{seed}", **labels):
    """The `params:` of a rule: the words of `relearn <step> ...` that depend on the run and not on the machine.

    The code version is that of the step and of `modules`, which the step loads by name. Every wildcard but study and
    seed is a label of its name; `labels` adds others. Settings, modules and labels may be functions of the wildcards.
    A seed of None leaves the option out.
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
        "code": lambda wildcards: version_of(f"relearn.steps.{step}", *of(modules, wildcards)),
        "labels": label_words,
        "seed": [] if seed is None else ["--seed", str(seed)],
        "scale": SCALE,
        "inputs": input_words,
    }


def input_words(wildcards, input):
    """The inputs of a job by name; without the optional ones that it does not have."""
    paths = {name: [found] if isinstance(found, str) else list(found) for name, found in input.items()}
    return [word for name, found in paths.items() if found for word in ("--input", name, *found)]


rule run:
    conda:
        ENVIRONMENT
    threads: 1
    shell:
        "relearn {params.step} --study {params.study} --settings {params.settings:q} --code {params.code}"
        " {params.inputs:q} {params.labels:q} {params.seed:q} --scale {params.scale}"
        " --threads {threads} --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
