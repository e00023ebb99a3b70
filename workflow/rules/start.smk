# Before the first job: what it will take, and whether the data is there. At scale mini everything is, and it takes minutes.
from snakemake.exceptions import WorkflowError


def folder_of(job):
    """Return the folder of a job's record, None for a job without one."""
    record = getattr(job.output, "record", None)
    return None if record is None else Path(record).parent.as_posix()


def announce(dag):
    """Print three lines on the jobs to come; stop where data is missing that one of them needs."""
    if SCALE == "mini":
        return
    from relearn.forecast.start import start

    jobs = [job for job in dag.needrun_jobs() if folder_of(job)]
    reasons = {folder_of(job): "new" if dag.reason(job).missing_output else "stale" for job in jobs}
    found = start(PARAMS, list(reasons), reasons, workflow.cores)
    logger.info("\n".join(found.lines))
    if found.refusal:
        raise WorkflowError(found.refusal)
