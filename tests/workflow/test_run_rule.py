"""What makes a job stale, and what does not: the parameters that Snakemake compares with those of the last time.

The rule that renders: what makes it stale, and that a failure costs no table and no figure that was there.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from relearn.cli import jobs
from relearn.studies import parameters
from relearn.studies.lrformer.plan import plan

CHECKOUT = Path(__file__).resolve().parents[2]
TARGETS = ["poisoning", "freelb"]  # runs with and without inputs, wildcards and a seed of their own


def compared(config: dict[str, str]) -> dict[str, list[Any]]:
    """Record → the parameters that count for `rerun-triggers: params`."""
    with jobs.workflow(TARGETS, config, CHECKOUT) as built:
        found = [job for job in built.dag.jobs if job.is_shell]
        return {job.output.record: [*map(str, job.non_derived_params), job.rule.shellcmd] for job in found}


def test_another_machine_makes_no_job_stale() -> None:
    one = compared({"device": "cpu", "precision": "fp32"})
    assert one == compared({"device": "cuda:1", "precision": "bf16"})
    for words in one.values():
        assert not {"cpu", "fp32"} & set(" ".join(words).split())


def test_settings_code_labels_and_seed_count() -> None:
    with jobs.workflow(TARGETS, root=CHECKOUT) as built:
        for job in (job for job in built.dag.jobs if job.is_shell):
            found, counted = jobs.job_of(job), [*map(str, job.non_derived_params)]
            labels = [word for name, value in found.labels.items() for word in ("--label", f"{name}={value}")]
            assert {str(job.params.settings), found.code, str(labels)} <= set(counted)
            assert found.seed == 0 or str(["--seed", str(found.seed)]) in counted
            assert not any(path in " ".join(counted) for path in found.inputs)


def test_a_machine_without_gpus_and_a_time_limit_are_resources() -> None:
    needs = [family.needs for family in plan(parameters.load(CHECKOUT / "params.yaml"), "mini").values()]
    assert {one.gpu for one in needs} == {0, 1} and {30, 60, 1440} <= {one.minutes for one in needs}
    with jobs.workflow(["lrformer"], {"device": "cpu", "minutes": 45}, CHECKOUT) as built:
        found = [job.resources for job in built.dag.jobs if job.is_shell]
    assert {one.gpu for one in found} == {0}
    assert {one.runtime for one in found} == {30, 45}  # a shorter one keeps its own


@pytest.mark.slow
def test_a_rendering_that_fails_leaves_the_old_files_and_the_next_one_replaces_them(scratch: Any) -> None:
    scratch.ask([])  # everything is done
    promised = [scratch.root / path for path in json.loads((scratch.root / "promised.json").read_text())]
    assert len(promised) > 300

    def contents() -> set[str]:
        return {path.read_text() for path in promised if path.exists()}

    for path in promised:
        path.write_text("from before\n")
    program = scratch.root / "bin/relearn"
    works = program.read_text()
    snakemake = ("snakemake", "--cores", "1", "--", "render_all")

    scratch.edit("src/relearn/report/report.css", "78rem", "80rem")
    program.write_text(works.replace("exec", '[ "$1" = render ] && exit 1\nexec', 1))
    failed = scratch.run(*snakemake, ok=False)
    assert failed.returncode != 0 and "FAILED: render, after " in failed.stderr
    assert contents() == {"from before\n"}
    assert [path.name for path in promised if not path.exists()] == ["metrics.json"], (
        "what asks for the rule again"
    )

    program.write_text(works)
    scratch.run(*snakemake)
    assert "from before\n" not in contents()
    assert scratch.ran() == {"render": 1}

    scratch.edit("src/relearn/report/report.html.j2", "<h1>", '<h1 id="top">')
    scratch.run(*snakemake)
    assert scratch.ran() == {"render": 1}
