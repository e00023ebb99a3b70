# Before the first job: print the expected cost and check that the data is there. Skipped at scale mini, which takes only minutes.
from snakemake.exceptions import WorkflowError


def folder_of(job):
    """Return the folder of a job's record; None for a job without one."""
    record = getattr(job.output, "record", None)
    return None if record is None else Path(record).parent.as_posix()


def announce(dag):
    """Print three lines on the pending jobs; stop if data is missing that one of them needs."""
    if SCALE == "mini":
        return
    from relearn.forecast.start import start

    jobs = [job for job in dag.needrun_jobs() if folder_of(job)]
    reasons = {folder_of(job): "new" if dag.reason(job).missing_output else "stale" for job in jobs}
    found = start(PARAMS, list(reasons), reasons, workflow.cores, PRECISION)
    logger.info("\n".join(found.lines))
    if found.refusal:
        raise WorkflowError(found.refusal)


def without_rate_limit(scheduler):
    """Lift Snakemake's default limit of 100 new jobs per second, whose timers outlive their use.

    With a limit, each finished job starts a timer that looks for jobs to start one second later, and then starts the next timer.
    After n jobs, Snakemake therefore looks n times per second, which took a third of a core at the end of scale mini. A limit chosen
    by the caller stays.
    """
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    if limit is not None and (limit.max_jobs, limit.timespan) == (100, 1):
        scheduler.job_rate_limiter = None
