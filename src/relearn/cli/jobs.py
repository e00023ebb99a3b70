"""relearn jobs: the DAG of any target as a plain ordered shell script, for a machine without Snakemake.

The script needs a POSIX shell and `relearn` (installed, or the checkout itself) and contains no absolute path. It can
be restarted: a job is skipped if its record is there with the same settings and the same code, unless
an input is newer, or an output is missing that another job of the script reads. Copy the records back and run `relearn adopt FOLDER`.

Snakemake computes the list of jobs, so this verb (unlike the script it prints) needs it installed.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from relearn import cli
from relearn.cli import planned_source
from relearn.runs import code_version

LOCKS = Path(".snakemake/locks")
ENGINE_LOCKS = Path(".snakemake/relearn")
"""One lock for each Snakemake that runs in this checkout, which names its machine, as Snakemake's own do not."""
HEAD = """\
#!/bin/sh
# relearn jobs{arguments}: {count} jobs in order, for a machine without Snakemake.
# Start it in the root of the checkout, as often as you like: a job whose record is there is skipped.
# Copy the records back and run `relearn adopt FOLDER`, where FOLDER contains them.
set -eu
export {variable}=:{source}  # a job whose code has been edited since refuses to run
command -v relearn >/dev/null 2>&1 || relearn() {{
  PYTHONPATH="src${{PYTHONPATH:+:$PYTHONPATH}}" "${{PYTHON:-python3}}" -m relearn "$@"
}}
# made RECORD RUN CODE OUTPUT... -- INPUT...: is there a record of this run and this code, and every output, and is no input newer?
made() {{
  record=$1 run=$2 code=$3
  shift 3
  while [ "$1" != -- ]; do
    [ -e "$1" ] || return 1
    shift
  done
  shift
  grep -qs "\\"run\\": *\\"$run\\"" "$record" && grep -qs "\\"version\\": *\\"$code\\"" "$record" &&
    {{ [ $# -eq 0 ] || [ -z "$(find "$@" -newer "$record" 2>/dev/null)" ]; }}
}}
say() {{ echo "[$1/{count}] $2" >&2; }}
"""


@dataclass(frozen=True)
class Job:
    """One job of the DAG, as Snakemake would run it.

    ``record`` is the path of the record that it writes, or None if it writes none (render); then ``study``
    and all other fields of a run are empty. ``mem_mb`` and ``gpu`` are the resources that it requests.
    """

    rule: str
    command: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    logs: tuple[str, ...]
    record: str | None
    study: str
    step: str
    labels: dict[str, str]
    scale: str
    seed: int
    settings: dict[str, Any]
    code: str
    named_inputs: dict[str, tuple[str, ...]]
    mem_mb: int = 0
    gpu: int = 0

    @property
    def folder(self) -> str:
        """The folder of the run, or of the first output, or of the log if there are no outputs."""
        return Path(self.record or (*self.outputs, *self.logs)[0]).parent.as_posix()

    @property
    def run(self) -> str:
        """The run id that its record will have."""
        from relearn.runs.record import run_id

        return run_id(self.study, self.step, self.labels, self.scale, self.seed, self.settings)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="*", help="rules or files, as for snakemake; default: everything")
    parser.add_argument("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")
    parser.add_argument("--device", help="auto | cpu | cuda | cuda:N for every job")
    parser.add_argument("--precision", help="fp32 | bf16 for every job")


def main(args: argparse.Namespace) -> int:
    names = ("scale", "device", "precision")
    config = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    jobs = plan([_as_snakemake_has_it(name) for name in args.target], config)
    arguments = [word for name, value in config.items() for word in (f"--{name}", value)] + args.target
    sys.stdout.write(script(jobs, " ".join(["", *map(shlex.quote, arguments)])))
    return 0


def _as_snakemake_has_it(name: str) -> str:
    """A claim without ``claim:`` with it; any other name as it is."""
    from relearn.cli.targets import CLAIM, targets

    return f"{CLAIM}{name}" if f"{CLAIM}{name}" in targets() else name


def script(jobs: Sequence[Job], arguments: str = "") -> str:
    """Return the text of the shell script that runs ``jobs`` in the given order."""
    lines = [
        HEAD.format(
            arguments=arguments,
            count=len(jobs),
            variable=planned_source.VARIABLE,
            source=planned_source.contents(),
        )
    ]
    read = {path for job in jobs for path in job.inputs}
    for number, job in enumerate(jobs, start=1):
        folders = sorted({Path(path).parent.as_posix() for path in (*job.outputs, *job.logs)})
        lines.append(f"\n# {number} {job.rule}: {job.folder}\n")
        if job.record:
            needed = [path for path in job.outputs if path in read]
            known = [job.record, job.run, job.code, *needed, "--", *job.inputs]
            lines.append(f"made {' '.join(map(shlex.quote, known))} || ")
        make = f"mkdir -p {' '.join(map(shlex.quote, folders))} && {job.command}"
        lines.append(f"{{ say {number} {shlex.quote(job.folder)}; {make}; }}\n")
    return "".join(lines)


