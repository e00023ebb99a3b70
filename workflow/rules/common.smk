# Shared by all files here: parameters, folders, patterns of wildcards, and the importer.
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from relearn.cli import planned_source
from relearn.cli.jobs import ENGINE_LOCKS
from relearn.params import reading as reader
from relearn.report.closing import closing_words
from relearn.studies import parameters
from relearn.runs import orphan_guard as parents
from relearn.runs.atomic_files import Lock
from relearn.runs.code_version import code_version
from relearn.methods import DEFENCES, MIXTURES, VOTES
from relearn.runs.record import canonical
from relearn.runs.record_file import left_behind
from snakemake_logger_plugin_relearn import foresee
from relearn.studies.study import load as load_study

parents.announce()  # jobs end when this process is gone
os.environ[planned_source.VARIABLE] = planned_source.mark()  # jobs refuse to run with other code than planned
PARAMS = parameters.load("params.yaml", scale=config.get("scale"))
MACHINE = reader.machine(config, "params.yaml")
if hidden := reader.hidden_line("params.yaml", PARAMS["scale"], most=4):
    print(hidden, file=sys.stderr)
if MACHINE["mirror"]:
    os.environ.update(RELEARN_MIRROR=MACHINE["mirror"])
SCALE = PARAMS["scale"]
ENVIRONMENT = "../envs/relearn.yaml"  # used with `--sdm conda` only
ROOT = f"results/{SCALE}"

# Device, precision and threads are resources, never `params:`, because they say how a run is made, not which run it is: results made
# on another machine count.
DEVICE, PRECISION = MACHINE["device"], MACHINE["precision"]


# Patterns of wildcards that have the same meaning in every rule; a rule defines its own for all others.
wildcard_constraints:
    seed=r"\d+",
    attack="[a-z_0-9]+",
    defence="none|adversarial_training|" + "|".join([*DEFENCES, *VOTES, *MIXTURES]),
    role="substitute|victim|substitute_half|victim_half|victim_disjoint|robust",
    setting="transfer|end_to_end|overlap_full|overlap_half|overlap_disjoint|imbalance",
    victim="[A-Za-z0-9-]+",
    variant="[A-Za-z0-9_.-]+",
    encoder="roberta|albert|bert",
    part="first_half|middle_half|second_half",
    network="[A-Za-z0-9_.+-]+",
    initialisation="[a-z_0-9.-]+",
    recipe="[a-z_0-9.-]+",
    weights="identity|random|trained",
    protocol="[a-z_0-9]+",
    layers=r"\d+",
    depth=r"\d+",
    length=r"\d+",
    dim=r"\d+",


version_of = cache(code_version)  # cached, because many runs share their modules


def input_words(wildcards, input):
    """Return `--input NAME PATH...` for each input of a job that has files."""
    paths = {name: [found] if isinstance(found, str) else list(found) for name, found in input.items()}
    return [word for name, found in paths.items() if found for word in ("--input", name, *found)]


def process_words(wildcards, resources):
    """Return `--processes N` for a job on several GPUs. Params computed from resources never make a job stale."""
    return ["--processes", str(resources.gpu)] if resources.gpu > 1 else []


def plan_of(study):
    """Return the families of a study's runs, by step."""
    return load_study(study).part("plan").plan(PARAMS, SCALE)


def records(plan):
    """Return the record of every run of a plan, and each other file that is missing from a finished run.

    Snakemake makes a missing file again only if a target requests it. Weights that `relearn adopt` left on the machine that
    made them are made again only if a job needs them.
    """
    found = []
    for family in plan.values():
        for run in family.runs:
            record, *others = [pattern.format(**run) for pattern in family.files.values()]
            found.append(record)
            gone = [file for file in others if not os.path.exists(file)]
            if gone and os.path.exists(record):
                elsewhere = left_behind(os.path.dirname(record))
                found += [file for file in gone if os.path.basename(file) not in elsewhere]
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
        "runtime": min(needed.minutes, MACHINE["minutes"] or needed.minutes),
        "gpu": 0 if DEVICE == "cpu" else needed.gpu,
        "device": DEVICE,
        "precision": PRECISION,
    }


def words_of(family):
    """Return the `params:` of a rule: the arguments of `relearn <study> <step> ...` that describe the run."""
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
        "processes": process_words,
    }


TRACKER_STOP = f"{ROOT}/spool/.stop-{os.getpid()}"  # another Snakemake may have an importer of its own
HELPERS = {}  # what lasts as long as this process; names defined in `onstart:` are lost when it ends


include: "warm.smk"
include: "start.smk"


onstart:
    HELPERS["lock"] = Lock(
        ENGINE_LOCKS / f"{os.uname().nodename}-{os.getpid()}.lock", wait_s=0
    ).__enter__()
    announce(workflow.dag)
    foresee(workflow.dag, PARAMS)
    without_rate_limit(workflow.scheduler)
    # Jobs never open MLflow: this single process imports their spools while they run.
    Path(TRACKER_STOP).parent.mkdir(parents=True, exist_ok=True)
    Path(TRACKER_STOP).unlink(missing_ok=True)
    tracker_log = open(f"{ROOT}/spool/track.log", "ab")
    command = [
        "relearn",
        "track",
        "--root",
        ROOT,
        "--follow",
        "--stop-file",
        TRACKER_STOP,
    ]
    HELPERS["tracker"] = subprocess.Popen(
        command, stdout=tracker_log, stderr=tracker_log, stdin=subprocess.DEVNULL
    )
    HELPERS["warm"] = start_warm(open(f"{ROOT}/spool/warm.log", "ab"))


def stop_helpers():
    """Let the importer import the last records and end."""
    if lock := HELPERS.pop("lock", None):
        lock.path.unlink(missing_ok=True)
        lock.__exit__(None, None, None)
    stop_warm(HELPERS.pop("warm", None))
    if "tracker" in HELPERS:
        Path(TRACKER_STOP).touch()
        if HELPERS.pop("tracker").wait():  # it was killed or failed: import once more
            subprocess.run(["relearn", "track", "--root", ROOT], stdin=subprocess.DEVNULL)
        Path(TRACKER_STOP).unlink(missing_ok=True)


def answers():
    """Return the output of the targets that the user requested by name."""
    asked = [job for job in workflow.dag.jobs if job.rule.name in NAMED]
    return [Path(file).read_text(encoding="utf-8").rstrip() for job in asked for file in job.log]


onsuccess:
    stop_helpers()
    logger.info("\n".join(answers() or closing_words(Path(ROOT))))


onerror:
    stop_helpers()
    logger.info(f"the same command goes on where this one stopped; logs of the jobs: {ROOT}/logs")
