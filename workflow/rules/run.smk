# The rule behind every run of a step: `use rule run as craft with:` adds inputs, outputs, log, needs and words.
# A job is stale when its settings, code version, labels or seed change (`params:`), or its inputs. Device, precision and
# threads say how a run is made, not which one it is, so they are resources: the records of another machine count.


def needs(mem_mb, minutes, gpu=1):
    """The resources of a job; device and precision are those of this machine."""
    return {"mem_mb": mem_mb, "runtime": minutes, "gpu": gpu, "device": DEVICE, "precision": PRECISION}


def words(step, study, settings, code, seed="{seed}", **labels):
    """The `params:` of a rule: the words of `relearn <step> ...` that depend on the run and not on the machine.

    Every wildcard but study and seed is a label of its name; `labels` adds others. Texts may hold wildcards; settings,
    code and labels may be functions of the wildcards. A seed of None leaves the option out.
    """

    def of_labels(wildcards):
        named = {name: value for name, value in wildcards.items() if name not in ("study", "seed")}
        for name, label in labels.items():
            named[name] = label(wildcards) if callable(label) else label
        return [word for name, value in named.items() for word in ("--label", f"{name}={value}")]

    return {
        "step": step,
        "study": study,
        "settings": settings,
        "code": code,
        "labels": of_labels,
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