def plan(targets: Sequence[str] = (), config: dict[str, str] | None = None, root: Path = Path()) -> list[Job]:
    """Return the jobs behind ``targets`` (default: all), each after the jobs whose outputs it reads.

    Args:
        targets: rules or files of the workflow.
        config: as for ``snakemake --config``: scale, device, precision.
        root: the folder of the Snakefile.

    Raises:
        ValueError: Snakemake is not installed or cannot build the DAG; one line.
    """
    with workflow(targets, config, root) as built:
        return [job_of(job) for job in in_order(built) if job.is_shell]


@contextlib.contextmanager
def workflow(
    targets: Sequence[str] = (), config: dict[str, Any] | None = None, root: Path = Path()
) -> Iterator[Any]:
    """Yield Snakemake's own workflow object with its DAG built, silently and without taking its lock."""
    code_version.forget()  # the source may have changed since the last workflow of this process
    if not (root / "Snakefile").is_file():
        raise ValueError(f"{root / 'Snakefile'}: no such file; start this in the root of the checkout")
    try:
        from snakemake.api import SnakemakeApi
        from snakemake.exceptions import RuleException, WorkflowError
        from snakemake.settings.types import (
            ConfigSettings,
            DAGSettings,
            ExecutionSettings,
            OutputSettings,
            Quietness,
            ResourceSettings,
        )

        from snakemake_logger_plugin_relearn.words import unknown_run
    except ImportError as error:
        raise ValueError(
            f"snakemake cannot be imported ({error}); this verb runs where it is installed"
        ) from None
    try:
        with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
            loaded = api.workflow(
                resource_settings=ResourceSettings(cores=1),
                config_settings=ConfigSettings(config=dict(config or {})),
                snakefile=Path("Snakefile") if root == Path() else (root / "Snakefile").absolute(),
                workdir=None if root == Path() else root,
            )
            loaded.dag(DAGSettings(targets=set(targets)))
            built = loaded._workflow
            built.execution_settings = ExecutionSettings()
            # Snakemake's public functions give the DAG only as text or pictures; these two calls are what they do first.
            built._prepare_dag(forceall=False, ignore_incomplete=True, lock_warn_only=False)
            built._build_dag()
            yield built
    except (RuleException, WorkflowError) as error:
        text = " ".join(str(error).split())
        missing = re.match(r"No rule to produce (\S+) \(if", text)
        raise ValueError(unknown(missing[1]) if missing else unknown_run(text) or text) from None


def unknown(name: str) -> str:
    """The message for a target that Snakemake does not know, with the nearest known ones."""
    from relearn.cli.targets import nearest

    near = [] if "/" in name else nearest(name)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"no target or file {name}; {hint}`relearn list` names the targets"


def in_order(built: Any) -> list[Any]:
    """Return Snakemake's jobs in topological order; ties are broken by rule and output names."""
    return [
        job
        for layer in built.dag.toposorted()
        for job in sorted(
            layer, key=lambda job: (job.rule.lineno, job.rule.name, sorted(map(str, job.output)))
        )
    ]


@cache
def _reader(of_a_step: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    if of_a_step:
        cli.add_step_arguments(parser)
    return parser


def job_of(job: Any) -> Job:
    """Convert one of Snakemake's jobs; its arguments are parsed from the command as `relearn` parses them."""
    words = shlex.split(job.shellcmd)
    record = getattr(job.output, "record", None)
    # parse_known_args skips the words of "$(dirname ...)" behind --out, which only the shell evaluates.
    found = _reader(record is not None).parse_known_args(words[2:])[0]
    study, step = (words[1], words[2]) if record is not None else ("", words[1])
    return Job(
        rule=job.rule.name,
        command=job.shellcmd,
        inputs=tuple(map(str, job.input)),
        outputs=tuple(map(str, job.output)),
        logs=tuple(map(str, job.log)),
        record=None if record is None else str(record),
        step=step,
        study=study,
        labels=dict(getattr(found, "label", ())),
        scale=getattr(found, "scale", ""),
        seed=getattr(found, "seed", 0),
        settings=getattr(found, "settings", {}),
        code=str(getattr(job.params, "code", "")),
        named_inputs={name: tuple(paths) for name, *paths in getattr(found, "input", ()) if paths},
        mem_mb=_number(job.resources, "mem_mb"),
        gpu=_number(job.resources, "gpu"),
    )


def _number(resources: Any, name: str) -> int:
    value = resources.get(name, 0)
    return value if isinstance(value, int) else 0
